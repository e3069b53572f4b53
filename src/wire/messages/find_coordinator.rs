//! FindCoordinator (key 10).

use crate::wire::declare::wire;

wire! {
    /// Asks which broker coordinates a group, transactional id or share partition (KIP-699).
    request FindCoordinatorRequest<'a> for FindCoordinator, versions 0-6, flexible 3 {
        key: &'a str, in 0-3;
        key_type: i8, in 1+;
        coordinator_keys: Vec<&'a str>, in 4+;
    }

    /// Answer to [`FindCoordinatorRequest`].
    response FindCoordinatorResponse<'a> for FindCoordinator, versions 0-6, flexible 3 {
        throttle_time_ms: i32, in 1+, else ignored;
        error_code: i16, in 0-3;
        error_message: Option<&'a str> = Some(""), in 1-3, else ignored;
        node_id: i32, in 0-3;
        host: &'a str, in 0-3;
        port: i32, in 0-3;
        coordinators: Vec<Coordinator<'a>>, in 4+;
    }

    /// An element of `coordinators` in [`FindCoordinatorResponse`].
    struct Coordinator<'a> {
        key: &'a str;
        node_id: i32;
        host: &'a str;
        port: i32;
        error_code: i16;
        error_message: Option<&'a str> = Some("");
    }
}
