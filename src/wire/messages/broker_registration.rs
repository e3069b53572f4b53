//! BrokerRegistration (key 62).

use crate::wire::declare::wire;
use crate::wire::primitives::Uuid;

wire! {
    /// Registers a broker with the controller (KIP-631).
    request BrokerRegistrationRequest<'a> for BrokerRegistration, versions 0-4, flexible 0 {
        broker_id: i32;
        cluster_id: &'a str;
        incarnation_id: Uuid;
        listeners: Vec<Listener<'a>>;
        features: Vec<Feature<'a>>;
        rack: Option<&'a str> = Some("");
        is_migrating_zk_broker: bool, in 1+;
        log_dirs: Vec<Uuid>, in 2+, else ignored;
        previous_broker_epoch: i64 = -1, in 3+, else ignored;
    }

    /// An element of `listeners` in [`BrokerRegistrationRequest`].
    struct Listener<'a> {
        name: &'a str;
        host: &'a str;
        port: u16;
        security_protocol: i16;
    }

    /// An element of `features` in [`BrokerRegistrationRequest`].
    struct Feature<'a> {
        name: &'a str;
        min_supported_version: i16;
        max_supported_version: i16;
    }

    /// Answer to [`BrokerRegistrationRequest`].
    response BrokerRegistrationResponse for BrokerRegistration, versions 0-4, flexible 0 {
        throttle_time_ms: i32;
        error_code: i16;
        broker_epoch: i64 = -1;
    }
}
