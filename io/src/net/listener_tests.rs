use std::cell::Cell;
use std::net::TcpStream as Client;
use std::rc::Rc;
use std::sync::{Arc, Barrier, Mutex};
use std::time::Instant;

use super::*;
use crate::net::testing::any_port;
use crate::runtime::{CoreSetup, affinity, start};

fn cpus(count: usize) -> Vec<usize> {
    let allowed = affinity().unwrap();
    (0..count).map(|n| allowed[n % allowed.len()]).collect()
}

/// Connects as soon as the cores listen.
fn connect(address: SocketAddr) -> Client {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        match Client::connect(address) {
            Ok(client) => return client,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
    }
}

#[test]
fn connections_spread_over_the_cores_and_stop_ends_the_listening() {
    const CLIENTS: usize = 400;
    let (address, sockets) = bind(any_port(), 2).unwrap();
    assert_ne!(address.port(), 0);
    let sockets = Arc::new(Mutex::new(sockets.into_iter().map(Some).collect::<Vec<_>>()));
    let stop = Stop::new();
    let word = stop.clone();
    let both = Arc::new(Barrier::new(3));
    let listening = both.clone();
    let cores = start(&CoreSetup::new(cpus(2)), move |core| async move {
        let bound = sockets.lock().unwrap()[core.index.to_usize()].take().unwrap();
        let listener = bound.listen(ConnOptions::default()).unwrap();
        listening.wait();
        let conns = Rc::new(std::cell::RefCell::new(Vec::new()));
        let kept = conns.clone();
        listener.accept_until(&word, move |conn| kept.borrow_mut().push(conn)).await;
        conns.borrow().len()
    })
    .unwrap();
    both.wait();
    let clients: Vec<Client> = (0..CLIENTS).map(|_| connect(address)).collect();
    crate::runtime::pause_thread(Duration::from_millis(300));
    stop.trigger();
    let counts: Vec<usize> = cores.join().into_iter().map(|count| count.unwrap()).collect();
    assert_eq!(counts.iter().sum::<usize>(), CLIENTS);
    assert!(counts.iter().all(|count| *count > CLIENTS / 5), "{counts:?}");
    assert!(Client::connect(address).is_err(), "nobody listens any more");
    drop(clients);
}

#[test]
fn port_in_use_is_refused_in_one_sentence_although_it_could_be_shared() {
    let (address, sockets) = bind(any_port(), 1).unwrap();
    socket::listen(sockets[0].socket.as_fd(), 1).unwrap();
    let error = bind(address, 1).unwrap_err();
    assert_eq!(error, BindError::InUse { address });
    assert!(error.to_string().contains("ss -ltnp"), "{error}");
    drop(sockets);
    assert!(bind(address, 2).is_ok());
}

#[test]
fn address_of_another_host_is_refused_by_name() {
    let address = SocketAddr::from(([192, 0, 2, 1], 0));
    let error = bind(address, 1).unwrap_err();
    assert_eq!(error, BindError::NotOurs { address });
}

#[test]
fn exhausted_descriptors_are_told_from_a_lost_connection() {
    let exhausted = |errno| is_exhausted(&io::Error::from_raw_os_error(errno));
    assert!([libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM].into_iter().all(exhausted));
    assert!(!exhausted(libc::ECONNABORTED) && !exhausted(libc::EINVAL));
}

/// Runs alone in a child process, because it takes all descriptors of its process.
#[test]
fn accept_loop_survives_running_out_of_descriptors_without_spinning() {
    const CHILD: &str = "MILLSTREAM_TEST_EMFILE_CHILD";
    const NAME: &str =
        "net::listener::tests::accept_loop_survives_running_out_of_descriptors_without_spinning";
    if std::env::var_os(CHILD).is_none() {
        let program = std::env::current_exe().unwrap();
        let child = std::process::Command::new(program)
            .args(["--exact", NAME, "--nocapture"])
            .env(CHILD, "1")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&child.stderr).into_owned();
        assert!(child.status.success(), "{text}");
        return;
    }
    let (address, sockets) = bind(any_port(), 1).unwrap();
    let sockets = Arc::new(Mutex::new(sockets));
    let stop = Stop::new();
    let word = stop.clone();
    let cores = start(&CoreSetup::new(cpus(1)), move |_| async move {
        let bound = sockets.lock().unwrap().pop().unwrap();
        let listener = bound.listen(ConnOptions::default()).unwrap();
        let count = Rc::new(Cell::new(0));
        let counted = count.clone();
        listener.accept_until(&word, move |_conn| counted.set(counted.get() + 1)).await;
        count.get()
    })
    .unwrap();
    let first = connect(address);
    crate::runtime::pause_thread(Duration::from_millis(100));
    let clock = std::fs::File::open("/proc/self/stat").unwrap();
    let hoard = hoard_descriptors(1);
    let waiting = Client::connect(address).unwrap(); // Takes the last descriptor.
    let before = cpu_time(&clock);
    crate::runtime::pause_thread(Duration::from_millis(500));
    let burnt = cpu_time(&clock) - before;
    assert!(burnt < Duration::from_millis(200), "the accept loop burnt {burnt:?} in 500 ms");
    drop(hoard);
    crate::runtime::pause_thread(Duration::from_millis(2500));
    stop.trigger();
    let accepted: i32 = cores.join().pop().unwrap().unwrap();
    assert_eq!(accepted, 2, "the client that waited was accepted when pressure went");
    drop((first, waiting));
}

/// Opens files until none can be opened, then gives `spare` back.
fn hoard_descriptors(spare: usize) -> Vec<std::fs::File> {
    let mut hoard = Vec::new();
    lower_descriptor_limit();
    while let Ok(file) = std::fs::File::open("/dev/null") {
        hoard.push(file);
    }
    hoard.truncate(hoard.len() - spare);
    hoard
}

#[expect(unsafe_code, reason = "setrlimit reads a plain struct")]
fn lower_descriptor_limit() {
    let limit = libc::rlimit { rlim_cur: 200, rlim_max: 200 };
    // SAFETY: the struct is valid and only read.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
}

/// CPU time of this process so far, read from its open /proc/self/stat.
fn cpu_time(clock: &std::fs::File) -> Duration {
    let mut text = [0; 1024];
    let got = std::os::unix::fs::FileExt::read_at(clock, &mut text, 0).unwrap();
    let stat = std::str::from_utf8(&text[..got]).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}
