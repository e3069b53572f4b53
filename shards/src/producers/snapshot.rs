//! The body of `producer-state.snapshot`: the states of one partition's producers, and its
//! transactions.
//!
//! ```text
//!  at  bytes  field
//!   0    8    offset the snapshot was taken at: batches from there on are replayed on top
//!   8    4    number of batches n
//!  12   34 n  batches, those of one producer in log order:
//!             producer id 8, epoch 2, first sequence 4, records 4, base offset 8, time 8
//!  ..    4    number of producers with transactions m
//!  ..   47 m  producer id 8; of its last batch without a sequence: epoch 2, offset behind it 8,
//!             time 8 (-1 when there is none); 1 that says whether a coordinator wrote a marker,
//!             and its epoch 4; first offset of its open transaction 8, and the place of its first batch
//!             within the segment 8 (-1 when none is open)
//!  ..    4    number of aborted transactions k
//!  ..   32 k  by marker: producer id 8, first offset 8, offset of the marker 8, the
//!             LastStableOffset behind it 8
//! ```
//! Version 1 ends behind the batches. All integers are big-endian. Version and checksum are those of
//! the state file around it.

use std::fmt;

use bytes::Buf;
use millstream_io::limits::STATE_FILE_BYTES_MAX;
use millstream_io::units::{Offset, ProducerEpoch, ProducerId, Sequence, TimestampMs};

use super::state::{Sequenceless, Transactional};
use super::{OpenTransaction, ProducerBatch, Producers};
use crate::aborted::AbortedTransaction;
use crate::limits::{
    ABORTED_PER_PARTITION_MAX, PRODUCER_BATCHES_KEPT, PRODUCERS_PER_PARTITION_MAX,
};
use crate::message::Aborted;
use crate::position::LogPosition;

const HEAD_BYTES: usize = 12;
const BATCH_BYTES: usize = 34;
const TRANSACTIONAL_BYTES: usize = 47;
const ABORTED_BYTES: usize = 32;

const PRODUCER_BYTES_MAX: usize = PRODUCER_BATCHES_KEPT * BATCH_BYTES + TRANSACTIONAL_BYTES;

/// A snapshot of everything that may be remembered is one that can be written. Those beyond the
/// bound that are not durable are not in it.
const _: () = assert!(
    PRODUCERS_PER_PARTITION_MAX * PRODUCER_BYTES_MAX + ABORTED_PER_PARTITION_MAX * ABORTED_BYTES
        < STATE_FILE_BYTES_MAX - 1024
);

/// The bytes are not a snapshot. Producer state is derived data: the reader rebuilds it from the
/// log instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotError;

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a snapshot of producer states; they are rebuilt from the log")
    }
}

impl std::error::Error for SnapshotError {}

impl Producers {
    /// The snapshot's bytes: everything below `taken_at`, at most five batches a producer.
    /// `within` turns the position of an open transaction into one within its segment.
    ///
    /// # Panics
    /// When something behind `taken_at` was settled: what was before is forgotten then.
    pub fn encode(
        &self,
        taken_at: Offset,
        within: impl Fn(OpenTransaction) -> LogPosition,
    ) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD_BYTES + self.states.len() * BATCH_BYTES);
        out.extend_from_slice(&taken_at.get().to_be_bytes());
        // In order of the ids, so that the same states give the same bytes.
        let mut states: Vec<_> = self.states.iter().collect();
        states.sort_unstable_by_key(|(id, _)| **id);
        counted(&mut out, |out| {
            let mut count = 0;
            for (id, state) in &states {
                let below = state.batches.partition_point(|b| b.base_offset < taken_at);
                let from = below.saturating_sub(PRODUCER_BATCHES_KEPT);
                for batch in state.batches.range(from..below) {
                    encode_batch(**id, batch, out);
                    count += 1;
                }
            }
            count
        });
        let mut staged = std::collections::HashMap::new();
        for step in self.transactions.steps_behind(taken_at) {
            // The oldest of a producer comes last, and tells what was before them all.
            staged.insert(step.producer, step.before);
        }
        counted(&mut out, |out| {
            let mut count = 0;
            for (id, state) in &states {
                let now = state.transactional.as_deref().copied();
                let Some(then) = staged.get(id).copied().unwrap_or(now) else { continue };
                let open = then.open.map(|first| {
                    let Some(position) = self.transactions.position(first) else {
                        panic!("no position of the transaction of producer {id} from {first}");
                    };
                    OpenTransaction { first, position: within(OpenTransaction { first, position }) }
                });
                encode_transactional(**id, &then, open, out);
                count += 1;
            }
            count
        });
        counted(&mut out, |out| {
            let below = self.aborted().iter().take_while(|aborted| aborted.marker < taken_at);
            below.map(|aborted| encode_aborted(aborted, out)).fold(0, |count, ()| count + 1)
        });
        out
    }

    /// Reads a snapshot; also says the offset it was taken at. Memory is reserved by the bytes that
    /// are there, not by the count they declare. The positions of open transactions are those within
    /// their segments: [`Producers::relocate`] comes next.
    ///
    /// # Errors
    /// [`SnapshotError`] when the bytes are anything else than what [`Producers::encode`] writes.
    pub fn decode(version: u32, bytes: &[u8]) -> Result<(Producers, Offset), SnapshotError> {
        let mut rest = bytes;
        let taken_at = offset(rest.try_get_i64().map_err(|_| SnapshotError)?)?;
        let mut producers = Producers::new();
        for item in items::<BATCH_BYTES>(&mut rest)? {
            let (id, batch) = decode_batch(item).ok_or(SnapshotError)?;
            let newest = producers.states.get(&id).map(|state| state.newest());
            let in_order = newest.is_none_or(|newest| newest.next <= batch.base_offset);
            if !in_order || batch.base_offset >= taken_at {
                return Err(SnapshotError);
            }
            producers.record(id, batch, Offset::MAX);
        }
        if version >= 2 {
            for item in items::<TRANSACTIONAL_BYTES>(&mut rest)? {
                producers.restore(item, taken_at)?;
            }
            for item in items::<ABORTED_BYTES>(&mut rest)? {
                producers.restore_aborted(item, taken_at)?;
            }
        }
        producers.settle(taken_at);
        if rest.is_empty() { Ok((producers, taken_at)) } else { Err(SnapshotError) }
    }

    fn restore(&mut self, item: &[u8], taken_at: Offset) -> Result<(), SnapshotError> {
        let (id, transactional, open) = decode_transactional(item)?;
        let is_behind = |offset: Offset| offset >= taken_at;
        if transactional.last.is_some_and(|last| last.next > taken_at)
            || open.is_some_and(|open| is_behind(open.first))
        {
            return Err(SnapshotError);
        }
        if let Some(open) = open
            && self.transactions.position(open.first).is_some()
        {
            return Err(SnapshotError);
        }
        let state = self.states.entry(id).or_default();
        if state.transactional.is_some() {
            return Err(SnapshotError);
        }
        state.set_transactional(Some(transactional));
        if state.is_empty() {
            return Err(SnapshotError);
        }
        if let Some(open) = open {
            self.transactions.restore(open);
        }
        Ok(())
    }

    fn restore_aborted(&mut self, item: &[u8], taken_at: Offset) -> Result<(), SnapshotError> {
        let aborted = decode_aborted(item)?;
        let last = self.transactions.aborted.iter().next_back().map(|last| last.marker);
        let in_order = last.is_none_or(|last| last < aborted.marker)
            && aborted.aborted.first_offset < aborted.marker
            && aborted.marker < taken_at;
        if !in_order {
            return Err(SnapshotError);
        }
        self.transactions.aborted.closed(aborted);
        Ok(())
    }
}

/// Writes a count in front of what `body` writes.
fn counted(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>) -> u32) {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    let count = body(out);
    out[at..at + 4].copy_from_slice(&count.to_be_bytes());
}

/// Takes a count and as many items of `N` bytes from the front.
fn items<'a, const N: usize>(
    rest: &mut &'a [u8],
) -> Result<impl Iterator<Item = &'a [u8]>, SnapshotError> {
    let count = rest.try_get_u32().map_err(|_| SnapshotError)?;
    let bytes = usize::try_from(count).ok().and_then(|count| count.checked_mul(N));
    let (items, behind) =
        bytes.and_then(|bytes| rest.split_at_checked(bytes)).ok_or(SnapshotError)?;
    *rest = behind;
    Ok(items.chunks_exact(N))
}

fn encode_batch(id: ProducerId, batch: &ProducerBatch, out: &mut Vec<u8>) {
    out.extend_from_slice(&id.get().to_be_bytes());
    out.extend_from_slice(&batch.epoch.get().to_be_bytes());
    out.extend_from_slice(&batch.first.get().to_be_bytes());
    out.extend_from_slice(&batch.records.to_be_bytes());
    out.extend_from_slice(&batch.base_offset.get().to_be_bytes());
    out.extend_from_slice(&batch.at.get().to_be_bytes());
}

fn decode_batch(mut bytes: &[u8]) -> Option<(ProducerId, ProducerBatch)> {
    let id = ProducerId::new(bytes.get_i64())?;
    let batch = ProducerBatch {
        epoch: ProducerEpoch::new(bytes.get_i16())?,
        first: Sequence::new(bytes.get_i32())?,
        records: bytes.get_u32(),
        base_offset: Offset::new(bytes.get_i64())?,
        at: TimestampMs::new(bytes.get_i64()),
    };
    // A batch holds at least one record and ends within the offsets of the format.
    batch.base_offset.checked_add(u64::from(batch.records))?;
    (batch.records > 0).then_some((id, batch))
}

fn encode_transactional(
    id: ProducerId,
    transactional: &Transactional,
    open: Option<OpenTransaction>,
    out: &mut Vec<u8>,
) {
    let Transactional { last, coordinator_epoch, open: _ } = transactional;
    out.extend_from_slice(&id.get().to_be_bytes());
    out.extend_from_slice(&last.map_or(-1, |last| last.epoch.get()).to_be_bytes());
    out.extend_from_slice(&last.map_or(-1, |last| last.next.get()).to_be_bytes());
    out.extend_from_slice(&last.map_or(-1, |last| last.at.get()).to_be_bytes());
    out.push(u8::from(coordinator_epoch.is_some()));
    out.extend_from_slice(&coordinator_epoch.unwrap_or(-1).to_be_bytes());
    out.extend_from_slice(&open.map_or(-1, |open| open.first.get()).to_be_bytes());
    out.extend_from_slice(&open.map_or(u64::MAX, |open| open.position.get()).to_be_bytes());
}

fn decode_transactional(
    mut bytes: &[u8],
) -> Result<(ProducerId, Transactional, Option<OpenTransaction>), SnapshotError> {
    let id = ProducerId::new(bytes.get_i64()).ok_or(SnapshotError)?;
    let (epoch, next, at) = (bytes.get_i16(), bytes.get_i64(), bytes.get_i64());
    let last = match ProducerEpoch::new(epoch) {
        Some(epoch) => Some(Sequenceless { epoch, next: offset(next)?, at: TimestampMs::new(at) }),
        None => None,
    };
    let (has_one, coordinator_epoch) = (bytes.get_u8() != 0, bytes.get_i32());
    let (first, position) = (bytes.get_i64(), bytes.get_u64());
    let open = Offset::new(first)
        .map(|first| OpenTransaction { first, position: LogPosition::new(position) });
    let coordinator_epoch = has_one.then_some(coordinator_epoch);
    let transactional =
        Transactional { last, coordinator_epoch, open: open.map(|open| open.first) };
    Ok((id, transactional, open))
}

fn encode_aborted(transaction: &AbortedTransaction, out: &mut Vec<u8>) {
    let AbortedTransaction { aborted: Aborted { producer, first_offset }, marker, stable } =
        transaction;
    out.extend_from_slice(&producer.get().to_be_bytes());
    for at in [first_offset, marker, stable] {
        out.extend_from_slice(&at.get().to_be_bytes());
    }
}

fn decode_aborted(mut bytes: &[u8]) -> Result<AbortedTransaction, SnapshotError> {
    let producer = ProducerId::new(bytes.get_i64()).ok_or(SnapshotError)?;
    let first_offset = offset(bytes.get_i64())?;
    let (marker, stable) = (offset(bytes.get_i64())?, offset(bytes.get_i64())?);
    Ok(AbortedTransaction { aborted: Aborted { producer, first_offset }, marker, stable })
}

fn offset(value: i64) -> Result<Offset, SnapshotError> {
    Offset::new(value).ok_or(SnapshotError)
}
