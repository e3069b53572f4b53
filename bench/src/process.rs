//! Broker processes: start one in a fresh data directory, read what the kernel says about it, stop
//! it. A broker that already runs can be attached to by address and process id.

use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::host::{Cpus, on_cpus};

/// A start that takes longer has failed.
const READY_LIMIT: Duration = Duration::from_secs(60);
/// A stop that takes longer has failed; the process is killed.
const STOP_LIMIT: Duration = Duration::from_secs(60);
/// Bytes of output kept to be shown when something fails.
const OUTPUT_KEPT: usize = 16 * 1024;

/// How to start a broker.
#[derive(Clone, Debug)]
pub struct Launch {
    pub program: PathBuf,
    /// The value of `cores`: a number of executors, or `all`.
    pub cores: String,
    /// Where the process may run; empty is anywhere.
    pub cpus: Vec<usize>,
    /// Data directories are made under this one.
    pub data: PathBuf,
    /// Further `NAME=VALUE` settings.
    pub settings: Vec<String>,
}

/// A running broker.
pub struct Broker {
    pub address: SocketAddr,
    pub pid: u32,
    /// From exec to the line that says ready; `None` when attached.
    pub ready_after: Option<Duration>,
    child: Option<Running>,
}

struct Running {
    child: Killed,
    output: Arc<Mutex<Vec<u8>>>,
    data: TempDir,
}

/// A child that does not outlive us.
struct Killed(Child);

impl Launch {
    /// Starts a broker on an empty data directory and a free port and waits until it is ready.
    pub fn start(&self) -> Result<Broker> {
        self.start_on(new_data(&self.data)?)
    }

    /// Starts a broker on a given data directory.
    pub fn start_on(&self, data: TempDir) -> Result<Broker> {
        ensure!(
            self.program.is_file(),
            "no broker at {}: build it (cargo build --release) or name it with --broker",
            self.program.display()
        );
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
        let mut command = Command::new(&self.program);
        command
            .arg("serve")
            .args(["--set", &format!("log.dirs={}", data.path().display())])
            .args(["--set", &format!("listeners={address}")])
            .args(["--set", &format!("cores={}", self.cores)]);
        if !self.settings.iter().any(|setting| setting.starts_with("admin.listener=")) {
            // Brokers are measured side by side, and there is one default port.
            command.args(["--set", "admin.listener="]);
        }
        for setting in &self.settings {
            command.args(["--set", setting]);
        }
        spawn(command, address, &self.cpus, data)
    }

    /// Starts this program's own `null` server where the broker would run.
    pub fn start_null(&self) -> Result<Broker> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["null", "--listen", &address.to_string()]);
        spawn(command, address, &self.cpus, new_data(&self.data)?)
    }
}

impl Broker {
    /// A broker that somebody else started, and stops.
    pub fn attach(address: SocketAddr, pid: u32) -> Result<Broker> {
        let broker = Broker { address, pid, ready_after: None, child: None };
        broker.cpu()?;
        Ok(broker)
    }

    /// Asks it to stop (SIGTERM) and says how long that took.
    ///
    /// # Errors
    /// When it does not stop in time or does not exit with 0.
    pub fn stop(mut self) -> Result<Duration> {
        self.stop_keeping().map(|(took, _)| took)
    }

    /// Ends a null server, which knows no end of its own.
    pub fn stop_null(mut self) {
        if let Some(mut running) = self.child.take() {
            running.child.end();
        }
    }

    /// As [`Broker::stop`]; the data directory lives on.
    pub fn stop_keeping(&mut self) -> Result<(Duration, Option<TempDir>)> {
        let Some(mut running) = self.child.take() else { return Ok((Duration::ZERO, None)) };
        let begun = Instant::now();
        kill_process(Pid::from_child(&running.child.0), Signal::TERM)?;
        loop {
            if let Some(status) = running.child.0.try_wait()? {
                let took = begun.elapsed();
                ensure!(status.success(), "the broker ended with {status}\n{}", running.tail());
                return Ok((took, Some(running.data)));
            }
            if begun.elapsed() > STOP_LIMIT {
                running.child.end();
                bail!("the broker did not stop within {STOP_LIMIT:?}\n{}", running.tail());
            }
            pause(Duration::from_micros(200));
        }
    }

    /// Where its data lies; `None` when attached.
    pub fn data_dir(&self) -> Option<PathBuf> {
        self.child.as_ref().map(|running| running.data.path().to_path_buf())
    }

    /// Ends it at once (SIGKILL); the data directory lives on.
    pub fn kill(mut self) -> Result<TempDir> {
        let Some(mut running) = self.child.take() else { bail!("the broker is not ours to kill") };
        running.child.end();
        Ok(running.data)
    }

    /// Bytes of log that its start had to read, as it says in its own log; zero when it says nothing.
    pub fn recovered_log_bytes(&self) -> u64 {
        let Some(running) = &self.child else { return 0 };
        let text = running.tail();
        let said = text.rsplit_once("log_bytes_read").map(|(_, behind)| behind);
        let digits = |text: &str| -> String {
            let from = text.trim_start_matches(|c: char| !c.is_ascii_digit());
            from.chars().take_while(char::is_ascii_digit).collect()
        };
        said.and_then(|text| digits(text).parse().ok()).unwrap_or(0)
    }

    /// User and system time of all its threads so far. Resolution: a clock tick, mostly 10 ms.
    pub fn cpu(&self) -> Result<Duration> {
        let stat = self.proc("stat")?;
        let (_, behind) = stat.rsplit_once(')').ok_or_else(|| anyhow!("stat without a name"))?;
        let fields: Vec<&str> = behind.split_whitespace().collect();
        let ticks = |index: usize| -> Result<u64> {
            Ok(fields.get(index).ok_or_else(|| anyhow!("a short stat"))?.parse()?)
        };
        let ticks = ticks(11)? + ticks(12)?;
        let per_second = rustix::param::clock_ticks_per_second();
        Ok(Duration::from_nanos(ticks * 1_000_000_000 / per_second))
    }

    /// Bytes it caused to be written to storage (`write_bytes` of `/proc/PID/io`).
    pub fn written(&self) -> Result<u64> {
        field(&self.proc("io")?, "write_bytes:")
    }

    /// Bytes it has read by read(2) and its like, from the page cache too (`rchar`).
    pub fn read(&self) -> Result<u64> {
        field(&self.proc("io")?, "rchar:")
    }

    /// Resident memory, bytes.
    pub fn rss(&self) -> Result<u64> {
        Ok(field(&self.proc("status")?, "VmRSS:")? * 1024)
    }

    /// Open file descriptors.
    pub fn descriptors(&self) -> Result<usize> {
        Ok(std::fs::read_dir(format!("/proc/{}/fd", self.pid))?.count())
    }

    /// Waits until it has written nothing for `quiet`, at most `limit`; says whether it came to
    /// rest.
    pub fn settle(&self, quiet: Duration, limit: Duration) -> Result<bool> {
        let begun = Instant::now();
        let (mut last, mut since) = (self.written()?, Instant::now());
        while begun.elapsed() < limit {
            pause(Duration::from_millis(50));
            let now = self.written()?;
            if now != last {
                (last, since) = (now, Instant::now());
            }
            if since.elapsed() >= quiet {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn proc(&self, name: &str) -> Result<String> {
        std::fs::read_to_string(format!("/proc/{}/{name}", self.pid))
            .with_context(|| format!("the broker (process {}) is gone", self.pid))
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        self.end();
    }
}

impl Killed {
    fn end(&mut self) {
        // It may have ended already, which is what is wanted.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    fn tail(&self) -> String {
        let output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&output).into_owned()
    }
}

/// Sleeps. This client has threads of its own and no executor to hold up.
#[expect(clippy::disallowed_methods, reason = "no executor runs in this process")]
pub fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Where data directories go unless told: a directory on a real disk.
pub fn data_root(given: Option<PathBuf>) -> Result<PathBuf> {
    let chosen = match given {
        Some(path) => path,
        None => [std::env::temp_dir(), PathBuf::from("/var/tmp"), PathBuf::from(".")]
            .into_iter()
            .find(|path| !on_memory(path))
            .ok_or_else(|| anyhow!("no directory on a disk; name one with --data"))?,
    };
    ensure!(
        !on_memory(&chosen),
        "{} lies in memory: its syncs cost nothing, so no figure would hold; choose --data",
        chosen.display()
    );
    Ok(chosen)
}

/// The broker beside this program, as cargo lays them out.
pub fn default_broker() -> PathBuf {
    let here = std::env::current_exe().unwrap_or_default();
    let beside = here.parent().map(|dir| dir.join("millstream")).unwrap_or_default();
    if beside.is_file() { beside } else { PathBuf::from("target/release/millstream") }
}

/// The plan for a one-core broker with the client beside it.
pub fn one_core(program: &Path, data: &Path, cpus: &Cpus) -> Launch {
    Launch {
        program: program.to_owned(),
        cores: "1".to_owned(),
        cpus: cpus.broker.clone(),
        data: data.to_owned(),
        settings: Vec::new(),
    }
}

fn new_data(root: &Path) -> Result<TempDir> {
    Ok(tempfile::Builder::new().prefix("millstream-bench-").tempdir_in(root)?)
}

fn spawn(
    mut command: Command,
    address: SocketAddr,
    cpus: &[usize],
    data: TempDir,
) -> Result<Broker> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let begun = Instant::now();
    let mut child = on_cpus(cpus, || command.spawn())?
        .with_context(|| format!("cannot run {}", command.get_program().display()))?;
    let output = Arc::new(Mutex::new(Vec::new()));
    let (ready, is_ready) = channel();
    if let Some(pipe) = child.stdout.take() {
        follow(pipe, &output, ready.clone());
    }
    if let Some(pipe) = child.stderr.take() {
        follow(pipe, &output, ready);
    }
    let pid = child.id();
    let mut running = Running { child: Killed(child), output, data };
    let at = await_ready(&mut running, &is_ready)?;
    Ok(Broker { address, pid, ready_after: Some(at - begun), child: Some(running) })
}

fn on_memory(path: &Path) -> bool {
    const TMPFS: u64 = 0x0102_1994;
    rustix::fs::statfs(path).is_ok_and(|fs| u64::try_from(fs.f_type) == Ok(TMPFS))
}

/// A port that nobody has now.
pub fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

fn await_ready(running: &mut Running, is_ready: &Receiver<Instant>) -> Result<Instant> {
    let begun = Instant::now();
    loop {
        match is_ready.recv_timeout(Duration::from_millis(50)) {
            Ok(at) => return Ok(at),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
        if let Some(status) = running.child.0.try_wait()? {
            // The readers may still hold the last words.
            pause(Duration::from_millis(100));
            bail!("the broker ended before it was ready: {status}\n{}", running.tail());
        }
        if begun.elapsed() > READY_LIMIT {
            bail!("the broker is not ready after {READY_LIMIT:?}\n{}", running.tail());
        }
    }
}

fn follow(pipe: impl Read + Send + 'static, output: &Arc<Mutex<Vec<u8>>>, ready: Sender<Instant>) {
    let output = Arc::clone(output);
    std::thread::spawn(move || {
        let mut lines = BufReader::new(pipe);
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            if line.windows(5).any(|word| word.eq_ignore_ascii_case(b"ready")) {
                // Nobody listens any more after the first such line.
                let _ = ready.send(Instant::now());
            }
            let mut kept = output.lock().unwrap_or_else(PoisonError::into_inner);
            kept.append(&mut line);
            let over = kept.len().saturating_sub(OUTPUT_KEPT);
            kept.drain(..over);
        }
    });
}

fn field(text: &str, name: &str) -> Result<u64> {
    let line = text.lines().find(|line| line.starts_with(name));
    let word = line.and_then(|line| line.split_whitespace().nth(1));
    Ok(word.ok_or_else(|| anyhow!("the kernel does not say {name}"))?.parse()?)
}
