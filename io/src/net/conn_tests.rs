use std::io::{Read, Write};
use std::net::TcpStream as Client;
use std::time::Instant;

use super::*;
use crate::net::testing::{any_port, pattern};
use crate::net::{Listener, bind};
use crate::runtime::{Queue, Stop, run_alone, sleep, spawn, timeout};

const PATIENCE: Duration = Duration::from_secs(20);

/// Runs `serve` with the one connection that `client` makes to a core.
fn with_peer<F, Fut, R>(
    options: ConnOptions,
    client: impl FnOnce(Client) -> R + Send + 'static,
    serve: F,
) -> R
where
    F: FnOnce(Conn) -> Fut + Send + Clone + 'static,
    Fut: Future<Output = ()> + 'static,
    R: Send + 'static,
{
    let (address, mut sockets) = bind(any_port(), 1).unwrap();
    let socket = std::sync::Arc::new(std::sync::Mutex::new(sockets.pop()));
    let peer = std::thread::spawn(move || {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match Client::connect(address) {
                Ok(stream) => return client(stream),
                Err(error) => assert!(Instant::now() < deadline, "{error}"),
            }
        }
    });
    run_alone(move |_| async move {
        let bound = socket.lock().unwrap().take().unwrap();
        let listener: Listener = bound.listen(options).unwrap();
        let conn = std::rc::Rc::new(RefCell::new(None));
        let stop = Stop::new();
        let (slot, word) = (conn.clone(), stop.clone());
        listener
            .accept_until(&stop, move |accepted| {
                *slot.borrow_mut() = Some(accepted);
                word.trigger();
            })
            .await;
        let accepted = conn.borrow_mut().take().unwrap();
        timeout(PATIENCE, serve(accepted)).await.unwrap();
    });
    peer.join().unwrap()
}

#[test]
fn bytes_arrive_whole_in_both_directions_over_two_tasks() {
    const LEN: usize = 9 << 20;
    let client = |stream: Client| {
        let mut writing = stream.try_clone().unwrap();
        let writer = std::thread::spawn(move || {
            writing.write_all(&pattern(1, LEN)).unwrap();
            writing.shutdown(std::net::Shutdown::Write).unwrap();
        });
        let mut got = Vec::new();
        (&stream).read_to_end(&mut got).unwrap();
        writer.join().unwrap();
        assert!(got == pattern(2, LEN), "{} bytes came", got.len());
    };
    with_peer(ConnOptions::default(), client, |conn| async move {
        let (mut reader, mut writer) = conn.split();
        let sender = spawn(Queue::Serve, async move {
            // Pieces of all sizes, empty ones too.
            let all = Bytes::from(pattern(2, LEN));
            let cuts = [0, 1, 1, 5000, 5000, 70_000, 3 << 20, 3 << 20, LEN];
            let mut pieces: VecDeque<Bytes> =
                cuts.windows(2).map(|cut| all.slice(cut[0]..cut[1])).collect();
            writer.write_all(&mut pieces, More::Ends).await.unwrap();
            assert!(pieces.is_empty());
            writer.shutdown();
        });
        let mut got = BytesMut::new();
        while reader.read_into(&mut got, 64 << 10).await.unwrap() > 0 {
            if got.capacity() - got.len() < 4096 {
                got.reserve(64 << 10);
            }
        }
        assert!(got == pattern(1, LEN), "{} bytes came", got.len());
        sender.await;
    });
}

#[test]
fn read_takes_no_more_than_asked_for_and_idle_buffer_stays_empty() {
    let client = |mut stream: Client| {
        crate::runtime::pause_thread(Duration::from_millis(30));
        stream.write_all(&pattern(3, 10_000)).unwrap();
        let _ = stream.read(&mut [0; 1]);
    };
    with_peer(ConnOptions::default(), client, |conn| async move {
        let (mut reader, _writer) = conn.split();
        let mut got = BytesMut::new();
        {
            let read = reader.read_into(&mut got, 4);
            let early = timeout(Duration::from_millis(1), read).await;
            assert!(early.is_err(), "nothing was sent yet");
        }
        assert_eq!(got.capacity(), 0, "an idle connection has no buffer");
        while got.len() < 10_000 {
            let before = got.len();
            let read = reader.read_into(&mut got, 7).await.unwrap();
            assert!((1..=7).contains(&read) && got.len() == before + read);
        }
        assert!(got == pattern(3, 10_000));
    });
}

#[test]
fn peer_that_reads_nothing_is_given_up_after_the_stall_time() {
    let (tell, told) = std::sync::mpsc::channel::<()>();
    let client = move |stream: Client| {
        told.recv_timeout(PATIENCE).unwrap(); // Never reads, keeps the connection open.
        drop(stream);
    };
    let options = ConnOptions { write_stall: Duration::from_millis(300), ..ConnOptions::default() };
    with_peer(options, client, move |conn| async move {
        let (_reader, mut writer) = conn.split();
        let begin = Instant::now();
        let big = Bytes::from(vec![1; 64 << 20]);
        let error = writer.write(big, More::Ends).await.unwrap_err();
        assert!(matches!(error, ConnError::Stalled { .. }), "{error}");
        assert!(begin.elapsed() >= Duration::from_millis(300));
        tell.send(()).unwrap();
    });
}

#[test]
fn slow_peer_that_reads_on_is_not_given_up() {
    const LEN: usize = 12 << 20;
    let client = |mut stream: Client| {
        let mut got = Vec::new();
        let mut piece = vec![0; 1 << 20];
        loop {
            let read = stream.read(&mut piece).unwrap();
            if read == 0 {
                return got.len();
            }
            got.extend_from_slice(&piece[..read]);
            crate::runtime::pause_thread(Duration::from_millis(20));
        }
    };
    let options = ConnOptions { write_stall: Duration::from_millis(400), ..ConnOptions::default() };
    let got = with_peer(options, client, |conn| async move {
        let (_reader, mut writer) = conn.split();
        writer.write(Bytes::from(pattern(4, LEN)), More::Ends).await.unwrap();
    });
    assert_eq!(got, LEN);
}

#[test]
fn peer_that_vanishes_is_told_as_gone() {
    let client = |stream: Client| drop(stream);
    with_peer(ConnOptions::default(), client, |conn| async move {
        let (mut reader, mut writer) = conn.split();
        let mut got = BytesMut::new();
        assert!(matches!(reader.read_into(&mut got, 100).await, Ok(0) | Err(ConnError::Gone)));
        loop {
            match writer.write(Bytes::from(vec![0; 1 << 20]), More::Ends).await {
                Ok(()) => sleep(Duration::from_millis(1)).await,
                Err(error) => {
                    assert!(matches!(error, ConnError::Gone), "{error}");
                    break;
                }
            }
        }
    });
}

#[test]
fn shut_reading_side_ends_a_reader_that_waits() {
    let client = |mut stream: Client| {
        let _ = stream.read(&mut [0; 1]);
    };
    with_peer(ConnOptions::default(), client, |conn| async move {
        let (mut reader, _writer) = conn.split();
        let closer = reader.closer();
        let task = spawn(Queue::Serve, async move {
            let mut got = BytesMut::new();
            reader.read_into(&mut got, 100).await.unwrap()
        });
        sleep(Duration::from_millis(20)).await;
        closer.shutdown_read();
        assert_eq!(task.await, 0);
    });
}

#[test]
fn connecting_core_speaks_to_a_listening_core() {
    let listener = std::net::TcpListener::bind(any_port()).unwrap();
    let address = listener.local_addr().unwrap();
    let peer = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut got = [0; 4];
        stream.read_exact(&mut got).unwrap();
        stream.write_all(&got).unwrap();
    });
    run_alone(move |_| async move {
        let conn = Conn::connect(address, &ConnOptions::default()).await.unwrap();
        assert_eq!(conn.peer(), address);
        let (mut reader, mut writer) = conn.split();
        writer.write(Bytes::from_static(b"ping"), More::Ends).await.unwrap();
        let mut got = BytesMut::new();
        while got.len() < 4 {
            assert!(reader.read_into(&mut got, 4).await.unwrap() > 0);
        }
        assert_eq!(&got[..], b"ping");
    });
    peer.join().unwrap();
}
