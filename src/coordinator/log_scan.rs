//! Reads a coordinator's log from its start to its end, batch by batch.

use bytes::Bytes;
use millstream_io::batch::{RecordBatchHeader, stored};
use millstream_io::records::{Keep, Records};
use millstream_io::runtime::Pool;
use millstream_io::units::{Offset, TopicPartition, bytes_u64, bytes_usize};
use millstream_shards::message::{Chunk, Isolation, Read, ReadLimits};
use millstream_shards::query::{OffsetQuery, OffsetSpec};
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

impl Loaded {
    /// Gives key and value of each record of a batch to `read`, which says whether it understood them.
    ///
    /// # Errors
    /// The batch cannot be opened, in words.
    pub fn read(
        &mut self,
        batch: &[u8],
        mut read: impl FnMut(&[u8], Option<&[u8]>) -> bool,
    ) -> Result<(), String> {
        let mut records =
            Records::open(batch, Keep::KeysAndValues).map_err(|error| error.to_string())?;
        while let Some(record) = records.next_record().map_err(|error| error.to_string())? {
            self.records += 1;
            if !record.key.is_some_and(|key| read(key, record.value)) {
                self.unreadable += 1;
            }
        }
        Ok(())
    }
}

/// Gives every batch of the log to `visit`, in order, with what the load has come upon.
///
/// # Errors
/// The log cannot be read, or what `visit` says, in words.
pub async fn scan(
    router: &Router,
    pool: &Pool,
    at: TopicPartition,
    mut visit: impl FnMut(&RecordBatchHeader<'_>, &[u8], &mut Loaded) -> Result<(), String>,
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
            loaded.bytes += bytes_u64(bytes.len());
            let mut visit =
                |header: &RecordBatchHeader<'_>, batch: &[u8]| visit(header, batch, &mut loaded);
            offset = batches(&bytes, offset, &mut visit)?;
        }
    }
}

async fn start(router: &Router, at: TopicPartition) -> Result<Offset, String> {
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

/// Visits whole batches; says what offset comes next.
fn batches(
    mut bytes: &[u8],
    mut offset: Offset,
    visit: &mut impl FnMut(&RecordBatchHeader<'_>, &[u8]) -> Result<(), String>,
) -> Result<Offset, String> {
    while !bytes.is_empty() {
        let (_, total) = stored::frame(bytes).map_err(|error| error.to_string())?;
        let Some(batch) = bytes.get(..total) else {
            return Err(format!("a batch of {total} bytes at {offset} was read in part"));
        };
        let header = stored::whole(batch).map_err(|error| error.to_string())?;
        visit(&header, batch)?;
        offset = header.next_offset().unwrap_or(offset);
        bytes = &bytes[total..];
    }
    Ok(offset)
}
