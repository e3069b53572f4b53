//! AllocateProducerIds (key 67).

use crate::wire::declare::wire;

wire! {
    /// Asks the controller for a block of producer ids (KIP-730).
    request AllocateProducerIdsRequest for AllocateProducerIds, versions 0-0, flexible 0 {
        broker_id: i32;
        broker_epoch: i64 = -1;
    }

    /// Answer to [`AllocateProducerIdsRequest`].
    response AllocateProducerIdsResponse for AllocateProducerIds, versions 0-0, flexible 0 {
        throttle_time_ms: i32;
        error_code: i16;
        producer_id_start: i64;
        producer_id_len: i32;
    }
}
