use super::*;

fn id(number: i64) -> ProducerId {
    ProducerId::new(number).unwrap()
}

fn epoch(number: i16) -> ProducerEpoch {
    ProducerEpoch::new(number).unwrap()
}

fn by(producer: i64, number: i16) -> Identity {
    Identity { producer: id(producer), epoch: epoch(number) }
}

fn at(ms: i64) -> TimestampMs {
    TimestampMs::new(ms)
}

fn in_state(state: State, number: i16) -> Transaction {
    let mut transaction = Transaction::new(id(1), 1000, at(0));
    (transaction.state, transaction.epoch) = (state, epoch(number));
    transaction.started_at = (state != State::Empty).then_some(at(5));
    transaction
}

const FENCED: Refusal = Refusal::Code(ErrorCode::ProducerFenced);
const STATE: Refusal = Refusal::Code(ErrorCode::InvalidTxnState);
const CONCURRENT: Refusal = Refusal::Code(ErrorCode::ConcurrentTransactions);
const MAPPING: Refusal = Refusal::Code(ErrorCode::InvalidProducerIdMapping);

/// What an end by the bumping protocol comes to: a new epoch, or the same answer again.
fn bump(
    transaction: &Transaction,
    by: Identity,
    outcome: Outcome,
) -> Result<&'static str, Refusal> {
    Ok(match transaction.ended_with_bump(by, outcome, None, at(9))? {
        End::Already(identity) => {
            assert_eq!(identity, transaction.identity());
            "again"
        }
        End::Step(next) => {
            assert_eq!(next.epoch.get(), transaction.epoch.get() + 1);
            assert_eq!(next.last_epoch, Some(transaction.epoch));
            assert!(next.started_at.is_some(), "{next:?}");
            "bumped"
        }
    })
}

/// The table of Apache Kafka's coordinator: retries come with the epoch before.
#[test]
fn end_of_an_empty_transaction_and_its_retry_follow_the_table_of_kip_890() {
    use Outcome::{Abort, Commit};
    for (state, abort_again, abort, commit_again, commit) in [
        (State::Empty, Err(FENCED), Ok("bumped"), Err(FENCED), Err(STATE)),
        (State::CompleteAbort, Ok("again"), Ok("bumped"), Err(STATE), Err(STATE)),
        (State::CompleteCommit, Err(STATE), Ok("bumped"), Ok("again"), Err(STATE)),
        (State::Ongoing, Err(FENCED), Ok("bumped"), Err(FENCED), Ok("bumped")),
        (State::PrepareAbort, Err(CONCURRENT), Err(FENCED), Err(STATE), Err(FENCED)),
        (State::PrepareCommit, Err(STATE), Err(FENCED), Err(CONCURRENT), Err(FENCED)),
    ] {
        let transaction = Transaction { protocol: Protocol::V2, ..in_state(state, 4) };
        assert_eq!(bump(&transaction, by(1, 3), Abort), abort_again, "{state} abort again");
        assert_eq!(bump(&transaction, by(1, 4), Abort), abort, "{state} abort");
        assert_eq!(bump(&transaction, by(1, 3), Commit), commit_again, "{state} commit again");
        assert_eq!(bump(&transaction, by(1, 4), Commit), commit, "{state} commit");
        assert_eq!(bump(&transaction, by(1, 5), Commit), Err(FENCED), "{state} from tomorrow");
        assert_eq!(bump(&transaction, by(2, 4), Abort), Err(MAPPING), "{state} of another id");
    }
}

#[test]
fn owner_that_was_replaced_is_not_told_the_epoch_of_the_end_of_another() {
    let Ok(End::Step(ended)) = in_state(State::Ongoing, 5).ended(by(1, 5), Outcome::Abort, at(9))
    else {
        panic!()
    };
    let complete = ended.completed(at(10));
    assert_eq!(bump(&complete, by(1, 4), Outcome::Abort), Err(FENCED));
    assert_eq!(bump(&complete, by(1, 5), Outcome::Abort), Ok("bumped"));
}

#[test]
fn end_of_old_clients_keeps_the_epoch_and_takes_no_other() {
    use Outcome::{Abort, Commit};
    for (state, abort, commit) in [
        (State::Empty, Err(STATE), Err(STATE)),
        (State::CompleteAbort, Ok("again"), Err(STATE)),
        (State::CompleteCommit, Err(STATE), Ok("again")),
        (State::Ongoing, Ok("ends"), Ok("ends")),
        (State::PrepareAbort, Err(CONCURRENT), Err(STATE)),
        (State::PrepareCommit, Err(STATE), Err(CONCURRENT)),
    ] {
        let transaction = in_state(state, 4);
        let end = |by, outcome| match transaction.ended(by, outcome, at(9)) {
            Ok(End::Step(next)) => {
                assert_eq!((next.epoch, next.protocol), (epoch(4), Protocol::V0));
                assert!(next.state.is_prepared());
                Ok("ends")
            }
            Ok(End::Already(_)) => Ok("again"),
            Err(refusal) => Err(refusal),
        };
        assert_eq!(end(by(1, 4), Abort), abort, "{state}");
        assert_eq!(end(by(1, 4), Commit), commit, "{state}");
        for other in [3, 5] {
            assert_eq!(end(by(1, other), Abort), Err(FENCED), "{state}");
        }
        assert_eq!(end(by(2, 4), Abort), Err(MAPPING), "{state}");
    }
}

#[test]
fn producer_that_says_who_it_was_is_given_the_bump_once_and_its_answer_again() {
    let transaction = in_state(State::CompleteCommit, 4);
    let go = |t: &Transaction, was| t.initialised(was, None, 1000, at(9));
    let next = go(&transaction, Some(by(1, 4))).unwrap();
    assert_eq!((next.epoch, next.last_epoch), (epoch(5), Some(epoch(4))));
    let again = go(&next, Some(by(1, 4))).unwrap();
    assert_eq!((again.epoch, again.last_epoch), (epoch(5), Some(epoch(4))));
    assert_eq!(go(&next, Some(by(1, 3))), Err(FENCED));
    assert_eq!(go(&next, Some(by(1, 6))), Err(FENCED));
    // Another producer of the same transactional id says nothing, and fences both.
    let other = go(&next, None).unwrap();
    assert_eq!((other.epoch, other.last_epoch), (epoch(6), None));
    assert_eq!(go(&other, Some(by(1, 4))), Err(FENCED));
    assert_eq!(go(&other, Some(by(1, 5))), Err(FENCED));
}

#[test]
fn used_up_epochs_give_a_new_producer_id() {
    let last = i16::MAX - 1;
    let transaction = in_state(State::Empty, last);
    let go =
        |t: &Transaction, was, fresh: Option<i64>| t.initialised(was, fresh.map(id), 1000, at(9));
    assert_eq!(go(&transaction, None, None), Err(Refusal::NeedsProducerId));
    let next = go(&transaction, None, Some(2)).unwrap();
    assert_eq!((next.identity(), next.previous, next.last_epoch), (by(2, 0), Some(id(1)), None));
    let next = go(&transaction, Some(by(1, last)), Some(2)).unwrap();
    assert_eq!((next.identity(), next.last_epoch), (by(2, 0), Some(epoch(last))));
    // The answer was lost: who still goes by the old id is told the new one again.
    assert!(next.may_go_on(by(1, last)) && !next.may_go_on(by(1, 7)) && !next.may_go_on(by(3, 0)));
    assert_eq!(go(&next, Some(by(1, last)), Some(3)).unwrap().identity(), by(2, 0));
    // Somebody who was fenced long ago uses nothing up.
    assert_eq!(go(&transaction, Some(by(1, 7)), Some(2)), Err(FENCED));
}

#[test]
fn end_at_the_last_epoch_goes_on_under_a_new_producer_id_and_is_answered_so_again() {
    let last = i16::MAX - 1;
    let transaction = in_state(State::Ongoing, last);
    let commit =
        |t: &Transaction, who, fresh| t.ended_with_bump(who, Outcome::Commit, fresh, at(9));
    assert_eq!(commit(&transaction, by(1, last), None), Err(Refusal::NeedsProducerId));
    let Ok(End::Step(prepared)) = commit(&transaction, by(1, last), Some(id(2))) else { panic!() };
    // The marker goes under the old id, in the epoch that no client is given.
    assert_eq!((prepared.identity(), prepared.next), (by(1, i16::MAX), Some(id(2))));
    assert_eq!(commit(&prepared, by(1, last), None), Err(CONCURRENT));
    let complete = prepared.completed(at(10));
    assert_eq!((complete.identity(), complete.previous), (by(2, 0), Some(id(1))));
    assert_eq!((complete.next, complete.state), (None, State::CompleteCommit));
    assert_eq!(commit(&complete, by(1, last), None), Ok(End::Already(by(2, 0))));
    assert_eq!(commit(&complete, by(1, last - 1), None), Err(MAPPING));
    // Once the new id is at work, the old one is unknown.
    let added = complete.added(by(2, 0), &[("t".into(), 0)], Protocol::V2, at(11));
    assert_eq!(commit(&added.unwrap().unwrap(), by(1, last), None), Err(MAPPING));
}

#[test]
fn fence_of_the_last_epoch_does_not_overflow() {
    let fenced = in_state(State::Ongoing, i16::MAX - 1).fenced(at(9));
    assert_eq!((fenced.identity(), fenced.next), (by(1, i16::MAX), None));
    assert_eq!(in_state(State::Ongoing, i16::MAX).fenced(at(9)).epoch, epoch(i16::MAX));
    let complete = fenced.completed(at(10));
    assert_eq!(complete.identity(), by(1, i16::MAX));
    assert_eq!(
        complete.initialised(None, None, 1000, at(11)),
        Err(Refusal::NeedsProducerId),
        "the next producer is given another id"
    );
    // Nor is its owner given the epoch that fenced it, whichever way it asks.
    let was = by(1, i16::MAX - 1);
    assert_eq!(fenced.ended_with_bump(was, Outcome::Abort, None, at(11)), Err(FENCED));
    assert_eq!(complete.ended_with_bump(was, Outcome::Abort, None, at(11)), Err(FENCED));
    assert_eq!(complete.initialised(Some(was), None, 1000, at(11)), Err(Refusal::NeedsProducerId));
    let resumed = complete.initialised(Some(was), Some(id(2)), 1000, at(11)).unwrap();
    assert_eq!((resumed.identity(), resumed.previous), (by(2, 0), Some(id(1))));
    assert!(resumed.may_go_on(was), "the answer may be lost");
    assert_eq!(resumed.initialised(Some(was), None, 1000, at(12)).unwrap().identity(), by(2, 0));
}

#[test]
fn time_of_a_transaction_counts_from_its_first_partition() {
    let transaction = Transaction::new(id(1), 1000, at(0));
    let add = |t: &Transaction, partition, now| {
        t.added(by(1, 0), &[("t".into(), partition)], Protocol::V0, at(now)).unwrap()
    };
    let one = add(&transaction, 0, 500).unwrap();
    assert_eq!(add(&one, 0, 600), None, "it is in already");
    let two = add(&one, 1, 700).unwrap();
    assert_eq!((two.started_at, two.updated_at), (Some(at(500)), at(700)));
    assert!(!two.is_timed_out(at(1500)) && two.is_timed_out(at(1501)));
    assert!(!two.is_expired(at(1 << 40), 1), "what is open does not expire");
    let Ok(End::Step(ended)) = two.ended(by(1, 0), Outcome::Commit, at(800)) else { panic!() };
    assert!(!ended.is_timed_out(at(9000)) && !ended.is_expired(at(1 << 40), 1));
    let complete = ended.completed(at(900));
    assert!(!complete.is_expired(at(1899), 1000) && complete.is_expired(at(1900), 1000));
    assert!(complete.partitions.is_empty());
    let again = add(&complete, 3, 2000).unwrap();
    assert_eq!((again.started_at, again.partitions.len()), (Some(at(2000)), 1));
}
