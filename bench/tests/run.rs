//! Every mode of `run` against the null server: the counts are right, and what a broken broker would do
//! is noticed. Goal of the lies: a check that cannot fail proves nothing.

#![expect(clippy::expect_used, reason = "a test fails where it stands")]

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use millstream_bench::batch::codec::Codec;
use millstream_bench::null::{self, Lies};
use millstream_bench::run::{Observer, Outcome, Plan, Reading, Transactions, conduct};

fn server(lies: Lies) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    // The thread lives as long as the test process.
    std::thread::spawn(move || null::serve_lying(listener, lies));
    address
}

fn run(plan: &Plan, lies: Lies) -> Outcome {
    let observer = Observer { broker: None, device: None };
    conduct(plan, server(lies), &observer, &mut |line| println!("{line}")).expect("a run")
}

fn short() -> Plan {
    Plan {
        partitions: 4,
        producers: 4,
        message_bytes: 100,
        warm_up: Duration::from_millis(200),
        length: Duration::from_millis(600),
        interval: Duration::from_millis(200),
        ..Plan::default()
    }
}

fn tail(plan: Plan) -> Plan {
    Plan { consumers: 2, reading: Some(Reading::Tail), ..plan }
}

/// All agreed, and something happened.
fn sound(outcome: &Outcome) {
    assert!(outcome.checks.hold(outcome.plan.acks), "{:?}", outcome.checks);
    assert!(outcome.total.records > 0 && outcome.acked > 0);
}

#[test]
fn a_constant_rate_sends_what_is_due_and_nothing_else() {
    let outcome = run(&Plan { rate: 2000.0, ..short() }, Lies::default());
    sound(&outcome);
    assert_eq!(outcome.acked, 1600, "2,000 a second for 0.8 s");
    assert_eq!(outcome.intervals.len(), 4);
    assert!(outcome.intervals[0].warm_up && !outcome.intervals[1].warm_up);
    assert!(outcome.total.due.len() <= 1400, "the warm-up is in no total");
}

#[test]
fn each_codec_and_each_acks_is_written_and_read_back() {
    for codec in Codec::ALL {
        let plan = tail(Plan { rate: 20_000.0, records: 10, codec, random: 0.5, ..short() });
        let outcome = run(&plan, Lies::default());
        sound(&outcome);
        assert!(outcome.total.end_to_end.len() > 100, "{codec:?}");
    }
    for acks in [0, 1, -1] {
        let outcome = run(&tail(Plan { rate: 5000.0, acks, ..short() }), Lies::default());
        sound(&outcome);
        assert_eq!((outcome.acked, outcome.checks.missing), (4000, 0), "acks={acks}");
        assert_eq!(outcome.total.due.is_empty(), acks == 0, "no answer, no latency");
    }
}

#[test]
fn what_nobody_answers_is_sent_to_the_last() {
    let outcome = run(&Plan { acks: 0, rate: 20_000.0, producers: 50, ..short() }, Lies::default());
    sound(&outcome);
    assert_eq!((outcome.acked, outcome.checks.missing), (16_000, 0));
}

#[test]
fn as_fast_as_possible_keeps_so_many_in_flight_and_loses_none() {
    for acks in [0, -1] {
        let outcome = run(&Plan { acks, in_flight: 3, threads: 2, ..short() }, Lies::default());
        sound(&outcome);
        assert_eq!((outcome.checks.missing, outcome.checks.surplus), (0, 0));
        assert!(outcome.acked > 2000, "{}", outcome.acked);
    }
}

#[test]
fn large_batches_over_many_partitions_and_topics_are_all_read_by_every_subscription() {
    let plan = tail(Plan {
        topics: 2,
        partitions: 50,
        producers: 3,
        records: 30,
        spread: 10,
        message_bytes: 1024,
        subscriptions: 2,
        ..short()
    });
    let outcome = run(&plan, Lies::default());
    sound(&outcome);
    let read: u64 = outcome.intervals.iter().map(|one| one.stats.read_records).sum();
    assert!(read > outcome.acked, "two subscriptions read {read} of {}", outcome.acked);
}

#[test]
fn messages_with_keys_go_to_many_partitions_from_many_producers() {
    let plan = tail(Plan {
        partitions: 100,
        producers: 50,
        keyed: true,
        spread: 20,
        rate: 50_000.0,
        ..short()
    });
    let outcome = run(&plan, Lies::default());
    sound(&outcome);
    let in_batch = outcome.total.records as f64 / outcome.total.requests as f64;
    assert_eq!(in_batch, 20.0, "messages of a request");
}

#[test]
fn a_backfill_reads_the_backlog_over_and_over_while_producers_go_on() {
    let plan = Plan {
        consumers: 2,
        reading: Some(Reading::Backfill),
        backlog_bytes: 4 << 20,
        records: 10,
        rate: 1000.0,
        ..short()
    };
    let outcome = run(&plan, Lies::default());
    sound(&outcome);
    assert!(outcome.checks.passes > 8, "{:?}", outcome.checks);
    assert!(outcome.total.read_bytes > outcome.total.bytes);
    assert!(outcome.total.end_to_end.is_empty(), "old records have no latency");
}

#[test]
fn a_backlog_before_tail_readers_is_drained_first() {
    let plan = tail(Plan { backlog_bytes: 1 << 20, rate: 1000.0, ..short() });
    let outcome = run(&plan, Lies::default());
    sound(&outcome);
    let read: u64 = outcome.intervals.iter().map(|one| one.stats.read_records).sum();
    assert!(read > 2000, "{read} read, and the backlog has about 5,000");
}

#[test]
fn idle_connections_are_asked_now_and_then() {
    let plan = Plan { idle: 300, threads: 2, rate: 100.0, ..short() };
    let outcome = run(&plan, Lies::default());
    sound(&outcome);
    let pokes: u64 = outcome.intervals.iter().map(|one| one.stats.pokes).sum();
    assert!((5..=8).contains(&pokes), "{pokes} pokes: 300 connections, 30 s, 0.8 s");
}

#[test]
fn a_server_that_stands_still_is_charged_for_all_that_was_due_meanwhile() {
    let stall = Duration::from_millis(400);
    let plan = Plan { rate: 1000.0, in_flight: 1, producers: 1, ..short() };
    let lies = Lies { stall: Some((300, stall)), ..Lies::default() };
    let outcome = run(&plan, lies);
    sound(&outcome);
    assert_eq!(outcome.acked, 800, "nothing that was due is left out");
    // A client that waits for its answer before it sends sees one slow request. Half of what was due
    // while the server stood still waited for more than half of the time.
    let (due, sent) = (&outcome.total.due, &outcome.total.sent);
    let half = u64::try_from(stall.as_micros() / 2).expect("a small number");
    assert!(due.value_at_quantile(0.75) > half, "from due: {}", due.value_at_quantile(0.75));
    assert!(sent.value_at_quantile(0.75) < half / 2, "from sent: {}", sent.value_at_quantile(0.75));
    assert!(due.max() >= half * 2 && sent.max() >= half * 2);
}

#[test]
fn lost_repeated_and_damaged_batches_end_in_a_bad_verdict() {
    let plan = tail(Plan { rate: 2000.0, ..short() });
    let lost = run(&plan, Lies { lose: 50, ..Lies::default() }).checks;
    assert!(lost.faults.lost > 0 && lost.missing > 0 && !lost.hold(-1), "{lost:?}");
    let repeated = run(&plan, Lies { repeat: 50, ..Lies::default() }).checks;
    assert!(repeated.faults.duplicate > 0 && repeated.surplus > 0 && !repeated.hold(-1));
    let damaged = run(&plan, Lies { flip: 50, ..Lies::default() }).checks;
    assert!(damaged.faults.corrupt > 0 && !damaged.hold(-1), "{damaged:?}");
    // Readers of a backlog notice the same.
    let backfill = Plan { reading: Some(Reading::Backfill), backlog_bytes: 1 << 20, ..plan };
    let lost = run(&backfill, Lies { lose: 50, ..Lies::default() }).checks;
    assert!(lost.faults.lost > 0 && !lost.hold(-1), "{lost:?}");
}

#[test]
fn transactions_are_counted_and_aborted_data_stays_out_of_sight() {
    let transactions = Some(Transactions { requests: 2, abort_every: 5 });
    let plan = tail(Plan { transactions, producers: 10, rate: 4000.0, ..short() });
    let outcome = run(&plan, Lies::default());
    sound(&outcome);
    assert!(outcome.total.transactions > 500, "{}", outcome.total.transactions);
    assert!(outcome.total.due.len() >= outcome.total.transactions, "each has its latency");
    let read: u64 = outcome.intervals.iter().map(|one| one.stats.read_records).sum();
    let stored: u64 = outcome.intervals.iter().map(|one| one.stats.records).sum();
    assert!(read < stored && read > stored / 2, "{read} read of {stored}: a fifth is aborted");
    for old_transactions in [false, true] {
        let fast = Plan { rate: 0.0, ..plan.clone() };
        let outcome = run(&fast, Lies { old_transactions, ..Lies::default() });
        sound(&outcome);
        assert!(outcome.total.transactions > 100);
    }
    let told = run(&plan, Lies { hide_aborts: true, ..Lies::default() }).checks;
    assert!(told.faults.aborted_seen > 0 && !told.hold(-1), "{told:?}");
}
