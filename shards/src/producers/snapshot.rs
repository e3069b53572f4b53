//! The body of `producer-state.snapshot`: the states of one partition's producers.
//!
//! ```text
//!  at  bytes  field
//!   0    8    offset the snapshot was taken at: batches from there on are replayed on top
//!   8    4    number of batches n
//!  12   34 n  batches, those of one producer in log order:
//!             producer id 8, epoch 2, first sequence 4, records 4, base offset 8, time 8
//! ```
//! All integers are big-endian. Version and checksum are those of the state file around it.

use std::fmt;

use millstream_io::units::{Offset, ProducerEpoch, ProducerId, Sequence, TimestampMs};

use super::{ProducerBatch, Producers};

const HEAD_BYTES: usize = 12;
const BATCH_BYTES: usize = 34;

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
    pub fn encode(&self, taken_at: Offset) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD_BYTES + self.states.len() * BATCH_BYTES);
        out.extend_from_slice(&taken_at.get().to_be_bytes());
        out.extend_from_slice(&[0; 4]);
        let mut count = 0u32;
        // In order of the ids, so that the same states give the same bytes.
        let mut states: Vec<_> = self.states.iter().collect();
        states.sort_unstable_by_key(|(id, _)| **id);
        for (id, state) in states {
            let below = state.batches.partition_point(|b| b.base_offset < taken_at);
            let from = below.saturating_sub(crate::limits::PRODUCER_BATCHES_KEPT);
            for batch in state.batches.range(from..below) {
                encode_batch(*id, batch, &mut out);
                count += 1;
            }
        }
        out[8..HEAD_BYTES].copy_from_slice(&count.to_be_bytes());
        out
    }

    /// Reads a snapshot; also says the offset it was taken at. Memory is reserved by the bytes that
    /// are there, not by the count they declare.
    ///
    /// # Errors
    /// [`SnapshotError`] when the bytes are anything else than what [`Producers::encode`] writes.
    pub fn decode(bytes: &[u8]) -> Result<(Producers, Offset), SnapshotError> {
        let (taken_at, rest) = bytes.split_first_chunk::<8>().ok_or(SnapshotError)?;
        let (count, batches) = rest.split_first_chunk::<4>().ok_or(SnapshotError)?;
        let taken_at = Offset::new(i64::from_be_bytes(*taken_at)).ok_or(SnapshotError)?;
        let count = u32::from_be_bytes(*count);
        let chunks = batches.chunks_exact(BATCH_BYTES);
        if !chunks.remainder().is_empty() || u32::try_from(chunks.len()) != Ok(count) {
            return Err(SnapshotError);
        }
        let mut producers = Producers::new();
        for chunk in chunks {
            let (id, batch) = decode_batch(chunk).ok_or(SnapshotError)?;
            let newest = producers.states.get(&id).map(|state| *state.newest());
            let in_order = newest.is_none_or(|newest| newest.base_offset < batch.base_offset);
            if !in_order || batch.base_offset >= taken_at {
                return Err(SnapshotError);
            }
            producers.record(id, batch, Offset::MAX);
        }
        Ok((producers, taken_at))
    }
}

fn encode_batch(id: ProducerId, batch: &ProducerBatch, out: &mut Vec<u8>) {
    out.extend_from_slice(&id.get().to_be_bytes());
    out.extend_from_slice(&batch.epoch.get().to_be_bytes());
    out.extend_from_slice(&batch.first.get().to_be_bytes());
    out.extend_from_slice(&batch.records.to_be_bytes());
    out.extend_from_slice(&batch.base_offset.get().to_be_bytes());
    out.extend_from_slice(&batch.at.get().to_be_bytes());
}

fn decode_batch(bytes: &[u8]) -> Option<(ProducerId, ProducerBatch)> {
    let (id, rest) = bytes.split_first_chunk::<8>()?;
    let (epoch, rest) = rest.split_first_chunk::<2>()?;
    let (first, rest) = rest.split_first_chunk::<4>()?;
    let (records, rest) = rest.split_first_chunk::<4>()?;
    let (base_offset, rest) = rest.split_first_chunk::<8>()?;
    let at = rest.first_chunk::<8>()?;
    let batch = ProducerBatch {
        epoch: ProducerEpoch::new(i16::from_be_bytes(*epoch))?,
        first: Sequence::new(i32::from_be_bytes(*first))?,
        records: u32::from_be_bytes(*records),
        base_offset: Offset::new(i64::from_be_bytes(*base_offset))?,
        at: TimestampMs::new(i64::from_be_bytes(*at)),
    };
    // A batch holds at least one record and ends within the offsets of the format.
    batch.base_offset.checked_add(u64::from(batch.records))?;
    let id = ProducerId::new(i64::from_be_bytes(*id))?;
    (batch.records > 0).then_some((id, batch))
}
