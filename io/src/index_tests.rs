//! Tests of both indexes and of their footer.

use proptest::prelude::*;

use super::*;
use crate::index_footer::{FOOTER_BYTES, FOOTER_VERSION, IndexFooter};
use crate::time_index::TimeIndex;
use crate::units::{LeaderEpoch, TimestampMs};

fn segment(base: i64) -> SegmentId {
    SegmentId::new(LeaderEpoch::at(3), Offset::at(base))
}

fn start(base: i64, at: u64) -> BatchStart {
    BatchStart { base: Offset::at(base), at: FilePosition::new(at) }
}

fn coverage(log_bytes: u64, next: i64, max_timestamp: i64) -> Coverage {
    Coverage {
        log_bytes: FilePosition::new(log_bytes),
        next: Offset::at(next),
        max_timestamp: TimestampMs::new(max_timestamp),
        sealed: true,
    }
}

/// Last block of a log of 50,000 bytes.
const BLOCK: [u8; 50_000 % 4096] = [1; 50_000 % 4096];

/// Batches of 1000 bytes with 10 records each.
fn indexes(base: i64, batches: i64, stamp: impl Fn(i64) -> i64) -> (SparseIndex, TimeIndex) {
    let (mut offsets, mut times) = (SparseIndex::new(segment(base)), TimeIndex::new(segment(base)));
    for i in 0..batches {
        let batch = start(base + 10 * i, 1000 * i.unsigned_abs());
        offsets.note(batch);
        times.note(batch, TimestampMs::new(stamp(i)));
    }
    (offsets, times)
}

#[test]
fn floor_is_a_batch_start_at_or_before_the_target() {
    let (index, _) = indexes(100, 100, |i| i);
    // One entry each 5 batches: 5000 bytes is the first distance of at least 4 KiB.
    assert_eq!(index.len(), 19);
    assert_eq!(index.floor(Offset::at(0)), start(100, 0));
    assert_eq!(index.floor(Offset::at(149)), start(100, 0));
    assert_eq!(index.floor(Offset::at(150)), start(150, 5000));
    assert_eq!(index.floor(Offset::MAX), start(1050, 95000));
    assert_eq!(index.floor_position(FilePosition::new(4999)), start(100, 0));
    assert_eq!(index.floor_position(FilePosition::new(10_000)), start(200, 10_000));
}

#[test]
fn cut_log_takes_the_entries_behind_the_cut() {
    let (mut index, _) = indexes(0, 100, |i| i);
    index.truncate(FilePosition::new(10_000));
    assert_eq!(index.last(), start(50, 5000));
    index.force(start(51, 5100));
    assert_eq!(index.last(), start(51, 5100));
}

#[test]
fn time_floor_leaves_no_later_record_behind() {
    let stamps = [5, 9, 2, 9, 9, 9, 9, 9, 9, 9, 9, 9, 12, 1, 13, 3, 4, 5, 6, 7, 8, 9, 30];
    let (_, times) = indexes(0, 23, |i| stamps[i as usize]);
    for target in 0..40 {
        let floor = times.floor(TimestampMs::new(target)).get() / 10;
        let first = stamps.iter().position(|s| *s >= target).unwrap_or(stamps.len());
        assert!(floor <= first as i64, "target {target}: floor {floor}, first {first}");
    }
    assert_eq!(times.floor(TimestampMs::new(10)), Offset::at(100));
    assert_eq!(times.max_timestamp(), TimestampMs::new(30));
}

#[test]
fn largest_timestamp_before_an_offset_is_that_of_all_records_in_front() {
    let stamps = [5, 9, 2, 9, 9, 9, 9, 9, 9, 9, 9, 9, 12, 1, 13, 3, 4, 5, 6, 7, 8, 9, 30];
    let (_, times) = indexes(0, 23, |i| stamps[i as usize]);
    for end in 0..230 {
        let Some((time, offset)) = times.before(Offset::at(end)) else {
            assert!(end < 100, "{end}: nothing is known");
            continue;
        };
        assert!(offset.get() <= end, "{offset} lies behind {end}");
        let front = stamps.iter().take((offset.get() / 10) as usize);
        assert_eq!(front.max(), Some(&time.get()), "in front of {offset}");
    }
    assert_eq!(times.before(Offset::MAX), Some((TimestampMs::new(13), Offset::at(200))));
}

#[test]
fn files_round_trip_and_have_these_bytes() {
    let (offsets, times) = indexes(100, 7, |i| 1000 + i);
    let covers = coverage(7000, 170, 1006);
    let block = [7; 7000 - 4096];
    let bytes = offsets.encode(covers, &block);
    assert_eq!(bytes.len(), 8 + block.len() + FOOTER_BYTES);
    assert_eq!(bytes[..8], [0, 0, 0, 50, 0, 0, 0x13, 0x88]);
    let golden = [
        b'M', b'S', b'I', b'X', 0, 2, 0, 1, // magic, version, sealed
        0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 100, // epoch, base
        0, 0, 0x1b, 0x58, 0, 0, 0, 70, // covered, next
        0, 0, 0, 0, 0, 0, 0x03, 0xee, // largest timestamp
        0, 0, 0, 1, // entries
    ];
    assert_eq!(bytes[8..8 + block.len()], block);
    assert_eq!(bytes[8 + block.len()..][..40], golden);
    let copied = SparseIndex::copied_block(&bytes, segment(100), FilePosition::new(7000)).unwrap();
    assert_eq!(copied, Some((FilePosition::new(4096), &block[..])));
    let back = SparseIndex::decode(&bytes, segment(100), FilePosition::new(7000)).unwrap();
    assert_eq!(back, (offsets, covers));

    let bytes = times.encode(covers);
    assert_eq!(bytes.len(), 12 + FOOTER_BYTES);
    assert_eq!(bytes[..12], [0, 0, 0, 0, 0, 0, 0x03, 0xec, 0, 0, 0, 50]);
    assert_eq!(bytes[12..16], *b"MSTX");
    let (back, covered) = TimeIndex::decode(&bytes, segment(100), FilePosition::new(7000)).unwrap();
    assert_eq!((back.encode(covered), covered), (bytes, covers));
    assert_eq!(back.max_timestamp(), TimestampMs::new(1006));
}

/// What operators and crashes do to index files; each must be seen for what it is.
#[test]
fn damaged_index_files_are_known_for_what_they_are() {
    let (index, _) = indexes(0, 50, |i| i);
    let good = index.encode(coverage(50_000, 500, 49), &BLOCK);
    let log = FilePosition::new(50_000);
    let read = |bytes: &[u8]| SparseIndex::decode(bytes, segment(0), log).map(|_| ());
    assert_eq!(read(&good), Ok(()));
    assert_eq!(read(&[]), Err(IndexDamage::Length { bytes: 0 }));
    assert_eq!(read(&vec![0; good.len()]), Err(IndexDamage::NoFooter));
    assert!(read(&good[..good.len() - 1]).is_err());
    assert!(read(&good[8..]).is_err());
    let grown = [&good[..], &[0, 0, 9, 9, 0, 9, 9, 9]].concat();
    assert!(read(&grown).is_err());
    for at in [3, good.len() - FOOTER_BYTES - 1] {
        let mut flipped = good.clone();
        flipped[at] ^= 1;
        assert_eq!(read(&flipped), Err(IndexDamage::Checksum), "byte {at}");
    }
    let (other, _) = indexes(500, 50, |i| i);
    let swapped = other.encode(coverage(50_000, 1000, 49), &BLOCK);
    assert_eq!(read(&swapped), Err(IndexDamage::Foreign { segment: segment(500) }));
    let ahead = SparseIndex::decode(&good, segment(0), FilePosition::new(49_999)).unwrap_err();
    assert_eq!(ahead, IndexDamage::BeyondLog { covered: 50_000, log: 49_999 });
    let as_time = TimeIndex::decode(&good, segment(0), log).unwrap_err();
    assert_eq!(as_time, IndexDamage::NoFooter);
}

#[test]
fn newer_index_is_refused_with_both_numbers() {
    let mut bytes = SparseIndex::new(segment(0)).encode(coverage(0, 0, -1), &[]);
    bytes[5] = 9;
    let error = SparseIndex::decode(&bytes, segment(0), FilePosition::ZERO).unwrap_err();
    assert_eq!(error, IndexDamage::Newer { found: 9, known: FOOTER_VERSION });
}

proptest! {
    #[test]
    fn no_bytes_make_an_index_panic(mut bytes: Vec<u8>, resum: bool) {
        if resum && bytes.len() >= FOOTER_BYTES {
            // Give the rubbish a valid footer, so that the entries are looked at.
            let entries = bytes.len() / 8 * 8;
            bytes.truncate(entries);
            let footer = IndexFooter {
                segment: segment(0),
                coverage: coverage(1 << 20, 1 << 20, 0),
                entries: (entries / 8) as u32,
                entries_crc: crc32c::crc32c(&bytes),
            };
            bytes.extend_from_slice(&footer.encode(IndexKind::Sparse));
        }
        let log = FilePosition::new(1 << 20);
        let _ = TimeIndex::decode(&bytes, segment(0), log);
        if let Ok((index, _)) = SparseIndex::decode(&bytes, segment(0), log) {
            let _ = (index.floor(Offset::at(77)), index.floor_position(log), index.last());
        }
    }
}
