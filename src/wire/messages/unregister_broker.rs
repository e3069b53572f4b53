//! UnregisterBroker (key 64).

use crate::wire::declare::wire;

wire! {
    /// Removes a broker's registration.
    request UnregisterBrokerRequest for UnregisterBroker, versions 0-0, flexible 0 {
        broker_id: i32;
    }

    /// Answer to [`UnregisterBrokerRequest`].
    response UnregisterBrokerResponse<'a> for UnregisterBroker, versions 0-0, flexible 0 {
        throttle_time_ms: i32;
        error_code: i16;
        error_message: Option<&'a str> = Some("");
    }
}
