//! Entry points for fuzzers: whatever the bytes, no panic, no unbounded memory, and the promises
//! that are asserted here. Each runs under a coverage-guided fuzzer and, seeded, as a test.

use std::path::Path;

use bytes::Bytes;

use crate::batch::{CheckedBatch, EndMarker, LENGTH_OVERHEAD, Origin, at, crc_of, stamp, stored};
use crate::checkpoint::{decode_blob, decode_state};
use crate::data_dir::MetaProperties;
use crate::disk::{Disk, DiskFile, OpenHow};
use crate::disk_sim::SimDisk;
use crate::inspect;
use crate::journal::scan::scan;
use crate::journal::{Frame, JournalId, JournalState, files, state};
use crate::limits::BATCH_HEADER_BYTES;
use crate::partition_state::{Manifest, PRODUCER_SNAPSHOT, RecoveryCheckpoint};
use crate::records::{Keep, Records, lookup, recompress, validate};
use crate::recovery::{Evidence, PartitionInput, RecoveryReport, recover_partition};
use crate::segment::{Listing, SegmentFile};
use crate::sparse_index::SparseIndex;
use crate::time_index::TimeIndex;
use crate::units::{
    Cleaned, FilePosition, JournalSeq, LeaderEpoch, Offset, PartitionIndex, RoundNumber, SegmentId,
    ShardId, TimestampMs, TopicId, TopicPartition, bytes_u64,
};

/// The records field of a Produce request.
pub fn fuzz_batch(bytes: &[u8]) {
    for origin in [Origin::Client, Origin::Coordinator] {
        for bytes in [bytes.to_vec(), resummed(bytes)] {
            let Ok(batch) = CheckedBatch::parse(Bytes::from(bytes), origin) else { continue };
            assert!(batch.record_count() >= 1);
            let mut bytes = batch.bytes().to_vec();
            stamp::place(&mut bytes, Offset::at(7), LeaderEpoch::at(1));
            stamp::log_append_time(&mut bytes, TimestampMs::new(5));
            assert!(stored::whole(&bytes).is_ok(), "a checked and stamped batch is a stored one");
        }
    }
}

/// Bytes behind a batch header; the first two choose codec and count.
pub fn fuzz_records(bytes: &[u8]) {
    let Some((&[codec, count], payload)) = bytes.split_first_chunk::<2>() else { return };
    let mut batch = vec![0; BATCH_HEADER_BYTES];
    batch[at::MAGIC] = 2;
    batch[at::ATTRIBUTES + 1] = codec % 5;
    batch[at::RECORD_COUNT + 3] = count;
    batch[at::LAST_OFFSET_DELTA + 3] = count.saturating_sub(1);
    batch[at::PRODUCER_ID..at::RECORD_COUNT].fill(0xff);
    batch.extend_from_slice(payload);
    let batch = resummed(&batch);
    for keep in [Keep::Nothing, Keep::KeysAndValues, Keep::All] {
        let Ok(mut records) = Records::open(&batch, keep) else { continue };
        while let Ok(Some(_)) = records.next_record() {}
    }
    let mut control = batch.clone();
    control[at::ATTRIBUTES + 1] |= 0x30;
    control[at::PRODUCER_ID..at::BASE_SEQUENCE].fill(0);
    let _ = EndMarker::read(&resummed(&control));
    let _ = lookup::first_at_or_after(&batch, Offset::ZERO, TimestampMs::new(9));
    let _ = lookup::largest_timestamp(&batch, Offset::ZERO);
    if let Ok(batch) = CheckedBatch::parse(Bytes::from(batch), Origin::Client) {
        let deep = validate::validate(&batch, validate::Rules::default());
        let other = recompress::recompress(&batch, crate::batch::Codec::Lz4.into(), None, u64::MAX);
        if let (Ok(deep), Ok(other)) = (deep, other) {
            let again = validate::validate(&other, validate::Rules::default());
            assert_eq!(again, Ok(deep), "the same records under another codec");
        }
    }
}

/// A journal file, and a frame.
pub fn fuzz_journal(bytes: &[u8]) {
    let _ = Frame::parse(bytes);
    let disk = SimDisk::new();
    let dir = Path::new("/j");
    let with_state = bytes.len().is_multiple_of(2);
    let written = disk.create_dir_all(dir).is_ok()
        && put(&disk, &files::path(dir, JournalSeq::new(1)), bytes)
        && put(&disk, &files::path(dir, JournalSeq::new(2)), &frame_resummed(bytes));
    assert!(written, "the simulated disk takes it");
    if with_state {
        let state = JournalState {
            journal: JournalId::new(0),
            replay_from: RoundNumber::ZERO,
            next_seq: JournalSeq::new(3),
            floors: Vec::new(),
        };
        assert!(state.write(&disk, dir).is_ok());
    }
    let mut last = None;
    let _ = scan(&disk, dir, ShardId::new(0), |frame| {
        assert!(last < Some(frame.id.round), "rounds rise");
        last = Some(frame.id.round);
        Ok(())
    });
    let _ = inspect::inspect(&disk, &files::path(dir, JournalSeq::new(1)), &mut Vec::new());
}

/// The log of a partition's only segment.
pub fn fuzz_recovery(bytes: &[u8]) {
    let (evidence, bytes) = match bytes.split_first() {
        Some((&first, rest)) => {
            let floor = Offset::at(i64::from(first >> 1));
            (Evidence { floor, complete: first & 1 == 0 }, rest)
        }
        None => return,
    };
    let disk = SimDisk::new();
    let dir = Path::new("/t/0");
    let cleaned = Cleaned { generation: 1, next: Offset::at(100) };
    let cleaned = bytes.len().is_multiple_of(3).then_some(cleaned);
    let id = SegmentId { cleaned, ..SegmentId::new(LeaderEpoch::ZERO, Offset::ZERO) };
    let log = id.path(dir, SegmentFile::Log);
    assert!(disk.create_dir_all(dir).is_ok() && put(&disk, &log, &batches_resummed(bytes)));
    let input = PartitionInput {
        dir,
        partition: TopicPartition { topic: TopicId::METADATA, partition: PartitionIndex::at(0) },
        topic: "t",
        evidence,
        visit_from: Offset::ZERO,
    };
    let Ok(first) = recover_partition(&disk, &input, &mut ()) else {
        panic!("a readable disk is always recovered");
    };
    assert!(first.log_start <= first.end);
    let _ = inspect::inspect(&disk, &log, &mut Vec::new());
    // What was found to be damaged or lost is told at each start; nothing else is left to do.
    let Ok(again) = recover_partition(&disk, &input, &mut ()) else {
        panic!("a recovered partition is recovered again");
    };
    assert_eq!(again.end, first.end, "the end of a log does not move");
    let quiet = RecoveryReport { lost: Vec::new(), damage: Vec::new(), ..again.report };
    assert_eq!(quiet, RecoveryReport::default(), "a second recovery has nothing to do");
}

/// Every small file and every name.
pub fn fuzz_state_files(bytes: &[u8]) {
    let path = Path::new("f");
    let _ = decode_state::<Manifest>(path, bytes);
    let _ = decode_state::<RecoveryCheckpoint>(path, bytes);
    let _ = decode_blob(path, PRODUCER_SNAPSHOT, bytes.to_vec());
    let _ = decode_blob(path, state::STATE_KIND, bytes.to_vec());
    let _ = JournalState::decode(path, bytes);
    let _ = MetaProperties::decode(path, bytes);
    let id = SegmentId::new(LeaderEpoch::ZERO, Offset::ZERO);
    let log = FilePosition::new(1 << 20);
    let _ = SparseIndex::decode(bytes, id, log);
    let _ = TimeIndex::decode(bytes, id, log);
    if let Ok(name) = std::str::from_utf8(bytes) {
        let _ = (SegmentId::of_file_name(name), files::seq_of(name), name.parse::<TopicId>());
    }
    let disk = SimDisk::new();
    let dir = Path::new("/p");
    let names = ["manifest.json", "recovery-checkpoint.json", "state", "meta.properties"];
    if disk.create_dir_all(dir).is_ok() {
        for name in names {
            assert!(put(&disk, &dir.join(name), bytes));
            let _ = inspect::inspect(&disk, &dir.join(name), &mut Vec::new());
        }
        assert!(Listing::read(&disk, dir).is_ok());
    }
}

fn put(disk: &SimDisk, path: &Path, bytes: &[u8]) -> bool {
    let file = disk.open(path, OpenHow::CREATE);
    file.and_then(|file| file.write_at(bytes, FilePosition::ZERO)).is_ok()
}

/// The bytes as one batch whose length and CRC are right, so that what is behind them is reached.
fn resummed(bytes: &[u8]) -> Vec<u8> {
    let mut batch = bytes.to_vec();
    if batch.len() >= BATCH_HEADER_BYTES {
        let length = u32::try_from(batch.len() - LENGTH_OVERHEAD).unwrap_or(u32::MAX);
        batch[at::LENGTH..at::LEADER_EPOCH].copy_from_slice(&length.to_be_bytes());
        batch[at::MAGIC] = 2;
        let crc = crc_of(&batch);
        batch[at::CRC..at::ATTRIBUTES].copy_from_slice(&crc.to_be_bytes());
    }
    batch
}

/// The bytes cut into pieces of 200, every other one made a valid batch of a small offset.
fn batches_resummed(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    for (i, piece) in bytes.chunks(200).enumerate() {
        let mut piece = piece.to_vec();
        if i % 2 == 0 && piece.len() >= BATCH_HEADER_BYTES {
            // Mostly small offsets, now and then any.
            if piece[at::MAGIC] < 250 {
                piece[at::BASE_OFFSET..at::BASE_OFFSET + 7].fill(0);
                piece[at::LAST_OFFSET_DELTA..at::LAST_OFFSET_DELTA + 3].fill(0);
            }
            piece[at::BASE_OFFSET] &= 0x7f;
            piece[at::LAST_OFFSET_DELTA] &= 0x7f;
            piece = resummed(&piece);
        }
        out.extend_from_slice(&piece);
    }
    out
}

/// The bytes as a frame of file 2 whose checksum is right.
fn frame_resummed(bytes: &[u8]) -> Vec<u8> {
    let mut frame = bytes.to_vec();
    if frame.len() < 48 {
        return frame;
    }
    frame[0..8].copy_from_slice(b"MSJF\0\x01\0\0");
    frame[8..16].fill(0);
    frame[16..24].copy_from_slice(&2u64.to_be_bytes());
    let length = u32::try_from(frame.len()).unwrap_or(u32::MAX);
    frame[32..36].copy_from_slice(&length.to_be_bytes());
    let crc = crc32c::crc32c_append(crc32c::crc32c(&frame[..40]), &frame[44..]);
    frame[40..44].copy_from_slice(&crc.to_be_bytes());
    let blocks = bytes_u64(frame.len()).next_multiple_of(crate::limits::BLOCK_BYTES_U64);
    frame.resize(crate::units::bytes_usize(blocks), 0);
    frame
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn no_bytes_break_a_promise(bytes in proptest::collection::vec(any::<u8>(), 0..900)) {
            fuzz_batch(&bytes);
            fuzz_records(&bytes);
            fuzz_journal(&bytes);
            fuzz_recovery(&bytes);
            fuzz_state_files(&bytes);
        }

        #[test]
        fn few_bytes_break_no_promise(
            bytes in proptest::collection::vec(prop_oneof![Just(0u8), Just(1), Just(2), Just(0xff)], 0..900),
        ) {
            fuzz_batch(&bytes);
            fuzz_records(&bytes);
            fuzz_journal(&bytes);
            fuzz_recovery(&bytes);
            fuzz_state_files(&bytes);
        }
    }
}
