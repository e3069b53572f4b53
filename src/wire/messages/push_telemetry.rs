//! PushTelemetry (key 72).

use crate::wire::declare::wire;
use crate::wire::primitives::Uuid;

wire! {
    /// Sends client metrics (KIP-714).
    request PushTelemetryRequest<'a> for PushTelemetry, versions 0-0, flexible 0 {
        client_instance_id: Uuid;
        subscription_id: i32;
        terminating: bool;
        compression_type: i8;
        metrics: &'a [u8];
    }

    /// Answer to [`PushTelemetryRequest`].
    response PushTelemetryResponse for PushTelemetry, versions 0-0, flexible 0 {
        throttle_time_ms: i32;
        error_code: i16;
    }
}
