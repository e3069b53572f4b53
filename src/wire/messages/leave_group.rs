//! LeaveGroup (key 13).

use crate::wire::declare::wire;

wire! {
    /// Takes members out of a classic group; from version 3 on many at once (KIP-345).
    request LeaveGroupRequest<'a> for LeaveGroup, versions 0-5, flexible 4 {
        group_id: &'a str;
        member_id: &'a str, in 0-2;
        members: Vec<MemberIdentity<'a>>, in 3+;
    }

    /// An element of `members` in [`LeaveGroupRequest`].
    struct MemberIdentity<'a> {
        member_id: &'a str;
        group_instance_id: Option<&'a str> = None;
        reason: Option<&'a str> = None, in 5+, else ignored;
    }

    /// Answer to [`LeaveGroupRequest`].
    response LeaveGroupResponse<'a> for LeaveGroup, versions 0-5, flexible 4 {
        throttle_time_ms: i32, in 1+, else ignored;
        error_code: i16;
        members: Vec<MemberResponse<'a>>, in 3+;
    }

    /// An element of `members` in [`LeaveGroupResponse`].
    struct MemberResponse<'a> {
        member_id: &'a str;
        group_instance_id: Option<&'a str> = Some("");
        error_code: i16;
    }
}
