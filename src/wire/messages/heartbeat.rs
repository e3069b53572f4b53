//! Heartbeat (key 12).

use crate::wire::declare::wire;

wire! {
    /// Keeps a member of a classic group alive.
    request HeartbeatRequest<'a> for Heartbeat, versions 0-4, flexible 4 {
        group_id: &'a str;
        generation_id: i32;
        member_id: &'a str;
        group_instance_id: Option<&'a str> = None, in 3+;
    }

    /// Answer to [`HeartbeatRequest`].
    response HeartbeatResponse for Heartbeat, versions 0-4, flexible 4 {
        throttle_time_ms: i32, in 1+, else ignored;
        error_code: i16;
    }
}
