//! Reads a partition of `__consumer_offsets` from its start to its end.

use super::ask::InTransaction;
use super::log_record::LogRecord;
use super::partition::Logged;
use crate::coordinator::log_scan::{Loaded, scan};
use millstream_io::batch::{EndMarker, RecordBatchHeader};
use millstream_io::runtime::Pool;
use millstream_io::units::{Offset, ProducerStamp, TopicPartition};
use millstream_shards::router::Router;

/// Gives every record and every marker of the log to `replay`, in order, with the offset of the
/// batch.
///
/// # Errors
/// The log cannot be read, in words.
pub async fn load(
    router: &Router,
    pool: &Pool,
    at: TopicPartition,
    mut replay: impl FnMut(Logged, Offset),
) -> Result<Loaded, String> {
    scan(router, pool, at, |header, batch, loaded| records(header, batch, loaded, &mut replay))
        .await
}

fn records(
    header: &RecordBatchHeader<'_>,
    batch: &[u8],
    loaded: &mut Loaded,
    replay: &mut impl FnMut(Logged, Offset),
) -> Result<(), String> {
    let at = header.base_offset().unwrap_or(Offset::ZERO);
    if header.attributes().is_control() {
        // Other control records concern no coordinator.
        if let Some(EndMarker { producer, outcome, .. }) = EndMarker::read(batch) {
            replay(Logged::End { producer, outcome }, at);
        }
        return Ok(());
    }
    let transactional = header.producer().filter(|_| header.attributes().is_transactional());
    let by =
        transactional.map(|ProducerStamp { id, epoch, .. }| InTransaction { producer: id, epoch });
    loaded.read(batch, |key, value| match LogRecord::decode(key, value) {
        Ok(record) => {
            replay(Logged::Record { record: Box::new(record), by }, at);
            true
        }
        Err(_) => false,
    })
}
