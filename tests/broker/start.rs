//! What lets a broker start, and how it says why it does not.

use crate::support::{Broker, refused};

fn sentence(arguments: &[&str], parts: &[&str]) {
    let data = tempfile::tempdir().unwrap();
    let (status, said) = refused(data.path(), arguments);
    assert!(!status.success() && status.code().is_some(), "{arguments:?}: {status} {said}");
    for part in parts {
        assert!(said.contains(part), "{arguments:?}: {part} is not in: {said}");
    }
    assert!(!said.contains("panicked"), "{said}");
}

#[test]
fn start_of_an_empty_broker_is_quick_and_says_one_line() {
    let broker = Broker::start();
    assert!(broker.ready.contains("ready") && broker.ready.contains(&broker.address));
    assert!(broker.ready.contains(&broker.data.path().display().to_string()));
    assert!(broker.ready.contains("core"));
}

#[test]
fn impossible_addresses_refuse_the_start_in_words() {
    sentence(&["--listen", "0.0.0.0:0"], &["0.0.0.0", "--advertise"]);
    sentence(&["--advertise", "0.0.0.0:1"], &["advertised.listeners", "0.0.0.0"]);
    sentence(&["--advertise", "host:0"], &["advertised.listeners", "port 0"]);
    sentence(&["--advertise", "no-such-host.invalid:1"], &["no-such-host.invalid"]);
    sentence(&["--listen", "192.0.2.1:0"], &["192.0.2.1"]);
    sentence(&["--listen", "127.0.0.1"], &["HOST:PORT"]);
}

#[test]
fn port_in_use_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    sentence(&["--listen", &address], &[&address, "another process"]);
    let broker = Broker::start();
    sentence(&["--listen", &broker.address], &[&broker.address, "another process"]);
}

#[test]
fn data_directory_in_use_is_named() {
    let broker = Broker::start();
    let (status, said) = refused(broker.data.path(), &[]);
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("another") && said.contains("data"), "{said}");
}

#[test]
fn settings_of_file_and_command_line_are_checked_before_anything_is_touched() {
    let data = tempfile::tempdir().unwrap();
    let file = data.path().join("broker.toml");
    std::fs::write(&file, "log.roll.ms = \"7d\"\n").unwrap();
    let config = file.to_str().unwrap();
    let (status, said) = refused(data.path(), &["--config", config]);
    assert!(!status.success());
    for part in ["log.roll.ms", "7d", "line 1", "broker.toml"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!data.path().join("data").exists(), "a refused start made the data directory");
    sentence(&["--set", "node.id=1", "--set", "node.id=2"], &["node.id", "twice"]);
    sentence(&["--set", "cores=999"], &["cores", "999"]);
    sentence(&["--config", "/no/such/file"], &["/no/such/file"]);
    sentence(&["--fly"], &["--fly", "--help"]);
}

#[test]
fn unknown_settings_are_reported_with_the_nearest_name() {
    let broker = Broker::with(&["--set", "log.segment.byte=1", "--set", "zookeeper.connect=x"]);
    assert!(broker.logs("log.segment.bytes") && broker.logs("zookeeper.connect"));
}

#[test]
fn number_of_the_node_does_not_change() {
    let mut broker = Broker::start();
    assert_eq!(broker.stop().code(), Some(0));
    let (status, said) = refused(broker.data.path(), &["--set", "node.id=7"]);
    assert!(!status.success() && said.contains('7'), "{said}");
}
