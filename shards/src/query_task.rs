//! Offsets of one shard by position or by time.

use std::path::PathBuf;

use bytes::Bytes;
use millstream_io::disk::{CoreDisk, DiskErrorKind};
use millstream_io::records::lookup::{self, Found};
use millstream_io::segment::SegmentFile;
use millstream_io::units::{Offset, SegmentId, TimestampMs, TopicPartition};

use crate::cold::{self, ColdError};
use crate::message::Isolation;
use crate::query::{OffsetFound, OffsetQuery, OffsetSpec, QueryError};
use crate::seek::{Seek, SeekAsk, SeekStep};
use crate::shard::Shard;

/// Answers in order. Positions come from memory; a time may take looks into files, one job each.
pub async fn offsets<D: CoreDisk>(
    shard: &Shard,
    disk: &D,
    queries: &[OffsetQuery],
) -> Vec<Result<OffsetFound, QueryError>> {
    let mut found = Vec::with_capacity(queries.len());
    for query in queries {
        found.push(offset(shard, disk, query).await);
    }
    found
}

async fn offset<D: CoreDisk>(
    shard: &Shard,
    disk: &D,
    query: &OffsetQuery,
) -> Result<OffsetFound, QueryError> {
    let isolation = query.isolation;
    match query.spec {
        OffsetSpec::Earliest | OffsetSpec::EarliestLocal => shard.with(|shard| {
            let log = shard.known(query.at, query.current)?;
            let start = log.marks.log_start();
            let epoch = log.epochs.epoch_at(start);
            Ok(OffsetFound { offset: Some(start), timestamp: None, epoch })
        }),
        OffsetSpec::Latest => shard.with(|shard| {
            let log = shard.known(query.at, query.current)?;
            let end = log.readable(isolation).0;
            Ok(OffsetFound { offset: Some(end), timestamp: None, epoch: Some(log.epoch) })
        }),
        OffsetSpec::LatestTiered | OffsetSpec::EarliestPendingUpload => shard.with(|shard| {
            // Everything is on this machine's disk.
            shard.known(query.at, query.current).map(|_| OffsetFound::default())
        }),
        OffsetSpec::Timestamp(time) => by_time(shard, disk, query, time, isolation).await,
        OffsetSpec::MaxTimestamp => latest(shard, disk, query).await,
    }
}

/// The first record with the largest timestamp. What segments know of it is tried first; it may
/// belong to a record that is deleted or not readable yet.
async fn latest<D: CoreDisk>(
    shard: &Shard,
    disk: &D,
    query: &OffsetQuery,
) -> Result<OffsetFound, QueryError> {
    for _ in 0..LOOKS {
        let known = shard
            .with(|shard| shard.known(query.at, query.current).map(|log| log.max_timestamp()))?;
        let Some(time) = known else { break };
        let found = by_time(shard, disk, query, time, query.isolation).await?;
        if found.offset.is_some() {
            return Ok(found);
        }
        let Some(time) = latest_time(shard, disk, query).await? else { break };
        let found = by_time(shard, disk, query, time, query.isolation).await?;
        if found.offset.is_some() {
            return Ok(found);
        }
        // It was deleted in between.
    }
    Ok(OffsetFound::default())
}

/// The largest timestamp of readable records, exactly.
async fn latest_time<D: CoreDisk>(
    shard: &Shard,
    disk: &D,
    query: &OffsetQuery,
) -> Result<Option<TimestampMs>, QueryError> {
    let at = query.at;
    loop {
        let (mut latest, dir) = shard.with(|shard| {
            let log = shard.known(at, query.current)?;
            let dir = shard.layout.partition(log.topic_name(), at.partition);
            Ok((log.latest(query.isolation), dir))
        })?;
        let mut moved = false;
        for ask in std::mem::take(&mut latest.asks) {
            let (blocking, dir, segment) = (disk.blocking(), dir.clone(), ask.segment);
            let path = segment.path(&dir, SegmentFile::Log);
            let looked = disk.run(move || cold::latest(&blocking, &dir, &ask)).await;
            match looked.unwrap_or_else(|error| Err(ColdError::Disk(error))) {
                Ok(time) => latest.add(time),
                Err(_) if is_gone(shard, query, segment)? => moved = true,
                Err(error) => return Err(query_error(at, path, error)),
            }
        }
        if !moved {
            return Ok(latest.known.filter(|time| !time.is_none()));
        }
    }
}

/// Whether a segment was deleted since it was chosen.
fn is_gone(shard: &Shard, query: &OffsetQuery, id: SegmentId) -> Result<bool, QueryError> {
    shard.with(|shard| Ok(shard.known(query.at, query.current)?.segments.get(id).is_none()))
}

fn query_error(at: TopicPartition, path: PathBuf, error: ColdError) -> QueryError {
    match error {
        ColdError::Damaged { offset, .. } => QueryError::Corrupt { at, offset },
        ColdError::Disk(error) if error.kind == DiskErrorKind::Stopped => QueryError::Stopping,
        ColdError::Disk(error) => QueryError::Storage { at, path, reason: error.to_string() },
    }
}

async fn by_time<D: CoreDisk>(
    shard: &Shard,
    disk: &D,
    query: &OffsetQuery,
    time: TimestampMs,
    isolation: Isolation,
) -> Result<OffsetFound, QueryError> {
    let at = query.at;
    let mut from = Offset::ZERO;
    loop {
        let step = shard.with(|shard| {
            let log = shard.known(at, query.current)?;
            Ok(log.seek(&Seek { time, from, isolation }))
        })?;
        let batch = match step {
            SeekStep::Nothing => return Ok(OffsetFound::default()),
            SeekStep::Found(batch) => batch,
            SeekStep::Cold(ask) => {
                let (segment, next) = (ask.segment, ask.next);
                match look_up(shard, disk, at, ask).await {
                    Ok(Some(batch)) => batch,
                    Ok(None) => {
                        from = next;
                        continue;
                    }
                    // Deleted meanwhile: the answer lies behind, and another look finds it.
                    Err(_) if is_gone(shard, query, segment)? => continue,
                    Err(error) => return Err(error),
                }
            }
        };
        let (record, next) = decode(shard, disk, at, batch, time).await?;
        // Records below the log start, and those that are not readable yet, do not count.
        let found = shard.with_mut(|shard| {
            shard.metrics.record_decode_total += 1;
            let log = shard.known(at, query.current)?;
            let end = log.readable(isolation).0;
            let record = record
                .filter(|record| record.offset >= log.marks.log_start() && record.offset < end);
            Ok(record.map(|record| OffsetFound {
                offset: Some(record.offset),
                timestamp: Some(record.timestamp),
                epoch: log.epochs.epoch_at(record.offset),
            }))
        })?;
        if let Some(found) = found {
            return Ok(found);
        }
        from = next;
    }
}

/// Decompresses and walks one batch on the helper pool; also says the offset behind it.
async fn decode<D: CoreDisk>(
    shard: &Shard,
    disk: &D,
    at: TopicPartition,
    batch: Bytes,
    time: TimestampMs,
) -> Result<(Option<Found>, Offset), QueryError> {
    let header = millstream_io::batch::RecordBatchHeader::view(&batch);
    let place = header.and_then(|header| Some((header.base_offset()?, header.next_offset()?)));
    let Some((base, next)) = place else { panic!("{at}: a checked batch has no offsets") };
    let log_start = shard.with(|shard| shard.known(at, None).map(|log| log.marks.log_start()))?;
    match disk.run(move || lookup::first_at_or_after(&batch, log_start, time)).await {
        Ok(Ok(record)) => Ok((record, next)),
        Ok(Err(_)) => Err(QueryError::Corrupt { at, offset: base }),
        Err(_) => Err(QueryError::Stopping),
    }
}

async fn look_up<D: CoreDisk>(
    shard: &Shard,
    disk: &D,
    at: TopicPartition,
    ask: SeekAsk,
) -> Result<Option<Bytes>, QueryError> {
    let dir = shard.with(|shard| {
        let log = shard.known(at, None)?;
        Ok(shard.layout.partition(log.topic_name(), at.partition))
    })?;
    let path = ask.segment.path(&dir, SegmentFile::Log);
    let blocking = disk.blocking();
    match disk.run(move || cold::seek(&blocking, &dir, &ask)).await {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(error)) => Err(query_error(at, path, error)),
        Err(error) => Err(query_error(at, path, ColdError::Disk(error))),
    }
}

/// Times that a search for the largest timestamp begins anew when the record it found is deleted.
const LOOKS: usize = 3;
