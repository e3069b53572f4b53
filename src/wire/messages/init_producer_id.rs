//! InitProducerId (key 22).

use crate::wire::declare::wire;

wire! {
    /// Asks for a producer id and epoch, and resumes or fences a transactional id (KIP-360).
    request InitProducerIdRequest<'a> for InitProducerId, versions 0-5, flexible 2 {
        /// Null when the producer is only idempotent.
        transactional_id: Option<&'a str> = Some("");
        transaction_timeout_ms: i32;
        /// With the epoch: the identity to go on with, or -1 (KIP-360).
        producer_id: i64 = -1, in 3+;
        producer_epoch: i16 = -1, in 3+;
    }

    /// Answer to [`InitProducerIdRequest`].
    response InitProducerIdResponse for InitProducerId, versions 0-5, flexible 2 {
        throttle_time_ms: i32;
        error_code: i16;
        producer_id: i64 = -1;
        producer_epoch: i16;
    }
}
