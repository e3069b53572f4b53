//! BrokerHeartbeat (key 63).

use crate::wire::declare::wire;
use crate::wire::primitives::Uuid;

wire! {
    /// Keeps a broker's registration alive (KIP-631).
    request BrokerHeartbeatRequest for BrokerHeartbeat, versions 0-1, flexible 0 {
        broker_id: i32;
        broker_epoch: i64 = -1;
        current_metadata_offset: i64;
        want_fence: bool;
        want_shut_down: bool;
        offline_log_dirs: Vec<Uuid>, in 1+, tag 0;
    }

    /// Answer to [`BrokerHeartbeatRequest`].
    response BrokerHeartbeatResponse for BrokerHeartbeat, versions 0-1, flexible 0 {
        throttle_time_ms: i32;
        error_code: i16;
        is_caught_up: bool;
        is_fenced: bool = true;
        should_shut_down: bool;
    }
}
