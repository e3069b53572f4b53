//! Reads a partition of `__transaction_state` from its start to its end.

use super::log_record::LogRecord;
use crate::group::log_scan::scan;
use millstream_io::batch::RecordBatchHeader;
use millstream_io::records::{Keep, Records};
use millstream_io::runtime::Pool;
use millstream_io::units::TopicPartition;
use millstream_shards::router::Router;

/// What a load came upon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    pub records: u64,
    pub bytes: u64,
    /// Records that could not be read; what they said is lost.
    pub unreadable: u64,
}

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
    let mut loaded = Loaded::default();
    let visit = |header: &RecordBatchHeader<'_>, batch: &[u8]| {
        if header.attributes().is_control() {
            return Ok(());
        }
        let mut reader =
            Records::open(batch, Keep::KeysAndValues).map_err(|error| error.to_string())?;
        while let Some(record) = reader.next_record().map_err(|error| error.to_string())? {
            loaded.records += 1;
            match record.key.map(|key| LogRecord::decode(key, record.value)) {
                Some(Ok(decoded)) => replay(decoded),
                Some(Err(_)) | None => loaded.unreadable += 1,
            }
        }
        Ok(())
    };
    let bytes = scan(router, pool, at, visit).await?;
    Ok(Loaded { bytes, ..loaded })
}
