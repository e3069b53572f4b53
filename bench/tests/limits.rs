//! All questions of `limits`, small, against the server that does nothing in this process. Goal: every
//! row is there with its values and its note, and a lie of the server voids its row.

#![expect(clippy::expect_used, reason = "a test fails where it stands")]

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::time::Duration;

use millstream_bench::figures::Report;
use millstream_bench::host::Cpus;
use millstream_bench::limits::Case;
use millstream_bench::null::{self, Lies};
use millstream_bench::process::one_core;
use serde_json::Value;

fn server(lies: Lies) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    // The thread lives as long as the test process.
    std::thread::spawn(move || null::serve_lying(listener, lies));
    address
}

fn measured(lies: Lies, only: Option<&[&str]>) -> Value {
    let cpus = Cpus { broker: Vec::new(), client: Vec::new() };
    let data = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let case = Case {
        launch: one_core(&PathBuf::from("none"), &data, &cpus),
        cpus,
        attached: Some((server(lies), std::process::id())),
        window: Duration::from_millis(100),
        windows: 3,
        window_bytes: 16 << 20,
        log_gb: 0.03,
        gb: 0.15,
        backlog_gb: 0.03,
        rate: 500,
    };
    let mut report = Report::new(Value::Null);
    case.measure(only, &mut report);
    println!("{}", report.table(false));
    report.json()
}

#[test]
fn every_limit_is_measured_with_its_values_and_what_limits_it() {
    let report = measured(Lies::default(), None);
    assert_eq!(report["failures"], Value::Array(Vec::new()));
    let rows = report["figures"].as_array().expect("rows");
    let find = |name: &str| {
        let row = rows.iter().find(|row| row["name"].as_str().is_some_and(|n| n.starts_with(name)));
        row.unwrap_or_else(|| panic!("no row {name}"))
    };
    for (name, values) in [
        ("fetch from memory", 3),
        ("fetch from files", 3),
        ("batched produce", 3),
        ("memory (RSS)", 1),
        ("produce p99 during a full backfill read", 3),
    ] {
        let row = find(name);
        let found = row["values"].as_array().expect("values");
        assert_eq!(found.len(), values, "{name}");
        let sound = |value: &Value| value.as_f64().is_some_and(|v| v.is_finite() && v > 0.0);
        assert!(found.iter().all(sound), "{name}: {found:?}");
        assert!(row["note"].as_str().is_some_and(|note| note.contains("cores")), "{name}");
    }
    assert_eq!(find("produce p99, alone")["values"].as_array().map(Vec::len), Some(4));
}

#[test]
fn a_limit_whose_data_is_not_what_was_sent_is_no_figure() {
    for (lies, only) in [
        (Lies { flip: 5, ..Lies::default() }, "fetch"),
        (Lies { lose: 5, ..Lies::default() }, "produce"),
        (Lies { flip: 5, ..Lies::default() }, "memory"),
        (Lies { lose: 5, ..Lies::default() }, "backfill"),
    ] {
        let report = measured(lies, Some(&[only]));
        let failures = report["failures"].as_array().expect("failures");
        assert_eq!(failures.len(), 1, "{only}");
        assert_eq!(failures[0]["figure"], only);
        assert_eq!(report["figures"], Value::Array(Vec::new()), "{only}");
    }
}
