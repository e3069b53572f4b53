use proptest::prelude::*;

use super::*;

const LONG_AGO: TimestampMs = TimestampMs::new(i64::MIN);

fn id(value: i64) -> ProducerId {
    ProducerId::new(value).expect("not negative")
}

fn epoch(value: i16) -> ProducerEpoch {
    ProducerEpoch::new(value).expect("not negative")
}

fn seq(value: i32) -> Sequence {
    Sequence::new(value).expect("not negative")
}

/// A batch that is no part of a transaction.
fn plain(pid: i64, e: i16, first: i32, records: u32) -> Incoming {
    let stamp = ProducerStamp { id: id(pid), epoch: epoch(e), first: Some(seq(first)) };
    Incoming { stamp, records, transactional: false, origin: Origin::Client, guard: None }
}

/// A partition in miniature: check, then record at the next offset.
struct Log {
    producers: Producers,
    end: i64,
}

impl Log {
    fn new() -> Log {
        Log { producers: Producers::new(), end: 0 }
    }

    fn send(&mut self, pid: i64, e: i16, first: i32, records: u32) -> Result<i64, ProducerError> {
        match self.producers.check(&plain(pid, e, first, records), LONG_AGO)? {
            Checked::Duplicate(original) => Ok(original.base_offset.get()),
            Checked::Next => {
                let batch = ProducerBatch {
                    epoch: epoch(e),
                    first: seq(first),
                    records,
                    base_offset: Offset::at(self.end),
                    at: TimestampMs::new(self.end),
                };
                self.producers.record(id(pid), batch, Offset::at(self.end));
                self.end += i64::from(records);
                Ok(self.end - i64::from(records))
            }
        }
    }
}

fn gap(expected: i32) -> Result<i64, ProducerError> {
    Err(ProducerError::OutOfOrder { expected: seq(expected) })
}

#[test]
fn retry_gets_the_offset_of_the_original() {
    let mut log = Log::new();
    assert_eq!(log.send(1, 0, 0, 3), Ok(0));
    assert_eq!(log.send(2, 0, 0, 2), Ok(3));
    assert_eq!(log.send(1, 0, 3, 3), Ok(5));
    assert_eq!(log.send(1, 0, 0, 3), Ok(0));
    assert_eq!(log.send(1, 0, 3, 3), Ok(5));
    assert_eq!(log.end, 8);
}

#[test]
fn last_five_batches_are_recognised_and_older_ones_are_out_of_order() {
    let mut log = Log::new();
    for n in 0..7 {
        assert_eq!(log.send(1, 0, n, 1), Ok(i64::from(n)));
    }
    for n in 2..7 {
        assert_eq!(log.send(1, 0, n, 1), Ok(i64::from(n)), "batch {n}");
    }
    assert_eq!(log.send(1, 0, 1, 1), gap(7));
}

/// Seed 5127 of the simulator: compaction spared a batch that a crash took back, and not the one before.
#[test]
fn batch_that_compaction_spares_is_the_last_durable_one() {
    let mut log = Log::new();
    for n in 0..7 {
        assert_eq!(log.send(1, 0, n * 2, 2), Ok(i64::from(n) * 2));
    }
    let spared = |durable_end: i64| {
        let mut last = log.producers.last_batches(Offset::at(durable_end));
        last.next().expect("one producer").1.data
    };
    assert_eq!(spared(14), Some(Offset::at(13)));
    assert_eq!(spared(13), Some(Offset::at(11)), "half of a batch is durable");
    assert_eq!(spared(12), Some(Offset::at(11)));
}

#[test]
fn gap_is_out_of_order_and_so_is_another_cut_of_the_same_records() {
    let mut log = Log::new();
    assert_eq!(log.send(1, 0, 0, 3), Ok(0));
    assert_eq!(log.send(1, 0, 4, 1), gap(3));
    assert_eq!(log.send(1, 0, 0, 2), gap(3));
    assert_eq!(log.send(1, 0, 3, 1), Ok(3));
}

#[test]
fn unknown_producer_may_start_at_any_sequence() {
    let mut log = Log::new();
    assert_eq!(log.send(1, 4, 1000, 3), Ok(0));
    assert_eq!(log.send(1, 4, 1002, 1), gap(1003));
    assert_eq!(log.send(1, 4, 1003, 1), Ok(3));
}

#[test]
fn newer_epoch_starts_at_zero_and_fences_the_older() {
    let mut log = Log::new();
    assert_eq!(log.send(1, 0, 0, 3), Ok(0));
    assert_eq!(log.send(1, 1, 3, 1), gap(0));
    assert_eq!(log.send(1, 1, 0, 1), Ok(3));
    assert_eq!(log.send(1, 0, 3, 1), Err(ProducerError::Fenced { current: epoch(1) }));
    assert_eq!(log.send(1, 0, 0, 3), Err(ProducerError::Fenced { current: epoch(1) }));
    assert_eq!(log.send(1, 1, 1, 1), Ok(4));
}

/// F08: 0 follows 2^31 - 1, between batches and inside one; retries keep their offsets.
#[test]
fn sequence_wraps_between_batches_and_inside_one() {
    let mut log = Log::new();
    assert_eq!(log.send(1, 0, 2_147_483_640, 8), Ok(0));
    assert_eq!(log.send(1, 0, 1, 1), gap(0));
    assert_eq!(log.send(1, 0, 0, 1), Ok(8));
    assert_eq!(log.send(1, 0, 2_147_483_640, 8), Ok(0));
    let mut log = Log::new();
    assert_eq!(log.send(1, 0, 2_147_483_645, 6), Ok(0));
    assert_eq!(log.send(1, 0, 3, 1), Ok(6));
    assert_eq!(log.send(1, 0, 2_147_483_645, 6), Ok(0));
    assert_eq!(log.send(1, 0, 3, 1), Ok(6));
    assert_eq!(log.end, 7);
}

/// F09: a producer that was silent past the expiry is taken on anew, a lively one is not.
#[test]
fn silent_producer_is_forgotten_and_taken_on_anew() {
    let mut log = Log::new();
    assert_eq!(log.send(1, 0, 0, 3), Ok(0));
    assert_eq!(log.send(2, 0, 0, 3), Ok(3));
    let check = |log: &Log, pid, first, forget| {
        log.producers.check(&plain(pid, 0, first, 1), TimestampMs::new(forget))
    };
    assert_eq!(check(&log, 1, 77, 1), Ok(Checked::Next));
    assert!(check(&log, 2, 77, 1).is_err());
    log.producers.expire(TimestampMs::new(1), Offset::at(6));
    assert_eq!(log.producers.len(), 1);
    log.producers.expire(TimestampMs::new(100), Offset::at(3));
    assert_eq!(log.producers.len(), 1, "what is not durable is never forgotten");
    log.producers.expire(TimestampMs::new(100), Offset::at(6));
    assert!(log.producers.is_empty());
}

#[test]
fn refusal_goes_back_to_the_state_before_the_staged_batches() {
    let mut producers = Producers::new();
    let mut batch = ProducerBatch {
        epoch: epoch(0),
        first: seq(0),
        records: 1,
        base_offset: Offset::at(0),
        at: TimestampMs::ZERO,
    };
    let durable = Offset::at(1);
    producers.record(id(1), batch, durable);
    for n in 1..9 {
        batch.first = seq(n);
        batch.base_offset = Offset::at(i64::from(n));
        producers.record(id(1), batch, durable);
    }
    batch = ProducerBatch { epoch: epoch(1), first: seq(0), base_offset: Offset::at(9), ..batch };
    producers.record(id(1), batch, durable);
    producers.record(id(2), ProducerBatch { base_offset: Offset::at(10), ..batch }, durable);
    producers.refuse_from(durable);
    let check = |pid, e, first| producers.check(&plain(pid, e, first, 1), LONG_AGO);
    assert_eq!(check(1, 0, 1), Ok(Checked::Next));
    assert!(check(1, 0, 5).is_err());
    assert!(check(1, 1, 1).is_err());
    assert_eq!(producers.len(), 1);
}

#[test]
fn full_table_forgets_the_most_silent() {
    let mut producers = Producers::new();
    let max = i64::try_from(limits::PRODUCERS_PER_PARTITION_MAX).expect("small");
    let batch = |n: i64| ProducerBatch {
        epoch: epoch(0),
        first: seq(5),
        records: 1,
        base_offset: Offset::at(n),
        at: TimestampMs::new(n),
    };
    for n in 0..=max {
        producers.record(id(n), batch(n), Offset::MAX);
    }
    assert!(producers.len() <= limits::PRODUCERS_PER_PARTITION_MAX);
    let check = |pid| producers.check(&plain(pid, 0, 0, 1), LONG_AGO);
    assert_eq!(check(0), Ok(Checked::Next), "the most silent was forgotten");
    assert!(check(max).is_err(), "the newest is known");
    assert!(check(max / 2).is_err(), "one in the middle is known");
}

#[test]
fn snapshot_refuses_other_bytes() {
    let mut log = Log::new();
    for n in 0..9 {
        log.send(n % 3, 0, i32::try_from(n / 3).expect("small"), 1).expect("in order");
    }
    let bytes = log.producers.encode(Offset::at(log.end), |open| open.position);
    assert!(Producers::decode(2, &bytes).is_ok());
    for cut in 0..bytes.len() {
        assert!(Producers::decode(2, &bytes[..cut]).is_err(), "cut at {cut}");
    }
    let mut wrong = bytes.clone();
    wrong[8] = 0xff;
    assert_eq!(Producers::decode(2, &wrong).err(), Some(SnapshotError));
    let mut negative = bytes;
    negative[12] = 0x80;
    assert_eq!(Producers::decode(2, &negative).err(), Some(SnapshotError));
}

/// One step of the walk: producer, what it does.
#[derive(Clone, Debug)]
enum Step {
    Send(i64, u32),
    Retry(i64, usize),
    Skip(i64),
    Bump(i64),
    Reload,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0i64..3, 1u32..4).prop_map(|(p, n)| Step::Send(p, n)),
        2 => (0i64..3, 0usize..5).prop_map(|(p, back)| Step::Retry(p, back)),
        1 => (0i64..3).prop_map(Step::Skip),
        1 => (0i64..3).prop_map(Step::Bump),
        1 => Just(Step::Reload),
    ];
    proptest::collection::vec(step, 0..120)
}

/// Model of one producer: everything it ever sent under its present epoch, with the offsets.
#[derive(Clone, Default)]
struct Model {
    epoch: i16,
    next: i32,
    sent: Vec<(i32, u32, i64)>,
}

proptest! {
    /// Goal: each record once, at one offset, through retries, gaps, epochs and reloads.
    /// Method: a model that remembers all; the snapshot is taken and read back at random.
    #[test]
    fn walk_stores_each_batch_once(steps in steps(), start in prop_oneof![Just(0), Just(i32::MAX - 5)]) {
        let mut log = Log::new();
        let mut models = vec![Model { next: start, ..Model::default() }; 3];
        for step in steps {
            match step {
                Step::Send(p, n) => {
                    let model = &mut models[p as usize];
                    let got = log.send(p, model.epoch, model.next, n);
                    let at = log.end - i64::from(n);
                    prop_assert_eq!(got, Ok(at));
                    model.sent.push((model.next, n, at));
                    model.next = seq(model.next).add(n).get();
                }
                Step::Retry(p, back) => {
                    let model = &models[p as usize];
                    let Some(i) = model.sent.len().checked_sub(back + 1) else { continue };
                    let (first, n, at) = model.sent[i];
                    prop_assert_eq!(log.send(p, model.epoch, first, n), Ok(at));
                }
                Step::Skip(p) => {
                    let model = &models[p as usize];
                    if model.sent.is_empty() { continue }
                    let wrong = seq(model.next).add(9).get();
                    prop_assert_eq!(log.send(p, model.epoch, wrong, 1), gap(model.next));
                }
                Step::Bump(p) => {
                    let model = &mut models[p as usize];
                    if model.sent.is_empty() { continue }
                    *model = Model { epoch: model.epoch + 1, ..Model::default() };
                    let got = log.send(p, model.epoch, 0, 1);
                    let at = log.end - 1;
                    prop_assert_eq!(got, Ok(at));
                    model.sent.push((0, 1, at));
                    model.next = 1;
                }
                Step::Reload => {
                    let bytes = log.producers.encode(Offset::at(log.end), |open| open.position);
                    let (read, taken_at) = Producers::decode(2, &bytes).expect("own bytes");
                    prop_assert_eq!(taken_at, Offset::at(log.end));
                    log.producers = read;
                }
            }
        }
    }

    #[test]
    fn no_bytes_make_the_snapshot_panic(bytes: Vec<u8>) {
        let _ = Producers::decode(2, &bytes);
    }
}
