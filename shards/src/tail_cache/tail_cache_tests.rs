use millstream_io::batch::stamp;
use millstream_io::batch::testing::BatchBuilder;
use millstream_io::units::{LeaderEpoch, Offset, bytes_u64, bytes_usize};
use proptest::prelude::*;

use super::*;

/// A tail beside the plainest model of it: all bytes ever staged, and where batches start.
struct Pair {
    tail: TailCache,
    bytes: Vec<u8>,
    /// (position, base offset) of each batch; the end last.
    marks: Vec<(u64, i64)>,
    evicted: u64,
}

const ORIGIN: u64 = 1000;
/// Where the segment began of which the tail holds the end.
const SEGMENT_START: u64 = 333;

fn at(position: u64) -> LogPosition {
    LogPosition::new(position)
}

impl Pair {
    fn new() -> Pair {
        let tail = TailCache::new(at(ORIGIN), Offset::at(7));
        Pair { tail, bytes: Vec::new(), marks: vec![(ORIGIN, 7)], evicted: ORIGIN }
    }

    fn end(&self) -> (u64, i64) {
        *self.marks.last().expect("never empty")
    }

    fn stage(&mut self, records: usize, value_len: usize) {
        let (position, base) = self.end();
        let values = vec![vec![b'v'; value_len]; records];
        let batch = BatchBuilder::of_values(values).build();
        let next = Offset::at(base + records as i64);
        let in_file = FilePosition::new(position - SEGMENT_START);
        let copy = self.tail.stage(&batch, (Offset::at(base), next), in_file);
        stamp::place(copy, Offset::at(base), LeaderEpoch::at(3));
        self.bytes.extend_from_slice(copy);
        self.marks.push((position + bytes_u64(batch.len()), base + records as i64));
    }

    fn slice(&self, from: u64, to: u64) -> &[u8] {
        &self.bytes[bytes_usize(from - ORIGIN)..bytes_usize(to - ORIGIN)]
    }

    fn shared(&mut self, from: u64, to: u64) -> Vec<u8> {
        let mut got = Vec::new();
        self.tail.share(at(from), at(to), |bytes| got.extend_from_slice(&bytes));
        got
    }
}

#[test]
fn staged_batches_are_found_by_any_offset_in_them() {
    let mut pair = Pair::new();
    for records in [3, 1, 5] {
        pair.stage(records, 10);
    }
    let marks = pair.marks.clone();
    for (i, pair_of_marks) in marks.windows(2).enumerate() {
        for offset in pair_of_marks[0].1..pair_of_marks[1].1 {
            let found = pair.tail.find(Offset::at(offset)).expect("in the tail");
            assert_eq!(found.start, at(marks[i].0));
            assert_eq!(found.next, Offset::at(marks[i + 1].1));
        }
    }
    assert_eq!(pair.tail.find(Offset::at(16)), None, "behind the end");
    assert_eq!(pair.tail.find(Offset::at(6)), None, "before the start");
}

#[test]
fn batch_larger_than_any_chunk_gets_its_own() {
    let mut pair = Pair::new();
    pair.stage(1, 10);
    pair.stage(1, TAIL_CHUNK_BYTES_MAX * 2);
    pair.stage(1, 10);
    let (end, _) = pair.end();
    assert_eq!(pair.shared(ORIGIN, end), pair.bytes);
}

#[test]
fn busy_partition_gets_larger_chunks_and_an_idle_one_gives_memory_back() {
    let mut pair = Pair::new();
    for _ in 0..3000 {
        pair.stage(1, 1000);
    }
    assert_eq!(pair.tail.capacity_next, TAIL_CHUNK_BYTES_MAX);
    let before = pair.tail.memory_bytes();
    pair.tail.shrink();
    assert!(pair.tail.memory_bytes() <= before);
    assert_eq!(pair.tail.capacity_next, TAIL_CHUNK_BYTES_MIN);
    let (end, _) = pair.end();
    assert_eq!(pair.shared(ORIGIN, end), pair.bytes);
}

/// Large chunks lie in memory as in the file: only the blocks where two of them meet are copied.
#[test]
fn large_run_is_written_from_where_it_lies() {
    let mut pair = Pair::new();
    for len in [500_000, 900_000, 300_000, 700_000] {
        pair.stage(1, len);
    }
    let start = (ORIGIN - SEGMENT_START).next_multiple_of(BLOCK_BYTES_U64) + SEGMENT_START;
    let (end, _) = pair.end();
    let gather = pair.tail.gather(at(start), at(end));
    let copied = gather.len() - gather.shared_bytes();
    assert!(copied <= 5 * BLOCK_BYTES, "{copied} bytes of four chunks were copied");
    let mut got = vec![1; gather.len()];
    gather.copy_to(&mut got);
    let (bytes, padding) = got.split_at(bytes_usize(end - start));
    assert_eq!(bytes, pair.slice(start, end));
    assert!(padding.iter().all(|b| *b == 0));
    // What was given out stays as it is, whatever becomes of the tail.
    pair.tail.refuse_from(at(ORIGIN), Offset::at(7));
    pair.bytes.clear();
    pair.marks.truncate(1);
    pair.stage(1, 2_000_000);
    let mut again = vec![1; gather.len()];
    gather.copy_to(&mut again);
    assert_eq!(got, again);
}

#[test]
fn many_tiny_chunks_are_answered_as_one() {
    let mut pair = Pair::new();
    for _ in 0..40 {
        pair.stage(1, 100);
        let (end, _) = pair.end();
        let _ = pair.shared(end - 1 - 100, end - 1 - 100);
        let before = pair.marks[pair.marks.len() - 2].0;
        let _ = pair.shared(before, end);
    }
    let (end, _) = pair.end();
    let mut pieces = 0;
    pair.tail.share(at(ORIGIN), at(end), |_| pieces += 1);
    assert_eq!(pieces, 1);
    assert_eq!(pair.shared(ORIGIN, end), pair.bytes);
}

#[derive(Clone, Debug)]
enum Step {
    Stage(usize, usize),
    Share(usize, usize),
    Copy(usize, usize),
    Gather(usize, usize),
    Cut(usize, u64),
    Refuse(usize),
    Evict(usize),
    Shrink,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        5 => (1usize..4, 0usize..3000).prop_map(|(n, len)| Step::Stage(n, len)),
        2 => (any::<usize>(), any::<usize>()).prop_map(|(a, b)| Step::Share(a, b)),
        1 => (any::<usize>(), any::<usize>()).prop_map(|(a, b)| Step::Copy(a, b)),
        1 => (any::<usize>(), any::<usize>()).prop_map(|(a, b)| Step::Gather(a, b)),
        1 => (1usize..3, 40_000usize..90_000).prop_map(|(n, len)| Step::Stage(n, len)),
        2 => (any::<usize>(), 0u64..9000).prop_map(|(a, b)| Step::Cut(a, b)),
        1 => any::<usize>().prop_map(Step::Refuse),
        1 => any::<usize>().prop_map(Step::Evict),
        1 => Just(Step::Shrink),
    ];
    proptest::collection::vec(step, 0..60)
}

proptest! {
    /// Goal: the tail gives back what was staged, whole batches only, through every change.
    /// Method: a model that keeps all bytes and all boundaries.
    #[test]
    fn walk_gives_back_what_was_staged(steps in steps()) {
        let mut pair = Pair::new();
        for step in steps {
            let live: Vec<u64> =
                pair.marks.iter().map(|m| m.0).filter(|m| *m >= pair.tail.start().get()).collect();
            let pick = |i: usize| live[i % live.len()];
            match step {
                Step::Stage(records, len) => pair.stage(records, len),
                Step::Share(a, b) => {
                    let (from, to) = (pick(a).min(pick(b)), pick(a).max(pick(b)));
                    let got = pair.shared(from, to);
                    prop_assert_eq!(&got[..], pair.slice(from, to));
                }
                Step::Copy(a, b) => {
                    let len = pair.end().0 - pair.tail.start().get();
                    if len == 0 { continue }
                    let (a, b) = (bytes_u64(a) % len, bytes_u64(b) % len);
                    let from = pair.tail.start().get() + a.min(b);
                    let to = pair.tail.start().get() + a.max(b);
                    let mut into = vec![0; bytes_usize(to - from)];
                    pair.tail.copy_to(at(from), &mut into);
                    prop_assert_eq!(&into[..], pair.slice(from, to));
                }
                Step::Gather(a, b) => {
                    let len = pair.end().0 - pair.tail.start().get();
                    if len == 0 { continue }
                    let (a, b) = (bytes_u64(a) % len, bytes_u64(b) % len);
                    let from = pair.tail.start().get() + a.min(b);
                    let to = pair.tail.start().get() + a.max(b) + 1;
                    let gather = pair.tail.gather(at(from), at(to));
                    let mut into = vec![1; gather.len()];
                    gather.copy_to(&mut into);
                    prop_assert_eq!(&into[..bytes_usize(to - from)], pair.slice(from, to));
                }
                Step::Cut(a, len) => {
                    let from = pick(a);
                    let got = pair.tail.cut(at(from), at(from + len)).get();
                    let want = *live.iter().rfind(|m| **m <= from + len).expect("from itself");
                    prop_assert_eq!(got, want.max(from));
                }
                Step::Refuse(a) => {
                    let end = pick(a);
                    let i = pair.marks.iter().position(|m| m.0 == end).expect("a mark");
                    pair.marks.truncate(i + 1);
                    pair.bytes.truncate(bytes_usize(end - ORIGIN));
                    pair.tail.refuse_from(at(end), Offset::at(pair.marks[i].1));
                }
                Step::Evict(a) => {
                    let below = pick(a);
                    let before = pair.tail.memory_bytes();
                    let mut freed = 0;
                    while let Some(bytes) = pair.tail.evict_one(at(below)) { freed += bytes; }
                    prop_assert_eq!(pair.tail.memory_bytes() + freed, before);
                    pair.evicted = pair.evicted.max(pair.tail.start().get());
                    prop_assert!(pair.tail.start().get() <= below.max(pair.evicted));
                }
                Step::Shrink => pair.tail.shrink(),
            }
            prop_assert_eq!(pair.tail.end().get(), pair.end().0);
            for (position, offset) in pair.marks.iter().filter(|m| m.0 >= pair.tail.start().get()) {
                prop_assert_eq!(pair.tail.offset_at(at(*position)), Offset::at(*offset));
            }
            let start = pair.tail.start().get();
            let found = pair.tail.batches_from(at(start));
            let starts: Vec<u64> = found.map(|(batch, _)| batch.start.get()).collect();
            let want: Vec<u64> = pair.marks.iter().map(|m| m.0).filter(|m| *m >= start).collect();
            prop_assert_eq!(&starts[..], &want[..want.len() - 1]);
        }
    }
}
