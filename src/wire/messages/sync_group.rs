//! SyncGroup (key 14).

use crate::wire::declare::wire;

wire! {
    /// Hands in (leader) or picks up (others) the assignment of a classic group.
    request SyncGroupRequest<'a> for SyncGroup, versions 0-5, flexible 4 {
        group_id: &'a str;
        generation_id: i32;
        member_id: &'a str;
        group_instance_id: Option<&'a str> = None, in 3+;
        protocol_type: Option<&'a str> = None, in 5+, else ignored;
        protocol_name: Option<&'a str> = None, in 5+, else ignored;
        /// Filled by the leader only.
        assignments: Vec<SyncGroupRequestAssignment<'a>>;
    }

    /// An element of `assignments` in [`SyncGroupRequest`].
    struct SyncGroupRequestAssignment<'a> {
        member_id: &'a str;
        assignment: &'a [u8];
    }

    /// Answer to [`SyncGroupRequest`].
    response SyncGroupResponse<'a> for SyncGroup, versions 0-5, flexible 4 {
        throttle_time_ms: i32, in 1+, else ignored;
        error_code: i16;
        protocol_type: Option<&'a str> = None, in 5+, else ignored;
        protocol_name: Option<&'a str> = None, in 5+, else ignored;
        assignment: &'a [u8];
    }
}
