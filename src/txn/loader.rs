//! Reads a partition of `__transaction_state` from its start to its end.

use super::log_record::LogRecord;
use crate::coordinator::log_scan::{Loaded, scan};
use millstream_io::runtime::Pool;
use millstream_io::units::TopicPartition;
use millstream_shards::router::Router;

/// Gives every record of the log to `replay`, in order.
///
/// # Errors
/// The log cannot be read, in words.
pub async fn load(
    router: &Router,
    pool: &Pool,
    at: TopicPartition,
    mut replay: impl FnMut(LogRecord),
) -> Result<Loaded, String> {
    scan(router, pool, at, |header, batch, loaded| {
        if header.attributes().is_control() {
            return Ok(());
        }
        loaded.read(batch, |key, value| LogRecord::decode(key, value).map(&mut replay).is_ok())
    })
    .await
}
