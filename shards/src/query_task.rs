//! Offsets of one shard by position or by time.

use bytes::Bytes;
use millstream_io::disk::{CoreDisk, DiskErrorKind};
use millstream_io::records::lookup::{self, Found};
use millstream_io::segment::SegmentFile;
use millstream_io::units::TopicPartition;

use crate::cold::{self, ColdError};
use crate::message::Isolation;
use crate::query::{OffsetFound, OffsetQuery, OffsetSpec, QueryError};
use crate::seek::{Seek, SeekAsk, SeekStep};
use crate::shard::{Shard, ShardState};

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
        OffsetSpec::MaxTimestamp => {
            let known = shard.with(|shard| {
                shard.known(query.at, query.current).map(|log| log.max_timestamp())
            })?;
            match known {
                Some(time) => by_time(shard, disk, query, time, isolation).await,
                None => Ok(OffsetFound::default()),
            }
        }
    }
}

async fn by_time<D: CoreDisk>(
    shard: &Shard,
    disk: &D,
    query: &OffsetQuery,
    time: millstream_io::units::TimestampMs,
    isolation: Isolation,
) -> Result<OffsetFound, QueryError> {
    let at = query.at;
    let mut from = millstream_io::units::Offset::ZERO;
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
                let looked = look_up(shard, disk, at, ask).await;
                let is_there = |shard: &ShardState| {
                    Ok(shard.known(at, query.current)?.segments.get(segment).is_some())
                };
                match looked {
                    Ok(Some(batch)) => batch,
                    Ok(None) => {
                        from = next;
                        continue;
                    }
                    // Deleted meanwhile: the answer lies behind, and another look finds it.
                    Err(_) if !shard.with(is_there)? => continue,
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
    time: millstream_io::units::TimestampMs,
) -> Result<(Option<Found>, millstream_io::units::Offset), QueryError> {
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
        Ok(Err(ColdError::Damaged { offset, .. })) => Err(QueryError::Corrupt { at, offset }),
        Err(error) | Ok(Err(ColdError::Disk(error))) => match error.kind {
            DiskErrorKind::Stopped => Err(QueryError::Stopping),
            _ => Err(QueryError::Storage { at, path, reason: error.to_string() }),
        },
    }
}
