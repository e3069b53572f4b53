use std::fs::File;
use std::io::Read;
use std::net::TcpStream as Client;
use std::time::Duration;

use super::*;
use crate::net::testing::{any_port, drop_cache, pattern};
use crate::net::{Conn, ConnOptions, More};
use crate::runtime::{affinity, run_alone, timeout};
use bytes::Bytes;

const LEN: usize = 5 << 20;
const PATIENCE: Duration = Duration::from_secs(60);

struct Fixture {
    _dir: tempfile::TempDir,
    file: Arc<File>,
    bytes: Vec<u8>,
}

impl Fixture {
    fn new() -> Fixture {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("segment");
        let bytes = pattern(9, LEN);
        std::fs::write(&path, &bytes).unwrap();
        Fixture { _dir: dir, file: Arc::new(File::open(path).unwrap()), bytes }
    }
}

/// Sends `ranges` to a client that reads with `pause` between its reads; what the client got.
fn send(
    fixture: &Fixture,
    ranges: Vec<FileRange>,
    pause: Duration,
) -> (Vec<u8>, Result<(), SendFileError>) {
    let listener = std::net::TcpListener::bind(any_port()).unwrap();
    let address = listener.local_addr().unwrap();
    let reader = std::thread::spawn(move || {
        let (mut stream, _): (Client, _) = listener.accept().unwrap();
        let mut got = Vec::new();
        let mut piece = vec![0; 128 << 10];
        loop {
            match stream.read(&mut piece).unwrap() {
                0 => return got,
                read => got.extend_from_slice(&piece[..read]),
            }
            crate::runtime::pause_thread(pause);
        }
    });
    let file = fixture.file.clone();
    let allowed = affinity().unwrap();
    let pool = Pool::start(1, &allowed[..1], &allowed).unwrap();
    let on_core = pool.clone();
    let result = run_alone(move |_| async move {
        let conn = Conn::connect(address, &ConnOptions::default()).await.unwrap();
        let (_reader, mut writer) = conn.split();
        let all = async {
            for range in ranges {
                writer.write(Bytes::from_static(b"head"), More::Follows).await?;
                writer.send_file_range(&file, range, &on_core).await?;
            }
            Ok(())
        };
        timeout(PATIENCE, all).await.unwrap()
    });
    pool.stop();
    (reader.join().unwrap(), result)
}

fn expected(fixture: &Fixture, ranges: &[FileRange]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for range in ranges {
        bytes.extend_from_slice(b"head");
        let end = (range.pos + range.len) as usize;
        bytes.extend_from_slice(&fixture.bytes[range.pos as usize..end]);
    }
    bytes
}

fn odd_ranges() -> Vec<FileRange> {
    let len = LEN as u64;
    let pairs = [(0, len), (1, 0), (4095, 2), (777, 300_000), (len - 1, 1), (100_000, 2 << 20)];
    pairs.into_iter().map(|(pos, len)| FileRange { pos, len }).collect()
}

#[test]
fn warm_ranges_arrive_byte_for_byte() {
    let fixture = Fixture::new();
    let (got, result) = send(&fixture, odd_ranges(), Duration::ZERO);
    result.unwrap();
    assert!(got == expected(&fixture, &odd_ranges()), "{} bytes came", got.len());
}

#[test]
fn cold_ranges_arrive_byte_for_byte() {
    let fixture = Fixture::new();
    drop_cache(&fixture.file);
    let (got, result) = send(&fixture, odd_ranges(), Duration::ZERO);
    result.unwrap();
    assert!(got == expected(&fixture, &odd_ranges()), "{} bytes came", got.len());
}

#[test]
fn slow_reader_gets_cold_ranges_byte_for_byte() {
    let fixture = Fixture::new();
    drop_cache(&fixture.file);
    let (got, result) = send(&fixture, odd_ranges(), Duration::from_millis(2));
    result.unwrap();
    assert!(got == expected(&fixture, &odd_ranges()), "{} bytes came", got.len());
}

#[test]
fn file_that_ends_within_the_range_is_a_typed_error() {
    let fixture = Fixture::new();
    let range = FileRange { pos: LEN as u64 - 1000, len: 2000 };
    let (got, result) = send(&fixture, vec![range], Duration::ZERO);
    let error = result.unwrap_err();
    assert!(matches!(error, SendFileError::Truncated { at } if at == LEN as u64), "{error}");
    assert_eq!(got.len(), 4 + 1000, "what is there was sent before");
}
