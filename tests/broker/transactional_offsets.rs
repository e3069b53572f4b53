//! Offsets that are committed in transactions, over kills and while their log is shortened.

use crate::groups::{commit, coordinator};
use crate::support::{Broker, Client};
use crate::transactions::{end_offset, find, init, patiently, until_state};
use millstream::wire::messages::end_txn::{EndTxnRequest, EndTxnResponse};
use millstream::wire::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
    OffsetCommitResponse,
};
use millstream::wire::messages::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse,
};
use millstream::wire::messages::txn_offset_commit::{
    TxnOffsetCommitRequest, TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
};

const UNSTABLE: (i64, i16) = (-1, 88);

/// Commits in the transaction of `me`, which it begins when none is open.
fn commit_in(client: &mut Client, id: &str, me: (i64, i16), offset: i64) {
    let partition =
        TxnOffsetCommitRequestPartition { committed_offset: offset, ..Default::default() };
    let request = TxnOffsetCommitRequest {
        transactional_id: id,
        group_id: "g",
        producer_id: me.0,
        producer_epoch: me.1,
        topics: vec![TxnOffsetCommitRequestTopic { name: "t", partitions: vec![partition] }],
        ..Default::default()
    };
    let (code, ()) = patiently(|| {
        let body = client.call(5, &request);
        let answer: TxnOffsetCommitResponse<'_> = body.decode(5);
        (answer.topics[0].partitions[0].error_code, ())
    });
    assert_eq!(code, 0);
}

/// Ends the transaction of `me`, who goes on as who is answered.
fn end(client: &mut Client, id: &str, me: (i64, i16), committed: bool) -> (i64, i16) {
    let request =
        EndTxnRequest { transactional_id: id, producer_id: me.0, producer_epoch: me.1, committed };
    let (code, next) = patiently(|| {
        let body = client.call(5, &request);
        let answer: EndTxnResponse = body.decode(5);
        (answer.error_code, (answer.producer_id, answer.producer_epoch))
    });
    assert_eq!(code, 0);
    next
}

/// Offset and error.
fn fetched(client: &mut Client, require_stable: bool) -> (i64, i16) {
    let topics = vec![OffsetFetchRequestTopic { name: "t", partition_indexes: vec![0] }];
    let topics = Some(topics);
    let request =
        OffsetFetchRequest { group_id: "g", topics, require_stable, ..Default::default() };
    let (code, found) = patiently(|| {
        let body = client.call(7, &request);
        let answer: OffsetFetchResponse<'_> = body.decode(7);
        let partition = answer.topics.first().map(|topic| &topic.partitions[0]);
        (answer.error_code, partition.map(|found| (found.committed_offset, found.error_code)))
    });
    assert_eq!(code, 0);
    found.unwrap()
}

/// Goal: an offset that is committed in a transaction is pending until its end, and counts or is
/// forgotten from then on, whenever the broker is killed. Method: a kill behind each step.
#[test]
fn offset_of_a_transaction_is_pending_over_a_kill_and_counts_from_its_end_on() {
    let mut broker = Broker::start();
    let mut client = broker.connect();
    client.create("t", 1);
    find(&mut client);
    assert_eq!(coordinator(&mut client, "g"), 0);
    let (code, ()) = patiently(|| (commit(&mut client, "g", "t", 1), ()));
    assert_eq!(code, 0);
    let mut me = init(&mut client, "me");
    for (offset, commits, due) in [(10, false, 1), (20, true, 20), (30, true, 30)] {
        let before = fetched(&mut client, true);
        commit_in(&mut client, "me", me, offset);
        for _ in 0..2 {
            assert_eq!(
                (fetched(&mut client, true), fetched(&mut client, false)),
                (UNSTABLE, before)
            );
            broker.kill();
            broker.start_again();
            client = broker.connect();
        }
        me = end(&mut client, "me", me, commits);
        broker.kill();
        broker.start_again();
        client = broker.connect();
        until_state(&mut client, "me", if commits { "CompleteCommit" } else { "CompleteAbort" });
        assert_eq!((fetched(&mut client, true), fetched(&mut client, false)), ((due, 0), (due, 0)));
    }
}

/// Commits offsets of 100 other partitions with as many words as are allowed: half a megabyte.
fn commit_much(client: &mut Client) {
    let words = "x".repeat(4096);
    let one = |partition_index| OffsetCommitRequestPartition {
        partition_index,
        committed_offset: 1,
        committed_metadata: Some(&words),
        ..Default::default()
    };
    let topic = OffsetCommitRequestTopic {
        name: "much",
        partitions: (0..100).map(one).collect(),
        ..Default::default()
    };
    let request = OffsetCommitRequest {
        group_id: "other",
        generation_id_or_member_epoch: -1,
        topics: vec![topic],
        ..Default::default()
    };
    let body = client.call(8, &request);
    let answer: OffsetCommitResponse<'_> = body.decode(8);
    assert_eq!(answer.topics[0].partitions[0].error_code, 0);
}

/// Goal: what an open transaction needs of the log of offsets stays there, and goes when it has
/// ended; nothing is lost by that. Method: the log is made to be said again by much that is committed
/// beside, and read anew after a kill.
#[test]
fn log_of_offsets_is_shortened_around_an_open_transaction() {
    let mut broker = Broker::with(&["--set", "offsets.topic.num.partitions=1"]);
    let mut client = broker.connect();
    client.create("t", 1);
    client.create("much", 100);
    find(&mut client);
    assert_eq!(coordinator(&mut client, "g"), 0);
    let start = |client: &mut Client| end_offset(client, "__consumer_offsets", 0, -2);
    let (code, ()) = patiently(|| (commit(&mut client, "g", "t", 1), ()));
    assert_eq!(code, 0);
    for _ in 0..60 {
        commit_much(&mut client);
    }
    let shortened = start(&mut client);
    assert!(shortened > 2000, "the log still begins at {shortened}");
    let me = init(&mut client, "me");
    commit_in(&mut client, "me", me, 2);
    for _ in 0..90 {
        commit_much(&mut client);
    }
    let held = start(&mut client);
    assert!(held < 6000, "the log begins at {held}, behind what the transaction needs");
    broker.kill();
    broker.start_again();
    let mut client = broker.connect();
    assert_eq!((fetched(&mut client, true), fetched(&mut client, false)), (UNSTABLE, (1, 0)));
    end(&mut client, "me", me, true);
    until_state(&mut client, "me", "CompleteCommit");
    assert_eq!((fetched(&mut client, true), fetched(&mut client, false)), ((2, 0), (2, 0)));
    for _ in 0..90 {
        commit_much(&mut client);
    }
    let released = start(&mut client);
    assert!(released > 9000, "the log still begins at {released}");
    broker.kill();
    broker.start_again();
    assert_eq!(fetched(&mut broker.connect(), true), (2, 0));
}
