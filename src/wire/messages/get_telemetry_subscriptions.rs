//! GetTelemetrySubscriptions (key 71).

use crate::wire::declare::wire;
use crate::wire::primitives::Uuid;

wire! {
    /// Asks which metrics the broker wants from this client (KIP-714).
    request GetTelemetrySubscriptionsRequest
        for GetTelemetrySubscriptions, versions 0-0, flexible 0
    {
        client_instance_id: Uuid;
    }

    /// Answer to [`GetTelemetrySubscriptionsRequest`].
    response GetTelemetrySubscriptionsResponse<'a>
        for GetTelemetrySubscriptions, versions 0-0, flexible 0
    {
        throttle_time_ms: i32;
        error_code: i16;
        client_instance_id: Uuid;
        subscription_id: i32;
        accepted_compression_types: Vec<i8>;
        push_interval_ms: i32;
        telemetry_max_bytes: i32;
        delta_temporality: bool;
        requested_metrics: Vec<&'a str>;
    }
}
