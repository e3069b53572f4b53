//! Reads a coordinator's log from its start to its end, batch by batch.

use bytes::Bytes;
use millstream_io::batch::{RecordBatchHeader, stored};
use millstream_io::runtime::Pool;
use millstream_io::units::{Offset, TopicPartition, bytes_u64, bytes_usize};
use millstream_shards::message::{Chunk, Isolation, Read, ReadLimits};
use millstream_shards::query::{OffsetQuery, OffsetSpec};
use millstream_shards::router::Router;

use super::limits::LOAD_READ_BYTES;

/// Gives every batch of the log to `visit`, in order; the bytes of all.
///
/// # Errors
/// The log cannot be read, or what `visit` says, in words.
pub async fn scan(
    router: &Router,
    pool: &Pool,
    at: TopicPartition,
    mut visit: impl FnMut(&RecordBatchHeader<'_>, &[u8]) -> Result<(), String>,
) -> Result<u64, String> {
    let mut total = 0;
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
            return Ok(total);
        }
        for chunk in plan.chunks {
            let bytes = bytes_of(chunk, pool).await?;
            total += bytes_u64(bytes.len());
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
