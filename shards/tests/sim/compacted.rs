//! The judge of a compacted log, record by record.
//!
//! What stands there must be what was sent, at its own offset, in a batch that keeps its offsets, its
//! producer and its place in a transaction. What was placed may be missing only
//!
//! - if a newer record of its key counts: one that is in no transaction, or in a committed one, in front
//!   of the LastStableOffset;
//! - if it belongs to an aborted transaction;
//! - if it is a tombstone, or a marker of whose transaction nothing is left, and its time is over: not
//!   before `delete.retention.ms` behind its sending, nor before the horizon that a reader saw on it.
//!
//! Then no older record of a tombstone's key may be there. Nothing behind the LastStableOffset may be
//! missing, nothing of an open transaction, and nothing younger than `min.compaction.lag.ms`. What a
//! reader found missing, no later one may see, whatever crashes lie between.

use std::collections::{HashMap, HashSet};

use millstream_io::batch::testing::TestRecord;
use millstream_io::batch::{EndMarker, RecordBatchHeader, stored};
use millstream_io::records::{Keep, Record, Records};

use super::{Batch, BatchId, Model, State, Sure, TIME_ZERO, Verdict};
use crate::transactions::{Fate, Role, Truth};

/// The keys of a compacted log's records, and how long what stays.
#[derive(Clone, Copy, Debug)]
pub struct Keys {
    pub count: u64,
    /// `delete.retention.ms`
    pub delete_retention_ms: i64,
    /// `min.compaction.lag.ms`
    pub min_lag_ms: i64,
}

/// What readers of compacted partitions have seen.
#[derive(Debug)]
pub struct Compacted {
    pub keys: Keys,
    /// Records that a reader found missing, by partition and offset.
    gone: HashMap<(usize, i64), Gone>,
    /// Delete horizons of batches, by partition and base offset, as they were first seen.
    horizons: HashMap<(usize, i64), i64>,
    /// Reads that have ended.
    pub(super) reads: u64,
    pub reached: Reached,
}

/// What was found missing, and rightly so.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reached {
    pub replaced: u64,
    pub tombstones: u64,
    pub aborted: u64,
    pub markers: u64,
}

#[derive(Clone, Copy, Debug)]
struct Gone {
    /// Reads that had ended, with the one that found it.
    reads: u64,
    /// The time then.
    at: i64,
    /// It was counted.
    counted: bool,
}

/// The newest record of a key that counts.
#[derive(Clone, Copy, Debug)]
struct Newest {
    offset: i64,
    is_tombstone: bool,
}

impl Keys {
    /// The records of batch `id`: every fourth a tombstone.
    pub fn records(self, id: BatchId, count: u64, value_bytes: usize) -> Vec<TestRecord> {
        let one = |index: u64| {
            let mix = (id * 31 + index).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
            TestRecord {
                timestamp_delta: 0,
                key: Some((mix % self.count).to_string().into_bytes()),
                value: (!(mix / self.count).is_multiple_of(4)).then(|| vec![id as u8; value_bytes]),
                headers: vec![(b"i".to_vec(), Some(vec![index as u8]))],
            }
        };
        (0..count).map(one).collect()
    }
}

impl Compacted {
    pub fn new(keys: Keys) -> Compacted {
        let (gone, horizons) = (HashMap::new(), HashMap::new());
        Compacted { keys, gone, horizons, reads: 0, reached: Reached::default() }
    }
}

impl Model {
    /// As [`Model::saw`], record by record: offsets may be missing, and the next batch comes then.
    pub(super) fn saw_records(
        &mut self,
        partition: usize,
        offset: i64,
        mut bytes: &[u8],
        sure: Sure,
    ) -> Result<i64, String> {
        let (mut next, mut seen) = (offset, HashSet::new());
        while !bytes.is_empty() {
            let header = stored::whole(bytes).map_err(|e| format!("p{partition} @{next}: {e}"))?;
            let end = header.next_offset().expect("whole").get();
            if end <= next || (header.base_offset_raw() < next && next != offset) {
                return Err(format!("p{partition}: a batch up to @{end} comes at @{next}"));
            }
            let len = header.total_bytes().expect("whole");
            let (batch, behind) = bytes.split_at(len);
            let mut records = Records::open(batch, Keep::All).map_err(|e| e.to_string())?;
            while let Some(record) = records.next_record().map_err(|e| e.to_string())? {
                self.saw_record(partition, batch, &record, sure)?;
                seen.insert(record.offset.get());
            }
            self.saw_header(partition, header)?;
            (next, bytes) = (end, behind);
        }
        self.find_missing(partition, (offset, next), &seen, sure);
        Ok(next)
    }

    /// Notes what a reader of `[from, to)` did not see.
    fn find_missing(
        &mut self,
        partition: usize,
        (from, to): (i64, i64),
        seen: &HashSet<i64>,
        sure: Sure,
    ) {
        let at = self.now().get();
        let placed = self.placed.entry(partition).or_default().range(..to);
        let ends =
            placed.map(|(base, id)| (*base, base + i64::from(self.batches[*id as usize].records)));
        let offsets = ends.flat_map(|(base, end)| base.max(from)..end.min(to));
        let missing = offsets.filter(|at| !seen.contains(at) && *at >= sure.log_start);
        let compacted = self.compaction.as_mut().expect("compacted");
        compacted.reads += 1;
        let found = Gone { reads: compacted.reads, at, counted: false };
        for offset in missing {
            compacted.gone.entry((partition, offset)).or_insert(found);
        }
    }

    fn saw_record(
        &mut self,
        partition: usize,
        bytes: &[u8],
        record: &Record<'_>,
        sure: Sure,
    ) -> Verdict {
        let offset = record.offset.get();
        let id = record.timestamp.get() - TIME_ZERO;
        let known = usize::try_from(id).ok().and_then(|id| self.batches.get(id));
        let Some(batch) = known.filter(|batch| batch.partition == partition) else {
            return Err(format!("p{partition}: record @{offset} of batch {id} was never sent"));
        };
        let header = RecordBatchHeader::view(bytes).expect("whole");
        let Some(index) = index_in(batch, bytes, record) else {
            return Err(format!(
                "p{partition}: record @{offset} of batch {id} is not what was sent"
            ));
        };
        let base = offset - index;
        let end = header.next_offset().expect("whole").get();
        if (header.base_offset_raw(), end) != (base, base + i64::from(batch.records)) {
            return Err(format!("p{partition}: the offsets of batch {id} @{base} have moved"));
        }
        let gone = self.compaction.as_ref().expect("compacted").gone.get(&(partition, offset));
        if gone.is_some_and(|gone| gone.reads <= sure.reads) {
            return Err(format!("p{partition}: record @{offset} was gone and is there again"));
        }
        self.place(id as BatchId, base, "seen")
    }

    /// A batch stands there, perhaps without records.
    fn saw_header(&mut self, partition: usize, header: RecordBatchHeader<'_>) -> Verdict {
        let base = header.base_offset_raw();
        let fault = |what: &str| Err(format!("p{partition}: the batch @{base} {what}"));
        let Some(id) = self.placed.entry(partition).or_default().get(&base) else {
            // Nobody saw it, or was told of it, while it had records.
            return if header.record_count() == 0 { Ok(()) } else { fault("is not placed") };
        };
        let batch = &self.batches[*id as usize];
        let end = header.next_offset().expect("whole").get();
        if end != base + i64::from(batch.records) {
            return fault("has moved its end");
        }
        if header.record_count() == 0 && header.producer().is_some() && !is_of(batch, header) {
            return fault("names another producer");
        }
        if !header.attributes().has_delete_horizon() {
            return Ok(());
        }
        let horizon = header.base_timestamp().get();
        let compacted = self.compaction.as_mut().expect("compacted");
        let held = *compacted.horizons.entry((partition, base)).or_insert(horizon);
        if held != horizon {
            return fault("has another delete horizon than before");
        }
        if horizon < batch.made_at + compacted.keys.delete_retention_ms {
            return fault("has a delete horizon that comes too early");
        }
        Ok(())
    }

    /// Everything from the log start on was read since the last recovery: whatever is missing may be.
    /// `truth` is what follows from the batches that were placed; `None` when not all are known.
    pub fn complete(&mut self, partition: usize, start: i64, truth: Option<&Truth>) -> Verdict {
        let Some(mut compacted) = self.compaction.take() else { return Ok(()) };
        let judged = match truth {
            Some(truth) => self.judge_compacted(&mut compacted, partition, start, truth),
            // Without transactions everything counts.
            None if self.clients.is_empty() => {
                self.judge_compacted(&mut compacted, partition, start, &Truth::default())
            }
            None => Ok(()),
        };
        self.compaction = Some(compacted);
        judged
    }

    fn judge_compacted(
        &self,
        compacted: &mut Compacted,
        partition: usize,
        start: i64,
        truth: &Truth,
    ) -> Verdict {
        let stable = truth.first_open.unwrap_or(i64::MAX);
        let newest = self.newest_of_keys(partition, stable, truth);
        // What nobody saw and nobody was told of may have replaced others.
        let open =
            self.batches.iter().filter(|b| b.partition == partition && b.state == State::Open);
        let unsure: HashSet<&[u8]> =
            open.flat_map(|b| &b.builder.records).filter_map(|r| r.key.as_deref()).collect();
        for (base, batch) in self.placed_in(partition) {
            for (offset, record) in (base..).zip(&batch.builder.records) {
                if offset < start {
                    continue;
                }
                let one = One { partition, base, offset, batch, record };
                let last = record.key.as_deref().and_then(|key| newest.get(key)).copied();
                let last = last.filter(|last| last.offset > offset);
                let Some(found) = compacted.gone.get(&(partition, offset)).copied() else {
                    let buried = last.is_some_and(|last| {
                        let gone = compacted.gone.contains_key(&(partition, last.offset));
                        gone && last.is_tombstone && last.offset >= start
                    });
                    if buried && truth.fate(base).counts() {
                        return one.fault("stands there, and the later tombstone is gone");
                    }
                    continue;
                };
                if offset >= stable {
                    return one.fault("is gone behind the LastStableOffset");
                }
                let is_unsure = record.key.as_deref().is_some_and(|key| unsure.contains(key));
                let why = one.why_gone(compacted, found, truth, last.is_some(), start);
                match why {
                    Ok(why) if !found.counted => *compacted.reached.of(why) += 1,
                    Ok(_) => {}
                    Err(_) if is_unsure => continue,
                    Err(what) => return one.fault(&what),
                }
                let place = (partition, offset);
                compacted.gone.insert(place, Gone { counted: true, ..found });
            }
        }
        Ok(())
    }

    /// For each key the newest record in front of `stable` that counts.
    fn newest_of_keys(
        &self,
        partition: usize,
        stable: i64,
        truth: &Truth,
    ) -> HashMap<&[u8], Newest> {
        let mut newest = HashMap::new();
        for (base, batch) in self.placed_in(partition) {
            if !truth.fate(base).counts() {
                continue;
            }
            for (offset, record) in (base..stable).zip(&batch.builder.records) {
                let is_tombstone = record.value.is_none();
                let key = record.key.as_deref().expect("keyed");
                newest.insert(key, Newest { offset, is_tombstone });
            }
        }
        newest
    }
}

/// A record of a placed batch.
struct One<'m> {
    partition: usize,
    base: i64,
    offset: i64,
    batch: &'m Batch,
    record: &'m TestRecord,
}

/// Why a record may be missing.
#[derive(Clone, Copy, Debug)]
enum Why {
    Replaced,
    Tombstone,
    Aborted,
    Marker,
}

impl Reached {
    fn of(&mut self, why: Why) -> &mut u64 {
        match why {
            Why::Replaced => &mut self.replaced,
            Why::Tombstone => &mut self.tombstones,
            Why::Aborted => &mut self.aborted,
            Why::Marker => &mut self.markers,
        }
    }
}

impl One<'_> {
    /// The record was found missing in front of the LastStableOffset.
    fn why_gone(
        &self,
        compacted: &Compacted,
        found: Gone,
        truth: &Truth,
        is_replaced: bool,
        start: i64,
    ) -> Result<Why, String> {
        let Keys { delete_retention_ms, min_lag_ms, .. } = compacted.keys;
        if found.at < TIME_ZERO + self.batch.number as i64 + min_lag_ms {
            return Err("is gone before min.compaction.lag.ms".to_owned());
        }
        let horizon = compacted.horizons.get(&(self.partition, self.base)).copied();
        let due = horizon.unwrap_or(self.batch.made_at + delete_retention_ms);
        let time_is_over = found.at >= due;
        match truth.fate(self.base) {
            Fate::Open => Err("is gone while its transaction is open".to_owned()),
            Fate::Aborted => Ok(Why::Aborted),
            Fate::Plain | Fate::Committed if is_replaced => Ok(Why::Replaced),
            Fate::Plain | Fate::Committed if self.record.value.is_none() && time_is_over => {
                Ok(Why::Tombstone)
            }
            Fate::Plain | Fate::Committed => {
                Err("is gone, and is the newest of its key".to_owned())
            }
            Fate::Marker if !time_is_over => Err("is gone before its delete horizon".to_owned()),
            Fate::Marker => {
                let data = truth.ended_by(self.base).map(|ended| ended.batches.as_slice());
                let data = data.unwrap_or_default().iter().flat_map(|(from, to)| *from..*to);
                let mut data = data.filter(|at| *at >= start);
                let left = data.find(|at| !compacted.gone.contains_key(&(self.partition, *at)));
                match left {
                    Some(left) => Err(format!("is gone before its transaction's @{left}")),
                    None => Ok(Why::Marker),
                }
            }
        }
    }

    fn fault(&self, what: &str) -> Verdict {
        let One { partition, offset, batch, .. } = self;
        Err(format!("p{partition}: record @{offset} of {:?} {what}", batch.role))
    }
}

/// Which record of the batch this is; `None` when it is none of them, or names another producer.
fn index_in(batch: &Batch, bytes: &[u8], record: &Record<'_>) -> Option<i64> {
    let header = RecordBatchHeader::view(bytes)?;
    if !is_of(batch, header) {
        return None;
    }
    if let Role::Marker { outcome, .. } = batch.role {
        return EndMarker::read(bytes).filter(|read| read.outcome == outcome).map(|_| 0);
    }
    let index = record.header_bytes.last().map_or(usize::MAX, |index| usize::from(*index));
    let sent = batch.builder.records.get(index)?;
    let same = (sent.key.as_deref(), sent.value.as_deref()) == (record.key, record.value);
    same.then_some(index as i64)
}

/// Whether the header names the producer of the batch, its sequence and whether it is of a
/// transaction.
fn is_of(batch: &Batch, header: RecordBatchHeader<'_>) -> bool {
    let attributes = header.attributes();
    let named = (header.producer_id_raw(), header.producer_epoch_raw());
    if let Role::Marker { pid, epoch, .. } = batch.role {
        return attributes.is_control() && attributes.is_transactional() && named == (pid, epoch);
    }
    let builder = &batch.builder;
    !attributes.is_control()
        && attributes.is_transactional() == matches!(batch.role, Role::Data { .. })
        && named == (builder.producer_id, builder.producer_epoch)
        && header.base_sequence_raw() == builder.base_sequence
}
