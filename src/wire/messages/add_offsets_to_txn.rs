//! AddOffsetsToTxn (key 25).

use crate::wire::declare::wire;

wire! {
    /// Adds a group's offsets partition to a transaction.
    request AddOffsetsToTxnRequest<'a> for AddOffsetsToTxn, versions 0-4, flexible 3 {
        transactional_id: &'a str;
        producer_id: i64;
        producer_epoch: i16;
        group_id: &'a str;
    }

    /// Answer to [`AddOffsetsToTxnRequest`].
    response AddOffsetsToTxnResponse for AddOffsetsToTxn, versions 0-4, flexible 3 {
        throttle_time_ms: i32;
        error_code: i16;
    }
}
