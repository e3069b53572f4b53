//! Reads a partition of `__consumer_offsets` from its start to its end.

use super::ask::InTransaction;
use super::log_record::LogRecord;
use super::partition::Logged;
use bytes::Bytes;
use millstream_io::batch::{EndMarker, RecordBatchHeader, stored};
use millstream_io::records::{Keep, Records};
use millstream_io::runtime::Pool;
use millstream_io::units::{Offset, ProducerStamp, TopicPartition, bytes_usize};
use millstream_shards::message::{Chunk, Isolation, Read, ReadLimits};
use millstream_shards::router::Router;

use super::limits::LOAD_READ_BYTES;

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
    let mut offset = start(router, at).await?;
    loop {
        let read =
            Read { at, offset, bytes_max: LOAD_READ_BYTES, current: None, last_fetched: None };
        let limits =
            ReadLimits { bytes_max: LOAD_READ_BYTES, isolation: Isolation::ReadUncommitted };
        let plan = match router.read(vec![read], limits).await.into_iter().next() {
            Some(Ok(plan)) => plan,
            Some(Err(error)) => return Err(error.to_string()),
            None => return Err(format!("{at}: a read was not answered")),
        };
        if plan.chunks.is_empty() {
            return Ok(loaded);
        }
        for chunk in plan.chunks {
            let bytes = bytes_of(chunk, pool).await?;
            offset = batches(&bytes, offset, &mut loaded, &mut replay)?;
        }
    }
}

async fn start(router: &Router, at: TopicPartition) -> Result<Offset, String> {
    use millstream_shards::query::{OffsetQuery, OffsetSpec};
    let isolation = Isolation::ReadUncommitted;
    let query = OffsetQuery { at, current: None, isolation, spec: OffsetSpec::Earliest };
    match router.offset_for(vec![query]).await.into_iter().next() {
        Some(Ok(found)) => Ok(found.offset.unwrap_or(Offset::ZERO)),
        Some(Err(error)) => Err(error.to_string()),
        None => Err(format!("{at}: a question was not answered")),
    }
}

/// The bytes of a piece of log; from a file through the pool.
async fn bytes_of(chunk: Chunk, pool: &Pool) -> Result<Bytes, String> {
    let (file, position, len) = match chunk {
        Chunk::Memory(bytes) => return Ok(bytes),
        Chunk::File { file, position, len } => (file, position, bytes_usize(len)),
    };
    let read = move || {
        let mut bytes = vec![0; len];
        let got = file.file().read_at(&mut bytes, position).map_err(|error| error.to_string())?;
        bytes.truncate(got);
        Ok::<_, String>(Bytes::from(bytes))
    };
    pool.run(read).await.map_err(|error| error.to_string())?
}

/// Replays whole batches; says what offset comes next.
fn batches(
    mut bytes: &[u8],
    mut offset: Offset,
    loaded: &mut Loaded,
    replay: &mut impl FnMut(Logged, Offset),
) -> Result<Offset, String> {
    while !bytes.is_empty() {
        let (_, total) = stored::frame(bytes).map_err(|error| error.to_string())?;
        let Some(batch) = bytes.get(..total) else {
            return Err(format!("a batch of {total} bytes at {offset} was read in part"));
        };
        let header = stored::whole(batch).map_err(|error| error.to_string())?;
        records(&header, batch, loaded, replay)?;
        offset = header.next_offset().unwrap_or(offset);
        loaded.bytes += millstream_io::units::bytes_u64(total);
        bytes = &bytes[total..];
    }
    Ok(offset)
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
