//! ControllerRegistration (key 70).

use crate::wire::declare::wire;
use crate::wire::primitives::Uuid;

wire! {
    /// Registers a controller (KIP-919).
    request ControllerRegistrationRequest<'a>
        for ControllerRegistration, versions 0-0, flexible 0
    {
        controller_id: i32;
        incarnation_id: Uuid;
        zk_migration_ready: bool;
        listeners: Vec<Listener<'a>>;
        features: Vec<Feature<'a>>;
    }

    /// An element of `listeners` in [`ControllerRegistrationRequest`].
    struct Listener<'a> {
        name: &'a str;
        host: &'a str;
        port: u16;
        security_protocol: i16;
    }

    /// An element of `features` in [`ControllerRegistrationRequest`].
    struct Feature<'a> {
        name: &'a str;
        min_supported_version: i16;
        max_supported_version: i16;
    }

    /// Answer to [`ControllerRegistrationRequest`].
    response ControllerRegistrationResponse<'a>
        for ControllerRegistration, versions 0-0, flexible 0
    {
        throttle_time_ms: i32;
        error_code: i16;
        error_message: Option<&'a str> = Some("");
    }
}
