//! What the metrics tell of coordinators, against what clients did.

use crate::admin::{delete_group, until};
use crate::groups::{commit, coordinator};
use crate::scrape::{Samples, address, sum, value, watched};
use crate::topics::delete;
use crate::transactions::{add, end, find, init, until_state};

/// The sum over the cores of the series with this label.
fn labelled(samples: &Samples, name: &str, label: (&str, &str)) -> f64 {
    let label = (label.0.to_owned(), label.1.to_owned());
    let of = |((found, labels), _): &(&(String, Vec<(String, String)>), &f64)| {
        found == name && labels.contains(&label)
    };
    samples.iter().filter(of).map(|(_, value)| value).sum()
}

fn in_state(samples: &Samples, state: &str) -> f64 {
    labelled(samples, "millstream_transactional_ids", ("state", state))
}

fn ended(samples: &Samples, outcome: &str) -> f64 {
    labelled(samples, "millstream_transactions_ended_total", ("outcome", outcome))
}

#[test]
fn transactions_are_counted_by_state_and_end_and_known_again_after_a_restart() {
    let mut broker =
        watched(&["--set", "transaction.abort.timed.out.transaction.cleanup.interval.ms=50"]);
    let mut client = broker.connect();
    client.create("t", 2);
    find(&mut client);
    let [a, b, c] = ["a", "b", "c"].map(|id| init(&mut client, id));
    assert_eq!((add(&mut client, "a", a), add(&mut client, "b", b)), (0, 0));
    let samples =
        until(&address(&broker), "the open ones", |seen| in_state(seen, "Ongoing") == 2.0);
    assert_eq!(
        (in_state(&samples, "Empty"), sum(&samples, "millstream_transactional_ids")),
        (1.0, 3.0)
    );
    assert!(sum(&samples, "millstream_coordinator_loads_total") >= 50.0);
    until(&address(&broker), "their age", |seen| {
        sum(seen, "millstream_transaction_oldest_open_seconds") > 1.0
    });
    assert_eq!((end(&mut client, "a", a, true), end(&mut client, "b", b, false)), (0, 0));
    until_state(&mut client, "b", "CompleteAbort");
    let samples = until(&address(&broker), "the ended ones", |seen| {
        (in_state(seen, "CompleteCommit"), in_state(seen, "CompleteAbort")) == (1.0, 1.0)
    });
    assert_eq!((ended(&samples, "commit"), ended(&samples, "abort")), (1.0, 1.0));
    for nothing in [
        "millstream_transaction_oldest_open_seconds",
        "millstream_transactions_completing",
        "millstream_transaction_partitions_loading",
        "millstream_transactions_timed_out_total",
    ] {
        assert_eq!(sum(&samples, nothing), 0.0, "{nothing}");
    }
    assert_eq!(add(&mut client, "c", c), 0);
    drop(client);
    broker.kill();
    broker.start_again();
    // Each partition of the log is loaded by itself.
    let loads = |seen: &Samples| {
        labelled(seen, "millstream_coordinator_loads_total", ("coordinator", "transaction"))
    };
    let samples = until(&address(&broker), "those of before", |seen| loads(seen) >= 50.0);
    assert_eq!(in_state(&samples, "Ongoing"), 1.0);
    assert_eq!(sum(&samples, "millstream_transactional_ids"), 3.0);
    assert_eq!(ended(&samples, "commit"), 0.0, "totals count from the start");
    assert!(sum(&samples, "millstream_coordinator_load_longest_seconds") > 0.0);
}

#[test]
fn commits_rebalances_and_deletions_of_groups_are_counted() {
    let broker = watched(&[]);
    let mut client = broker.connect();
    client.create("t", 2);
    client.create("other", 1);
    coordinator(&mut client, "g");
    for (topic, offset) in [("t", 2), ("t", 3), ("other", 1)] {
        assert_eq!(commit(&mut client, "g", topic, offset), 0);
    }
    let at = address(&broker);
    until(&at, "the commits", |seen| sum(seen, "millstream_group_offset_commits_total") == 3.0);
    assert_eq!(delete(&mut client, "other"), 0);
    let deleted = "millstream_group_offsets_deleted_total";
    until(&at, "the offset of the topic that is gone", |seen| sum(seen, deleted) == 1.0);
    assert_eq!(delete_group(&mut client, "g"), 0);
    let samples = until(&at, "the offset of the group", |seen| sum(seen, deleted) == 2.0);
    assert_eq!(sum(&samples, "millstream_group_offsets_expired_total"), 0.0);
    assert_eq!(sum(&samples, "millstream_group_rebalances_total"), 0.0, "nobody has joined");
    let loads = |seen: &Samples| {
        value(
            seen,
            "millstream_coordinator_loads_total",
            &[("core", "0"), ("coordinator", "group")],
        )
    };
    assert!(loads(&samples).is_some());
}
