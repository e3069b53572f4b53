//! Transactions and the ids of their producers, over restarts and over time.

use crate::support::{Broker, Client, produce_request};
use millstream::wire::messages::add_partitions_to_txn::{
    AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, AddPartitionsToTxnTopic,
};
use millstream::wire::messages::describe_transactions::{
    DescribeTransactionsRequest, DescribeTransactionsResponse,
};
use millstream::wire::messages::end_txn::{EndTxnRequest, EndTxnResponse};
use millstream::wire::messages::find_coordinator::{
    FindCoordinatorRequest, FindCoordinatorResponse,
};
use millstream::wire::messages::init_producer_id::{InitProducerIdRequest, InitProducerIdResponse};
use millstream::wire::messages::list_offsets::{
    ListOffsetsPartition, ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopic,
};
use millstream::wire::messages::produce::{ProduceRequest, ProduceResponse};
use millstream_io::batch::Attributes;
use millstream_io::batch::testing::BatchBuilder;
use std::time::{Duration, Instant};

const LOADING: i16 = 14;
const NOT_COORDINATOR: i16 = 16;
const UNKNOWN_MAPPING: i16 = 49;
const CONCURRENT: i16 = 51;
const UNKNOWN_ID: i16 = 105;

/// Asks again while the answer is that a moment is needed.
pub fn patiently<T>(mut ask: impl FnMut() -> (i16, T)) -> (i16, T) {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let (code, answer) = ask();
        if !matches!(code, LOADING | NOT_COORDINATOR | CONCURRENT) || Instant::now() > until {
            return (code, answer);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub fn find(client: &mut Client) {
    let (code, ()) = patiently(|| {
        let request = FindCoordinatorRequest { key: "me", key_type: 1, ..Default::default() };
        let body = client.call(3, &request);
        (body.decode::<FindCoordinatorResponse<'_>>(3).error_code, ())
    });
    assert_eq!(code, 0);
}

/// Id and epoch.
pub fn init(client: &mut Client, id: &str) -> (i64, i16) {
    let request = InitProducerIdRequest {
        transactional_id: Some(id),
        transaction_timeout_ms: 60_000,
        ..Default::default()
    };
    let (code, me) = patiently(|| {
        let body = client.call(4, &request);
        let answer: InitProducerIdResponse = body.decode(4);
        (answer.error_code, (answer.producer_id, answer.producer_epoch))
    });
    assert_eq!(code, 0);
    me
}

pub fn add(client: &mut Client, id: &str, (producer, epoch): (i64, i16)) -> i16 {
    let topic = AddPartitionsToTxnTopic { name: "t", partitions: vec![0, 1] };
    let request = AddPartitionsToTxnRequest {
        v3_and_below_transactional_id: id,
        v3_and_below_producer_id: producer,
        v3_and_below_producer_epoch: epoch,
        v3_and_below_topics: vec![topic],
        ..Default::default()
    };
    let (code, ()) = patiently(|| {
        let body = client.call(3, &request);
        let answer: AddPartitionsToTxnResponse<'_> = body.decode(3);
        let topic = &answer.results_by_topic_v3_and_below[0];
        (topic.results_by_partition[0].partition_error_code, ())
    });
    code
}

fn send(client: &mut Client, id: &str, (producer, epoch): (i64, i16), sequence: i32) -> i16 {
    let batch = BatchBuilder {
        attributes: Attributes::TRANSACTIONAL,
        ..BatchBuilder::of_values(["x"]).from_producer(producer, epoch, sequence)
    };
    let batch = batch.build();
    let request =
        ProduceRequest { transactional_id: Some(id), ..produce_request("t", 0, &batch, -1) };
    let body = client.call(9, &request);
    body.decode::<ProduceResponse<'_>>(9).responses[0].partition_responses[0].error_code
}

pub fn end(client: &mut Client, id: &str, (producer, epoch): (i64, i16), committed: bool) -> i16 {
    let request = EndTxnRequest {
        transactional_id: id,
        producer_id: producer,
        producer_epoch: epoch,
        committed,
    };
    let body = client.call(4, &request);
    body.decode::<EndTxnResponse>(4).error_code
}

fn state(client: &mut Client, id: &str) -> (i16, String) {
    let request = DescribeTransactionsRequest { transactional_ids: vec![id] };
    let body = client.call(0, &request);
    let answer: DescribeTransactionsResponse<'_> = body.decode(0);
    let found = &answer.transaction_states[0];
    (found.error_code, found.transaction_state.to_owned())
}

pub fn until_state(client: &mut Client, id: &str, due: &str) {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let (code, found) = state(client, id);
        if code == 0 && found == due {
            return;
        }
        assert!(Instant::now() < until, "{id} is {found} ({code}) and not {due}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The offset behind the last record, as readers of committed records see it or as all others do.
pub fn end_offset(client: &mut Client, topic: &str, isolation_level: i8, timestamp: i64) -> i64 {
    let partition = ListOffsetsPartition { timestamp, ..Default::default() };
    let topics = vec![ListOffsetsTopic { name: topic, partitions: vec![partition] }];
    let request =
        ListOffsetsRequest { replica_id: -1, isolation_level, topics, ..Default::default() };
    let body = client.call(5, &request);
    body.decode::<ListOffsetsResponse<'_>>(5).topics[0].partitions[0].offset
}

/// Goal: an end that was answered comes to pass in every partition, although the broker is killed
/// before its markers need be written. Method: transactions that commit and abort by turns, a kill
/// right behind each answer, and a look at what the next start makes of it.
#[test]
fn answered_end_of_a_transaction_is_completed_after_a_kill() {
    let mut broker = Broker::start();
    let mut client = broker.connect();
    client.create("t", 2);
    find(&mut client);
    for round in 0..6 {
        let me = init(&mut client, "me");
        assert_eq!(add(&mut client, "me", me), 0);
        assert_eq!(send(&mut client, "me", me, 0), 0);
        let stable = end_offset(&mut client, "t", 1, -1);
        assert_eq!(stable, 2 * round, "what is open is not read as committed");
        let commits = round % 2 == 0;
        assert_eq!(end(&mut client, "me", me, commits), 0);
        broker.kill();
        broker.start_again();
        client = broker.connect();
        let due = if commits { "CompleteCommit" } else { "CompleteAbort" };
        until_state(&mut client, "me", due);
        let ends = (end_offset(&mut client, "t", 0, -1), end_offset(&mut client, "t", 1, -1));
        assert_eq!(ends.0, ends.1, "round {round}: the transaction still keeps readers back");
        assert!(ends.0 >= 2 * round + 2);
        if ends.0 != 2 * round + 2 {
            // The marker was written before the kill, and once more behind it.
            assert_eq!(ends.0, 2 * round + 3);
            return;
        }
        let answer = patiently(|| (end(&mut client, "me", me, commits), ()));
        assert_eq!(answer.0, 0, "who did not get the answer asks again");
        assert_eq!(end(&mut client, "me", me, !commits), 48);
    }
}

/// Goal: an id that nobody uses is forgotten, its producer is told so by an error that it takes as
/// final, and the next one begins at once; what is open stays.
#[test]
fn transactional_id_that_expired_is_told_as_such() {
    let broker = Broker::with(&[
        "--set",
        "transactional.id.expiration.ms=300",
        "--set",
        "transaction.remove.expired.transaction.cleanup.interval.ms=100",
    ]);
    let mut client = broker.connect();
    client.create("t", 2);
    find(&mut client);
    let (idle, busy) = (init(&mut client, "idle"), init(&mut client, "busy"));
    assert_eq!(add(&mut client, "busy", busy), 0);
    let until = Instant::now() + Duration::from_secs(60);
    while state(&mut client, "idle").0 != UNKNOWN_ID {
        assert!(Instant::now() < until, "an idle id does not expire");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(state(&mut client, "busy"), (0, "Ongoing".to_owned()));
    assert_eq!(add(&mut client, "idle", idle), UNKNOWN_MAPPING);
    assert_eq!(end(&mut client, "idle", idle, false), UNKNOWN_MAPPING);
    let again = init(&mut client, "idle");
    assert!(again.0 != idle.0 && again.1 == 0, "{again:?} after {idle:?}");
}

/// Goal: the log of transactions does not grow with the number of transactions, and says the same when
/// it was shortened. Method: an id as long as one can be, so that some hundred steps are enough.
#[test]
fn log_of_transactions_is_shortened_and_forgets_nothing() {
    let mut broker = Broker::with(&["--set", "transaction.state.log.num.partitions=1"]);
    let mut client = broker.connect();
    find(&mut client);
    let long = "x".repeat(32_000);
    let other = init(&mut client, "other");
    let mut last = init(&mut client, &long);
    for _ in 0..600 {
        let next = init(&mut client, &long);
        assert_eq!(next, (last.0, last.1 + 1));
        last = next;
    }
    let start = end_offset(&mut client, "__transaction_state", 0, -2);
    assert!(start > 400, "the log still begins at {start}");
    broker.kill();
    broker.start_again();
    let mut client = broker.connect();
    assert_eq!(init(&mut client, &long), (last.0, last.1 + 1));
    assert_eq!(init(&mut client, "other"), (other.0, other.1 + 1));
}
