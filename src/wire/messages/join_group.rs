//! JoinGroup (key 11).

use crate::wire::declare::wire;

wire! {
    /// Joins a classic group, or rejoins it to start a rebalance.
    request JoinGroupRequest<'a> for JoinGroup, versions 0-9, flexible 6 {
        group_id: &'a str;
        session_timeout_ms: i32;
        /// -1 in version 0: the session timeout counts.
        rebalance_timeout_ms: i32 = -1, in 1+, else ignored;
        member_id: &'a str;
        group_instance_id: Option<&'a str> = None, in 5+;
        protocol_type: &'a str;
        protocols: Vec<JoinGroupRequestProtocol<'a>>;
        reason: Option<&'a str> = None, in 8+, else ignored;
    }

    /// An element of `protocols` in [`JoinGroupRequest`].
    struct JoinGroupRequestProtocol<'a> {
        name: &'a str;
        metadata: &'a [u8];
    }

    /// Answer to [`JoinGroupRequest`].
    response JoinGroupResponse<'a> for JoinGroup, versions 0-9, flexible 6 {
        throttle_time_ms: i32, in 2+, else ignored;
        error_code: i16;
        generation_id: i32 = -1;
        protocol_type: Option<&'a str> = None, in 7+, else ignored;
        protocol_name: Option<&'a str> = Some(""), nullable 7+;
        leader: &'a str;
        skip_assignment: bool, in 9+;
        member_id: &'a str;
        members: Vec<JoinGroupResponseMember<'a>>;
    }

    /// An element of `members` in [`JoinGroupResponse`].
    struct JoinGroupResponseMember<'a> {
        member_id: &'a str;
        group_instance_id: Option<&'a str> = None, in 5+, else ignored;
        metadata: &'a [u8];
    }
}
