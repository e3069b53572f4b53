//! The soak: cores under calls between them, sockets, durable writes and plain work at once. No
//! core may fall silent, every answer must be right, and the stop must leave nothing behind.
//!
//! The short run is part of the ordinary tests; the long one is
//! `cargo test --release -p millstream-io --test soak -- --ignored --nocapture`.
//! `MILLSTREAM_SOAK_SECONDS` sets the time of either. `MILLSTREAM_SOAK_UNWATCHED=1` leaves out the
//! stall monitor, whose pokes would hide an executor that sleeps although it has work.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use millstream_io::disk::{CoreDisk, DirectHow};
use millstream_io::disk_uring::UringDisk;
use millstream_io::limits::BLOCK_BYTES;
use millstream_io::net::{Bound, Conn, ConnOptions, FileRange, More, bind};
use millstream_io::runtime::{
    Breather, Core, CoreSetup, Gate, Mailbox, Pool, Post, Promise, Pulse, Queue, Seat, StallEvent,
    StallMonitor, Stop, affinity, mesh, oneshot, sleep, spawn, start, timeout,
};
use millstream_io::units::{FilePosition, ShardId};

#[test]
fn cores_stay_alive_under_mixed_load() {
    soak(seconds(8));
}

#[test]
#[ignore = "takes ten minutes; `./tests/run --long` runs it"]
fn cores_stay_alive_under_mixed_load_for_long() {
    soak(seconds(600));
}

/// Clients of each kind for each core.
const CLIENTS: usize = 4;
const CALLERS: usize = 16;
const FILE_BYTES: usize = 3 << 20;

#[derive(Default)]
struct Counts {
    calls: AtomicU64,
    echoes: AtomicU64,
    ranges: AtomicU64,
    commits: AtomicU64,
    steps: AtomicU64,
    slowest_echo_us: AtomicU64,
    slow_echoes: AtomicU64,
    stalls: AtomicU64,
}

struct Call {
    number: u64,
    promise: Promise<u64>,
}

/// What each core needs; cloned to it.
#[derive(Clone)]
struct Plan {
    seats: Arc<Mutex<Vec<Option<Seat<Call>>>>>,
    sockets: Arc<Mutex<Vec<Option<Bound>>>>,
    dir: PathBuf,
    file: Arc<std::fs::File>,
    pool: Pool,
    stop: Stop,
    counts: Arc<Counts>,
}

fn soak(time: Duration) {
    let cpus = affinity().unwrap();
    let count = cpus.len().clamp(2, 4);
    let cpus: Vec<usize> = (0..count).map(|core| cpus[core % cpus.len()]).collect();
    let dir = tempfile::tempdir().unwrap();
    let (address, sockets) = bind(SocketAddr::from(([127, 0, 0, 1], 0)), count).unwrap();
    let (seats, _foreign) = mesh::<Call>(count);
    let content = Arc::new(content());
    let plan = Plan {
        seats: Arc::new(Mutex::new(seats.into_iter().map(Some).collect())),
        sockets: Arc::new(Mutex::new(sockets.into_iter().map(Some).collect())),
        dir: dir.path().to_owned(),
        file: Arc::new(file_of(dir.path().join("ranges"), &content)),
        pool: Pool::start(2, &cpus, &affinity().unwrap()).unwrap(),
        stop: Stop::new(),
        counts: Arc::new(Counts::default()),
    };
    let setup = CoreSetup { data_dirs: vec![plan.dir.clone()], ..CoreSetup::new(cpus) };
    let on_core = plan.clone();
    let cores = start(&setup, move |core| run_core(core, on_core)).unwrap();
    let watched = std::env::var_os("MILLSTREAM_SOAK_UNWATCHED").is_none();
    let monitor = watched.then(|| watch(cores.pulses(), plan.counts.clone()));
    let clients = start_clients(count, address, &plan, &content);
    watch_progress(time, &plan.counts);
    drop(monitor);
    let begin = Instant::now();
    plan.stop.trigger();
    cores.join().into_iter().for_each(|core| core.unwrap());
    let stopping = begin.elapsed();
    clients.into_iter().for_each(|client| client.join().unwrap());
    plan.pool.stop();
    report(&plan.counts, stopping);
    assert_eq!(plan.counts.stalls.load(Ordering::Relaxed), 0, "a core fell silent");
    assert!(stopping < Duration::from_secs(5), "the stop took {stopping:?}");
}

fn watch(pulses: Vec<Pulse>, counts: Arc<Counts>) -> StallMonitor {
    let report = move |event| {
        eprintln!("{event}");
        if matches!(event, StallEvent::Stalled { .. }) {
            counts.stalls.fetch_add(1, Ordering::Relaxed);
        }
    };
    StallMonitor::start(pulses, report).unwrap()
}

/// Every kind of load must get on in every second; a standstill fails at once.
fn watch_progress(time: Duration, counts: &Counts) {
    let end = Instant::now() + time;
    let all = || {
        [&counts.calls, &counts.echoes, &counts.ranges, &counts.commits, &counts.steps]
            .map(|count| count.load(Ordering::Relaxed))
    };
    let mut before = all();
    let mut standing = [0; 5];
    while Instant::now() < end {
        pause(Duration::from_secs(1).min(end.saturating_duration_since(Instant::now())));
        let now = all();
        for kind in 0..now.len() {
            standing[kind] = if now[kind] > before[kind] { 0 } else { standing[kind] + 1 };
            assert!(standing[kind] < 10, "load {kind} stands still for 10 s: {now:?}");
        }
        before = now;
    }
}

fn report(counts: &Counts, stopping: Duration) {
    let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
    println!(
        "calls {} echoes {} (slowest {} us, {} above 100 ms) ranges {} commits {} steps {}; \
         stop took {stopping:?}",
        get(&counts.calls),
        get(&counts.echoes),
        get(&counts.slowest_echo_us),
        get(&counts.slow_echoes),
        get(&counts.ranges),
        get(&counts.commits),
        get(&counts.steps),
    );
}

async fn run_core(core: Core, plan: Plan) {
    let me = core.index.to_usize();
    let seat = plan.seats.lock().unwrap()[me].take().unwrap();
    let socket = plan.sockets.lock().unwrap()[me].take().unwrap();
    let (post, mailbox) = seat.open();
    let loads = Gate::new();
    let conns = Gate::new();
    for caller in 0..CALLERS {
        let to = ShardId::new(((me + 1 + caller) % core.count) as u16);
        loads.spawn(Queue::Serve, call(post.clone(), to, plan.clone())).unwrap();
    }
    let disk = UringDisk::new(plan.pool.clone(), true).unwrap();
    loads.spawn(Queue::Commit, commit(disk.clone(), me, true, plan.clone())).unwrap();
    loads.spawn(Queue::Background, commit(disk, me, false, plan.clone())).unwrap();
    loads.spawn(Queue::Background, work(plan.clone())).unwrap();
    let answering = spawn(Queue::Commit, answer(mailbox));
    let listener = socket.listen(ConnOptions::default()).unwrap();
    let (inner, serving) = (conns.clone(), plan.clone());
    listener
        .accept_until(&plan.stop, move |conn| {
            let _ = inner.spawn(Queue::Serve, serve(conn, serving.clone()));
        })
        .await;
    // Top floor first: connections, then what they call.
    conns.close_and_drain(Duration::from_secs(4)).await.unwrap();
    loads.close_and_drain(Duration::from_secs(4)).await.unwrap();
    // The other cores may still call: they stop by the same word, so give them a moment.
    sleep(Duration::from_millis(5)).await;
    answering.cancel().await;
}

/// Calls the core `to` one after the other.
async fn call(post: Post<Call>, to: ShardId, plan: Plan) {
    let mut number = 0;
    while !plan.stop.is_given() {
        let (promise, reply) = oneshot();
        if post.send(to, Call { number, promise }).await.is_err() {
            return;
        }
        match timeout(Duration::from_secs(20), reply).await.unwrap() {
            Ok(answer) => assert_eq!(answer, !number),
            Err(_) => return, // The other core has stopped already.
        }
        plan.counts.calls.fetch_add(1, Ordering::Relaxed);
        number += 1;
    }
}

async fn answer(mut mailbox: Mailbox<Call>) {
    loop {
        for call in mailbox.receive().await {
            let _ = call.promise.send(!call.number);
        }
    }
}

async fn commit(disk: UringDisk, me: usize, durable: bool, plan: Plan) {
    let path = plan.dir.join(format!("{me}-{durable}"));
    let file = disk.open_direct(&path, DirectHow { create: true, durable }).await.unwrap();
    let mut round = 0_u8;
    while !plan.stop.is_given() {
        let blocks = 1 + usize::from(round) % 16;
        let mut buf = disk.alloc(blocks * BLOCK_BYTES);
        buf.as_mut().fill(round);
        let at = FilePosition::ZERO.add_len(usize::from(round) * 16 * BLOCK_BYTES);
        disk.write_at(&file, buf, at).await.unwrap();
        if !durable {
            disk.sync(&file).await.unwrap();
        }
        plan.counts.commits.fetch_add(1, Ordering::Relaxed);
        round = round.wrapping_add(1);
    }
    disk.close(file).await.unwrap();
}

/// Work that would keep the core from its sockets if it did not breathe.
async fn work(plan: Plan) {
    let mut breather = Breather::new();
    let mut state = 1_u64;
    while !plan.stop.is_given() {
        for _ in 0..10_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        }
        std::hint::black_box(state);
        plan.counts.steps.fetch_add(1, Ordering::Relaxed);
        breather.after(0).await;
    }
}

/// A request is a length (4 bytes) and so many bytes, which are sent back; length 0 asks for the
/// file instead.
async fn serve(conn: Conn, plan: Plan) {
    let (mut reader, mut writer) = conn.split();
    let closer = reader.closer();
    let stop = plan.stop.clone();
    let ending = spawn(Queue::Serve, async move {
        stop.stopped().await;
        closer.shutdown_read();
    });
    let mut buffer = BytesMut::new();
    while let Some(body) = next_request(&mut reader, &mut buffer).await {
        let sent = if body.is_empty() {
            let range = FileRange { pos: 0, len: FILE_BYTES as u64 };
            writer.send_file_range(&plan.file, range, &plan.pool).await.is_ok()
        } else {
            writer.write(body, More::Ends).await.is_ok()
        };
        if !sent {
            break;
        }
    }
    ending.cancel().await;
}

async fn next_request(
    reader: &mut millstream_io::net::ReadHalf,
    buffer: &mut BytesMut,
) -> Option<Bytes> {
    loop {
        if buffer.len() >= 4 {
            let len = u32::from_be_bytes([buffer[0], buffer[1], buffer[2], buffer[3]]) as usize;
            if buffer.len() >= 4 + len {
                let frame = buffer.split_to(4 + len).freeze();
                return Some(frame.slice(4..));
            }
            buffer.reserve(4 + len - buffer.len());
        }
        match reader.read_into(buffer, 1 << 20).await {
            Ok(0) | Err(_) => return None,
            Ok(_) => {}
        }
    }
}

fn start_clients(
    cores: usize,
    address: SocketAddr,
    plan: &Plan,
    content: &Arc<Vec<u8>>,
) -> Vec<std::thread::JoinHandle<()>> {
    let mut clients = Vec::new();
    for number in 0..cores * CLIENTS {
        let (plan, content) = (plan.clone(), content.clone());
        clients.push(std::thread::spawn(move || {
            let mut state = number as u64 + 1;
            while !plan.stop.is_given() {
                // An error is the stop; a wrong answer panics inside.
                let _ = converse(address, &plan, &content, &mut state);
                pause(Duration::from_millis(1));
            }
        }));
    }
    clients
}

/// One connection: a few hundred requests, then a new one.
fn converse(
    address: SocketAddr,
    plan: &Plan,
    content: &[u8],
    state: &mut u64,
) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    let mut answer = vec![0; FILE_BYTES];
    for turn in 0..300_u32 {
        if plan.stop.is_given() {
            return Ok(());
        }
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let wants_file = turn % 50 == 49;
        let len = if wants_file { 0 } else { 1 + (*state >> 33) as usize % 20_000 };
        let start = (*state >> 20) as usize % 1000;
        let mut request = (len as u32).to_be_bytes().to_vec();
        request.extend_from_slice(&content[start..start + len]);
        let begin = Instant::now();
        stream.write_all(&request)?;
        if wants_file {
            read_all(&mut stream, &mut answer, plan)?;
            assert!(answer == content, "a file range came back changed");
            plan.counts.ranges.fetch_add(1, Ordering::Relaxed);
        } else {
            read_all(&mut stream, &mut answer[..len], plan)?;
            assert!(answer[..len] == content[start..start + len], "an echo came back changed");
            let took = begin.elapsed();
            plan.counts.echoes.fetch_add(1, Ordering::Relaxed);
            plan.counts.slowest_echo_us.fetch_max(took.as_micros() as u64, Ordering::Relaxed);
            if took > Duration::from_millis(100) {
                plan.counts.slow_echoes.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
    Ok(())
}

/// Reads all of `answer`; not getting it is a failure unless the stop was given.
fn read_all(stream: &mut TcpStream, answer: &mut [u8], plan: &Plan) -> std::io::Result<()> {
    let read = stream.read_exact(answer);
    if let Err(error) = &read {
        assert!(plan.stop.is_given(), "no answer: {error}");
    }
    read
}

fn content() -> Vec<u8> {
    let mut state = 7_u64;
    let step = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    std::iter::repeat_with(step).take(FILE_BYTES).collect()
}

fn file_of(path: PathBuf, content: &[u8]) -> std::fs::File {
    std::fs::write(&path, content).unwrap();
    std::fs::File::open(path).unwrap()
}

fn seconds(standard: u64) -> Duration {
    let set = std::env::var("MILLSTREAM_SOAK_SECONDS").ok();
    Duration::from_secs(set.map_or(standard, |text| text.parse().unwrap()))
}

#[expect(clippy::disallowed_methods, reason = "client threads, not cores")]
fn pause(time: Duration) {
    std::thread::sleep(time);
}
