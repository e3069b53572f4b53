//! Reads a partition of `__consumer_offsets` from its start to its end.

use super::ask::InTransaction;
use super::log_record::LogRecord;
use super::log_scan::scan;
use super::partition::Logged;
use millstream_io::batch::{EndMarker, RecordBatchHeader};
use millstream_io::records::{Keep, Records};
use millstream_io::runtime::Pool;
use millstream_io::units::{Offset, ProducerStamp, TopicPartition};
use millstream_shards::router::Router;

/// What a load came upon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    pub records: u64,
    pub bytes: u64,
    /// Records that could not be read; what they said is lost.
    pub unreadable: u64,
}

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
    let mut loaded = Loaded::default();
    let bytes =
        scan(router, pool, at, |header, batch| records(header, batch, &mut loaded, &mut replay))
            .await?;
    Ok(Loaded { bytes, ..loaded })
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
    let mut reader =
        Records::open(batch, Keep::KeysAndValues).map_err(|error| error.to_string())?;
    while let Some(record) = reader.next_record().map_err(|error| error.to_string())? {
        loaded.records += 1;
        match record.key.map(|key| LogRecord::decode(key, record.value)) {
            Some(Ok(record)) => replay(Logged::Record { record: Box::new(record), by }, at),
            Some(Err(_)) | None => loaded.unreadable += 1,
        }
    }
    Ok(())
}
