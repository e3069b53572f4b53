//! Goal: nothing that a broker could do to the data passes unnoticed. Method: a stream of good batches,
//! then each kind of lie in it.

use super::ledger::*;
use crate::batch::codec::Codec;
use crate::batch::known::Known;
use crate::batch::template::{ABORTED, Content, Fields, Stamp, Template};

struct Bench {
    known: Known,
    template: Template,
    transactional: bool,
}

fn bench(transactional: bool) -> Bench {
    let keys = [None; 3];
    let content = Content { keys: &keys, value_bytes: 50, random: 1.0, seed: 1, transactional };
    let template = Template::build(&content, Codec::None).unwrap();
    let mut known = Known::new(1);
    known.add(&template);
    Bench { known, template, transactional }
}

impl Bench {
    /// Batch `number` of a producer, at `offset`.
    fn batch(&self, offset: i64, producer: u32, number: u64) -> Vec<u8> {
        let fields = Fields { producer_id: i64::from(producer), ..Fields::plain(1) };
        let stamp = Stamp { run: 1, producer, number, due_ns: 5 };
        let mut bytes = self.template.whole(fields, stamp);
        bytes[..8].copy_from_slice(&offset.to_be_bytes());
        bytes
    }

    fn read(&self, stream: &[Vec<u8>], aborted: Option<&[(i64, i64)]>) -> (u64, Faults, i64) {
        let mut ledger = Ledger::default();
        let mut place = Place { partition: 0, next: 0 };
        let taken = ledger.enter(&self.known, &mut place, &stream.concat(), aborted, |_, _| {});
        (taken.records, ledger.faults, place.next)
    }

    /// Ten batches of two producers by turns.
    fn good(&self) -> Vec<Vec<u8>> {
        (0..10u32).map(|n| self.batch(i64::from(n) * 3, n % 2, u64::from(n / 2))).collect()
    }
}

fn marker(offset: i64, producer: i64, committed: bool) -> Vec<u8> {
    let mut batch = vec![0; 61];
    batch.extend_from_slice(&[
        0x20,
        0,
        0,
        0,
        8,
        0,
        0,
        0,
        u8::from(committed),
        12,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
    ]);
    batch[..8].copy_from_slice(&offset.to_be_bytes());
    let length = i32::try_from(batch.len() - 12).unwrap();
    batch[8..12].copy_from_slice(&length.to_be_bytes());
    batch[16] = 2;
    batch[22] = 0x30;
    batch[43..51].copy_from_slice(&producer.to_be_bytes());
    batch[57..61].copy_from_slice(&1i32.to_be_bytes());
    let crc = crc32c::crc32c(&batch[21..]);
    batch[17..21].copy_from_slice(&crc.to_be_bytes());
    batch
}

#[test]
fn an_honest_stream_has_no_fault_and_its_cut_end_waits() {
    let bench = bench(false);
    let mut stream = bench.good();
    assert_eq!(bench.read(&stream, None), (30, Faults::default(), 30));
    stream[9].pop();
    assert_eq!(bench.read(&stream, None), (27, Faults::default(), 27));
}

#[test]
fn a_lost_a_repeated_and_a_damaged_batch_are_each_noticed() {
    let bench = bench(false);
    let mut lost = bench.good();
    lost.remove(4);
    let (_, faults, _) = bench.read(&lost, None);
    assert!(faults.lost >= 1 && faults.duplicate == 0, "{faults:?}");

    // Lost, and the offsets closed over it.
    let closed: Vec<Vec<u8>> = (0..10u32)
        .filter(|n| *n != 4)
        .enumerate()
        .map(|(at, n)| bench.batch(at as i64 * 3, n % 2, u64::from(n / 2)))
        .collect();
    let (_, faults, _) = bench.read(&closed, None);
    assert_eq!((faults.lost, faults.duplicate), (1, 0), "{faults:?}");

    // Stored twice: other offsets, the same number.
    let mut twice = bench.good();
    twice.push(bench.batch(30, 1, 4));
    let (_, faults, _) = bench.read(&twice, None);
    assert_eq!((faults.lost, faults.duplicate), (0, 1), "{faults:?}");

    // Served twice: the same offsets.
    let mut again = bench.good();
    again.insert(5, again[4].clone());
    let (_, faults, next) = bench.read(&again, None);
    assert_eq!((faults.lost, faults.duplicate, next), (0, 1, 30), "{faults:?}");

    let mut damaged = bench.good();
    damaged[3][90] ^= 1;
    let (records, faults, _) = bench.read(&damaged, None);
    assert_eq!((records, faults.corrupt), (27, 1), "{faults:?}");
    assert!(faults.first.unwrap().contains("offset 9"));
}

#[test]
fn a_reader_of_committed_data_is_told_exactly_what_was_aborted() {
    let bench = bench(true);
    assert!(bench.transactional);
    // Producer 0 commits at 12, producer 1 aborts at 13, producer 0 goes on and aborts at 17.
    let stream = vec![
        bench.batch(0, 0, 0),
        bench.batch(3, 1, ABORTED),
        bench.batch(6, 0, 1),
        bench.batch(9, 1, 1 | ABORTED),
        marker(12, 0, true),
        marker(13, 1, false),
        bench.batch(14, 0, 2 | ABORTED),
        marker(17, 0, false),
        bench.batch(18, 1, 2),
        marker(21, 1, true),
    ];
    let list: &[(i64, i64)] = &[(0, 14), (1, 3)];
    assert_eq!(bench.read(&stream, Some(list)), (9, Faults::default(), 22));
    // Without the list aborted data would be seen; with a wrong one committed data hidden.
    let (_, faults, _) = bench.read(&stream, Some(&[(1, 3)]));
    assert_eq!((faults.aborted_seen, faults.lost), (1, 0), "{faults:?}");
    let (_, faults, _) = bench.read(&stream, Some(&[(0, 0), (1, 3)]));
    assert!(faults.lost >= 1, "{faults:?}");
    let (records, faults, _) = bench.read(&stream, None);
    assert_eq!((records, faults), (18, Faults::default()), "all data counts for other readers");
}
