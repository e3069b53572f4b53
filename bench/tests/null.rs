//! The client against the null server: what was acknowledged is read back, and what was not sent is
//! noticed.

#![expect(clippy::expect_used, reason = "a test fails where it stands")]

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use millstream_bench::batch::Batch;
use millstream_bench::client::{Admin, Driver, Expect};
use millstream_bench::load::{FetchLoop, ProduceLoop, Shot, Span, check_ends};
use millstream_bench::null;

fn server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    // The thread lives as long as the test process.
    std::thread::spawn(move || null::serve(listener));
    address
}

fn produced(
    address: SocketAddr,
    batch: &Batch,
) -> (Admin, millstream_bench::client::Topic, Vec<i64>) {
    let mut admin = Admin::connect(address).expect("a null server");
    let topic = admin.create("t", 3, &[]).expect("a topic");
    let shots =
        |parts: &[i32]| vec![Shot::new(admin.versions, &topic, parts, batch).expect("fits")];
    let lists = vec![shots(&[0]), shots(&[1, 2])];
    let driver = Driver::connect(address, 2).expect("connections");
    let mut load = ProduceLoop::new(driver, admin.versions, 3, lists, 4).expect("a load");
    load.run(Duration::from_millis(50), 100).expect("answers");
    load.drain().expect("answers");
    let ends = admin.ends(&topic).expect("ends");
    check_ends(&ends, &[0; 3], &load.acked).expect("as acknowledged");
    assert!(check_ends(&ends, &[1, 0, 0], &load.acked).is_err(), "a missing record is noticed");
    assert_eq!(load.tally.records, load.acked.iter().sum::<u64>());
    (admin, topic, ends)
}

fn read(
    address: SocketAddr,
    admin: &Admin,
    topic: &millstream_bench::client::Topic,
    ends: &[i64],
    expect: Expect,
) -> anyhow::Result<u64> {
    let span = |partition: usize| Span {
        partition: i32::try_from(partition).expect("a small number"),
        from: 0,
        to: ends[partition],
    };
    let spans = vec![vec![span(0), span(1)], vec![span(2)]];
    let driver = Driver::connect(address, 2)?;
    let mut load = FetchLoop::new(driver, admin.versions, topic, expect, spans, 100_000)?;
    load.run_once().map(|tally| tally.records)
}

#[test]
fn client_reads_back_what_was_acknowledged() {
    let address = server();
    let batch = Batch::filled(7, 100, 1, 1);
    let (admin, topic, ends) = produced(address, &batch);
    let mut expect = Expect::default();
    expect.add(&batch);
    let records = read(address, &admin, &topic, &ends, expect).expect("all is read");
    assert!(records >= ends.iter().sum::<i64>().unsigned_abs());
}

#[test]
fn client_refuses_a_batch_that_was_never_sent() {
    let address = server();
    let (admin, topic, ends) = produced(address, &Batch::filled(7, 100, 1, 1));
    let mut expect = Expect::default();
    expect.add(&Batch::filled(7, 100, 2, 1));
    let error = read(address, &admin, &topic, &ends, expect).expect_err("another batch");
    assert!(format!("{error:#}").contains("never sent"), "{error:#}");
}
