use super::*;
use crate::txn::ask::Add;
use crate::txn::limits::ADDING_MAX;
use crate::txn::transaction::Participant;
use millstream_io::runtime::{Reply, oneshot};
use millstream_io::units::{ProducerEpoch, ProducerId};

pub(super) fn at(ms: i64) -> TimestampMs {
    TimestampMs::new(1_700_000_000_000 + ms)
}

pub(super) fn settings() -> Settings {
    Settings { timeout_ms_max: 900_000, expiration_ms: 100_000, record_bytes_max: 10_000 }
}

pub(super) fn fresh(number: i64) -> Option<ProducerId> {
    ProducerId::new(number)
}

pub(super) fn participant(partition: i32) -> Participant {
    ("t".into(), partition)
}

/// Puts records into a log of its own as they come, and tells when they are durable.
pub(super) struct Bench {
    pub ids: TransactionPartition,
    pub log: Vec<NewRecord>,
    pub waiting: Vec<Entry>,
    pub marking: Vec<Completion>,
    pub now: TimestampMs,
}

impl Bench {
    pub fn new() -> Bench {
        Bench {
            ids: TransactionPartition::new(settings()),
            log: Vec::new(),
            waiting: Vec::new(),
            marking: Vec::new(),
            now: at(0),
        }
    }

    pub fn ask<T>(&mut self, id: &str, ask: impl FnOnce(Promise<T>) -> Ask) -> Reply<T> {
        let (promise, reply) = oneshot();
        self.waiting.extend(self.ids.ask(&id.into(), ask(promise), self.now));
        reply
    }

    pub fn init(
        &mut self,
        expected: Option<Identity>,
        fresh: Option<ProducerId>,
    ) -> Reply<Result<Identity, Refusal>> {
        self.ask("tx", |reply| Ask::Init(Init { expected, timeout_ms: 1000, fresh }, reply))
    }

    pub fn add(&mut self, by: Identity, partition: i32) -> Reply<ErrorCode> {
        let partitions = vec![participant(partition)];
        self.ask("tx", |reply| Ask::Add(Add { by, partitions, protocol: Protocol::V2 }, reply))
    }

    pub fn end(
        &mut self,
        by: Identity,
        outcome: Outcome,
        protocol: Protocol,
    ) -> Reply<Result<Identity, Refusal>> {
        self.ask("tx", |reply| Ask::End(End { by, outcome, protocol, fresh: fresh(99) }, reply))
    }

    /// The oldest record becomes durable.
    pub fn durable(&mut self) -> bool {
        if self.waiting.is_empty() {
            return false;
        }
        let entry = self.waiting.remove(0);
        self.log.push(entry.record);
        let outgoing = self.ids.durable(&entry.id, self.now);
        self.waiting.extend(outgoing.entry);
        self.marking.extend(outgoing.completion);
        true
    }

    /// The oldest transaction that waits for markers has them.
    pub fn marked(&mut self) -> Option<Completion> {
        let completion = (!self.marking.is_empty()).then(|| self.marking.remove(0))?;
        self.waiting.extend(self.ids.marked(&completion.id, self.now));
        Some(completion)
    }

    /// Begins again with what the log says.
    pub fn restart(&mut self) {
        self.ids.abandon(ErrorCode::NotCoordinator);
        self.waiting.clear();
        self.ids = TransactionPartition::new(settings());
        for record in &self.log {
            let (Some(key), value) = (&record.key, &record.value) else { panic!("no key") };
            self.ids.replay(LogRecord::decode(key, value.as_deref()).unwrap());
        }
        self.marking = self.ids.loaded();
    }
}

fn code(refusal: ErrorCode) -> Result<Identity, Refusal> {
    Err(refusal.into())
}

#[test]
fn answers_wait_for_the_log_and_others_are_told_to_come_again() {
    let mut bench = Bench::new();
    assert_eq!(bench.init(None, None).wait().unwrap(), Err(Refusal::NeedsProducerId));
    let first = bench.init(None, fresh(1));
    let second = bench.init(None, fresh(2));
    assert_eq!(second.wait().unwrap(), code(ErrorCode::ConcurrentTransactions));
    assert!(bench.durable());
    let by = first.wait().unwrap().unwrap();
    assert_eq!((by.producer.get(), by.epoch.get()), (1, 0));
    let added = bench.add(by, 0);
    let early = bench.end(by, Outcome::Commit, Protocol::V2).wait().unwrap();
    assert_eq!(early, code(ErrorCode::ConcurrentTransactions));
    assert!(bench.durable());
    assert_eq!(added.wait().unwrap(), ErrorCode::None);
    let ended = bench.end(by, Outcome::Commit, Protocol::V2);
    assert!(bench.durable());
    let next = ended.wait().unwrap().unwrap();
    assert_eq!((next.producer.get(), next.epoch.get()), (1, 1));
    let completion = bench.marked().unwrap();
    assert_eq!((completion.by, completion.outcome), (next, Outcome::Commit));
    assert_eq!(*completion.partitions, [participant(0)].into());
    assert!(bench.durable());
    let again = bench.end(by, Outcome::Commit, Protocol::V2);
    assert_eq!(again.wait().unwrap(), Ok(next), "the answer was lost");
    let added = bench.add(next, 0);
    assert!(bench.durable());
    assert_eq!(added.wait().unwrap(), ErrorCode::None);
}

/// Goal: a producer that goes on at once need not come again. Method: it adds partitions while its last
/// transaction wants its markers, gives one of them up, and adds more while those are on their way.
#[test]
fn additions_wait_for_the_step_that_is_under_way_and_share_its_successor() {
    let mut bench = Bench::new();
    let first = bench.init(None, fresh(1));
    bench.durable();
    let by = first.wait().unwrap().unwrap();
    let added = bench.add(by, 0);
    let more = [bench.add(by, 1), bench.add(by, 1)];
    assert!(bench.durable() && added.wait().unwrap().is_none());
    assert!(bench.durable(), "both come in one record");
    assert!(more.into_iter().all(|more| more.wait().unwrap().is_none()));
    assert!(bench.waiting.is_empty());

    let ended = bench.end(by, Outcome::Commit, Protocol::V2);
    let early = bench.add(by, 2);
    bench.durable();
    let next = ended.wait().unwrap().unwrap();
    drop(bench.add(next, 3));
    let added = bench.add(next, 4);
    let completion = bench.marked().unwrap();
    assert_eq!(*completion.partitions, [participant(0), participant(1)].into());
    assert_eq!(early.wait().unwrap(), ErrorCode::ProducerFenced);
    assert!(bench.durable() && added.wait().unwrap().is_none());
    assert!(bench.waiting.is_empty(), "one record completes the one and begins the other");
    for _ in 0..2 {
        let described = bench.ids.describe(&"tx".into()).unwrap();
        assert_eq!((described.state, described.partitions), (State::Ongoing, vec![participant(4)]));
        assert_eq!(described.identity, next);
        bench.restart();
    }
}

#[test]
fn additions_beyond_those_that_may_wait_are_told_to_come_again() {
    let mut bench = Bench::new();
    let first = bench.init(None, fresh(1));
    bench.durable();
    let by = first.wait().unwrap().unwrap();
    let _added = bench.add(by, 0);
    let mut waiting: Vec<_> = (1..=ADDING_MAX as i32).map(|p| bench.add(by, p)).collect();
    assert_eq!(bench.add(by, 0).wait().unwrap(), ErrorCode::ConcurrentTransactions);
    drop(waiting.pop());
    let last = bench.add(by, 0);
    bench.restart();
    assert_eq!(last.wait().unwrap(), ErrorCode::NotCoordinator);
    assert!(waiting.into_iter().all(|one| one.wait().unwrap() == ErrorCode::NotCoordinator));
}

#[test]
fn producer_with_an_open_transaction_is_fenced_and_aborted_before_another_is_let_in() {
    let mut bench = Bench::new();
    let first = bench.init(None, fresh(1));
    bench.durable();
    let old = first.wait().unwrap().unwrap();
    let _added = bench.add(old, 0);
    bench.durable();
    let second = bench.init(None, None);
    bench.durable();
    assert_eq!(second.wait().unwrap(), code(ErrorCode::ConcurrentTransactions));
    let late = bench.end(old, Outcome::Commit, Protocol::V0).wait().unwrap();
    assert_eq!(late, code(ErrorCode::ProducerFenced));
    let completion = bench.marked().unwrap();
    assert_eq!((completion.outcome, completion.by.epoch.get()), (Outcome::Abort, 1));
    bench.durable();
    let second = bench.init(None, None);
    bench.durable();
    assert_eq!(second.wait().unwrap().unwrap().epoch.get(), 2);
    assert_eq!(bench.add(old, 0).wait().unwrap(), ErrorCode::ProducerFenced);
}

#[test]
fn what_is_open_for_too_long_is_aborted_and_its_producer_fenced() {
    let mut bench = Bench::new();
    let first = bench.init(None, fresh(1));
    bench.durable();
    let by = first.wait().unwrap().unwrap();
    let _added = bench.add(by, 0);
    bench.durable();
    bench.now = at(1000);
    assert!(bench.ids.abort_timed_out(bench.now).is_empty());
    bench.restart();
    bench.now = at(1001);
    bench.waiting = bench.ids.abort_timed_out(bench.now);
    assert_eq!(bench.waiting.len(), 1);
    assert!(bench.ids.abort_timed_out(bench.now).is_empty(), "it is under way");
    bench.durable();
    assert_eq!(bench.marked().unwrap().outcome, Outcome::Abort);
    bench.durable();
    let late = bench.end(by, Outcome::Commit, Protocol::V0).wait().unwrap();
    assert_eq!(late, code(ErrorCode::ProducerFenced));
}

#[test]
fn id_that_nobody_uses_leaves_the_log_and_its_producer_learns_of_it() {
    let mut bench = Bench::new();
    let first = bench.init(None, fresh(1));
    bench.durable();
    let by = first.wait().unwrap().unwrap();
    let _added = bench.add(by, 0);
    bench.durable();
    bench.now = at(1 << 40);
    assert!(bench.ids.expire(bench.now).is_empty(), "its transaction is open");
    let _ended = bench.end(by, Outcome::Commit, Protocol::V0);
    bench.durable();
    assert!(bench.ids.expire(bench.now).is_empty(), "markers are missing");
    bench.marked().unwrap();
    bench.durable();
    bench.now = at((1 << 40) + 99_999);
    assert!(bench.ids.expire(bench.now).is_empty());
    bench.now = at((1 << 40) + 100_000);
    bench.waiting = bench.ids.expire(bench.now);
    assert_eq!(bench.waiting.len(), 1);
    let early = bench.init(None, fresh(2)).wait().unwrap();
    assert_eq!(early, code(ErrorCode::ConcurrentTransactions), "it is on its way out");
    let added = bench.add(by, 0);
    bench.durable();
    assert_eq!(added.wait().unwrap(), ErrorCode::InvalidProducerIdMapping);
    assert!(bench.ids.is_empty());
    let late = bench.end(by, Outcome::Abort, Protocol::V0).wait().unwrap();
    assert_eq!(late, code(ErrorCode::InvalidProducerIdMapping));
    bench.restart();
    assert!(bench.ids.is_empty(), "the tombstone counts");
    let again = bench.init(Some(by), fresh(2));
    bench.durable();
    assert_eq!(again.wait().unwrap().unwrap().producer.get(), 2);
}

#[test]
fn aborts_without_partitions_need_no_marker() {
    let mut bench = Bench::new();
    let first = bench.init(None, fresh(1));
    bench.durable();
    let by = first.wait().unwrap().unwrap();
    let ended = bench.end(by, Outcome::Abort, Protocol::V2);
    bench.durable();
    assert_eq!(ended.wait().unwrap().unwrap().epoch.get(), 1);
    assert!(bench.marking.is_empty());
    assert!(bench.durable(), "the completion follows by itself");
    assert_eq!(bench.ids.describe(&"tx".into()).unwrap().state, State::CompleteAbort);
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    let mut bench = Bench::new();
    let init = |timeout_ms| Init { expected: None, timeout_ms, fresh: fresh(1) };
    for timeout_ms in [0, -1, 900_001, i32::MAX] {
        let refused = bench.ask("tx", |reply| Ask::Init(init(timeout_ms), reply)).wait().unwrap();
        assert_eq!(refused, code(ErrorCode::InvalidTransactionTimeout), "{timeout_ms}");
    }
    for id in ["", &"x".repeat(TRANSACTIONAL_ID_BYTES_MAX + 1)] {
        let refused = bench.ask(id, |reply| Ask::Init(init(1000), reply)).wait().unwrap();
        assert_eq!(refused, code(ErrorCode::InvalidRequest));
    }
    let nobody = Identity { producer: fresh(7).unwrap(), epoch: ProducerEpoch::ZERO };
    assert_eq!(bench.add(nobody, 0).wait().unwrap(), ErrorCode::InvalidProducerIdMapping);
    let first = bench.init(None, fresh(1));
    bench.durable();
    let by = first.wait().unwrap().unwrap();
    let partitions = (0..10_000).map(participant).collect();
    let add = Add { by, partitions, protocol: Protocol::V0 };
    let refused = bench.ask("tx", |reply| Ask::Add(add, reply)).wait().unwrap();
    assert_eq!(refused, ErrorCode::InvalidRequest, "its record fits no batch");
}

#[test]
fn verification_tells_each_partition_of_the_open_transaction() {
    let mut bench = Bench::new();
    let first = bench.init(None, fresh(1));
    bench.durable();
    let by = first.wait().unwrap().unwrap();
    let verify = |bench: &mut Bench, by| {
        let partitions = vec![participant(0), participant(1)];
        bench.ask("tx", |reply| Ask::Verify(by, partitions, reply)).wait().unwrap()
    };
    assert_eq!(verify(&mut bench, by), Ok(vec![false, false]));
    let _added = bench.add(by, 1);
    assert_eq!(verify(&mut bench, by), Ok(vec![false, false]), "it is not durable");
    bench.durable();
    assert_eq!(verify(&mut bench, by), Ok(vec![false, true]));
    let _ended = bench.end(by, Outcome::Abort, Protocol::V0);
    bench.durable();
    assert_eq!(verify(&mut bench, by), Err(ErrorCode::ConcurrentTransactions));
    let other = Identity { epoch: by.epoch.next().unwrap(), ..by };
    assert_eq!(verify(&mut bench, other), Err(ErrorCode::ProducerFenced));
}
