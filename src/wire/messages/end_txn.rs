//! EndTxn (key 26).

use crate::wire::declare::wire;

wire! {
    /// Commits or aborts a transaction; version 5 bumps the epoch (KIP-890).
    request EndTxnRequest<'a> for EndTxn, versions 0-5, flexible 3 {
        transactional_id: &'a str;
        producer_id: i64;
        producer_epoch: i16;
        committed: bool;
    }

    /// Answer to [`EndTxnRequest`].
    response EndTxnResponse for EndTxn, versions 0-5, flexible 3 {
        throttle_time_ms: i32;
        error_code: i16;
        producer_id: i64 = -1, in 5+, else ignored;
        producer_epoch: i16 = -1, in 5+, else ignored;
    }
}
