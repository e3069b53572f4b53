//! The admin listener against whoever means it ill, or is slow.

use crate::scrape::{address, asked, connect, get, metrics, parse, read_answer, watched};
use std::io::{Read, Write};
use std::time::{Duration, Instant};

#[test]
fn only_what_there_is_can_be_asked_and_only_for_reading() {
    let broker = watched(&[]);
    let at = address(&broker);
    for path in ["/", "/metrics/", "/favicon.ico", "/../../etc/passwd", "/%00"] {
        assert_eq!(get(&at, path).status, 404, "{path}");
    }
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "BREW"] {
        let request = format!("{method} /metrics HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n");
        let answer = asked(&at, &request);
        assert_eq!(answer.status, 405, "{method}");
        assert!(answer.head.contains("allow: get, head"), "{}", answer.head);
    }
    let head = asked(&at, "HEAD /metrics HTTP/1.1\r\nhost: x\r\n\r\n");
    assert_eq!((head.status, &*head.body), (200, ""));
    assert_eq!(get(&at, "/metrics?name[]=x").status, 200);
    assert_eq!(asked(&at, "GET /healthz HTTP/1.0\r\n\r\n").status, 200);
    // A body is not read, and a second request of one connection not answered.
    let request = "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n".repeat(50);
    let mut stream = connect(&at);
    stream.write_all(request.as_bytes()).unwrap();
    let mut all = Vec::new();
    let _ = stream.read_to_end(&mut all);
    assert_eq!(String::from_utf8_lossy(&all).matches("HTTP/1.1 200").count(), 1);
}

#[test]
fn nonsense_and_huge_heads_are_refused_and_cost_nothing() {
    let broker = watched(&[]);
    let at = address(&broker);
    get(&at, "/metrics");
    let before = broker.rss();
    let huge = format!("GET /metrics HTTP/1.1\r\nx: {}", "y".repeat(64 << 10));
    let many = format!("GET /metrics HTTP/1.1\r\n{}\r\n", "x: y\r\n".repeat(1000));
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "z".repeat(64 << 10));
    let hostile: Vec<Vec<u8>> = vec![
        huge.into(),
        many.into(),
        long.into(),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(),
        vec![0; 100_000],
        (0..=255).cycle().take(100_000).collect(),
        b"GET /metrics HTTP/9.9\r\n\r\n".to_vec(),
        b"\r\n\r\n\r\n".to_vec(),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
    ];
    for round in 0..20 {
        for bytes in &hostile {
            let mut stream = connect(&at);
            // The other side may have closed already.
            let _ = stream.write_all(bytes);
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
            assert!(answer.len() < 1000, "round {round}: {} bytes", answer.len());
        }
    }
    assert_eq!(get(&at, "/healthz").status, 200);
    assert!(broker.rss() < before + (8 << 20), "{} from {before}", broker.rss());
}

/// Goal: who sends a byte now and then is cut off, and lets others through meanwhile.
#[test]
fn slow_senders_are_cut_off() {
    let broker = watched(&[]);
    let at = address(&broker);
    let mut slow: Vec<_> = (0..32).map(|_| connect(&at)).collect();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(6) {
        for stream in &mut slow {
            let _ = stream.write_all(b"G");
        }
        assert_eq!(get(&at, "/healthz").status, 200);
        std::thread::sleep(Duration::from_millis(200));
    }
    for stream in &mut slow {
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
    }
    assert!(begun.elapsed() < Duration::from_secs(12), "{:?}", begun.elapsed());
}

/// Goal: a crowd waits its turn, and nobody is lost.
#[test]
fn more_connections_than_places_are_served_one_after_the_other() {
    let broker = watched(&[]);
    let at = address(&broker);
    std::thread::scope(|scope| {
        let ask = |_| scope.spawn(|| assert_eq!(get(&at, "/healthz").status, 200));
        let crowd: Vec<_> = (0..150).map(ask).collect();
        crowd.into_iter().for_each(|one| one.join().unwrap());
    });
}

/// Goal: those who take all places and do nothing with them keep nobody out.
#[test]
fn silent_connections_and_readers_who_do_not_read_keep_nobody_out() {
    let broker = watched(&[]);
    let at = address(&broker);
    let mut idle: Vec<_> = (0..130).map(|_| connect(&at)).collect();
    for stream in idle.iter_mut().step_by(2) {
        let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\n");
    }
    let begun = Instant::now();
    assert_eq!(get(&at, "/healthz").status, 200);
    // Where 66 stood in line before us, each of them for a moment.
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    let begun = Instant::now();
    assert_eq!(get(&at, "/healthz").status, 200);
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
}

/// Goal: many scrapes share one look at the cores, and one who does not read holds nobody up.
#[test]
fn scrapes_in_parallel_with_a_slow_reader_while_records_come() {
    // On one core, which walks over so many partitions in several steps.
    let broker = watched(&["--set", "cores=1"]);
    let (at, mut client) = (address(&broker), broker.connect());
    client.create("t", PARTITIONS);
    let mut slow = connect(&at);
    slow.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let producing = scope.spawn(|| {
            let mut client = broker.connect();
            let mut count = 0;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                assert_eq!(client.produce("t", count % PARTITIONS, &["x"]).0, 0);
                count += 1;
            }
            count
        });
        let scrapes: Vec<_> = (0..20)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..5 {
                        let samples = metrics(&at);
                        let ends = samples.keys().filter(|(name, labels)| {
                            name == "millstream_partition_high_watermark"
                                && labels.contains(&("topic".into(), "t".into()))
                        });
                        assert_eq!(ends.count(), PARTITIONS as usize);
                        std::thread::sleep(Duration::from_millis(100));
                    }
                })
            })
            .collect();
        scrapes.into_iter().for_each(|scrape| scrape.join().unwrap());
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(producing.join().unwrap() > 10);
    });
    let answer = read_answer(&mut slow);
    parse(&answer.body);
}

const PARTITIONS: i32 = 1500;
