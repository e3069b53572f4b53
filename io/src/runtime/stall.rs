//! The stall monitor: one thread outside the executors that asks silent cores for a sign of
//! life.
//!
//! It has two duties. A core that does not answer within a second is reported, because its
//! clients wait. And the asking itself wakes a core whose executor went to sleep although it
//! had work (a fault of the executor, seen with short preemption timers). A core that shows
//! life by itself is not asked; a silent one is asked after 10 ms, 20 ms, ... 500 ms, so an idle
//! process is woken twice a second.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::limits::{POKE_FIRST, POKE_LONGEST, STALL_AFTER};
use super::wake::{Line, lock};
use crate::units::ShardId;

/// The signs of life of one core, readable from any thread.
#[derive(Clone)]
pub struct Pulse {
    core: ShardId,
    cpu: usize,
    line: Arc<Line>,
}

impl Pulse {
    pub(crate) fn new(core: ShardId, cpu: usize, line: Arc<Line>) -> Pulse {
        Pulse { core, cpu, line }
    }

    pub fn core(&self) -> ShardId {
        self.core
    }
}

/// What the monitor reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StallEvent {
    /// The core has not answered for so long. Told once a stall.
    Stalled { core: ShardId, cpu: usize, silent: Duration },
    /// The core answers again, after so long.
    Recovered { core: ShardId, cpu: usize, silent: Duration },
}

impl fmt::Display for StallEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StallEvent::Stalled { core, cpu, silent } => write!(
                f,
                "core {core} (CPU {cpu}) has not answered for {silent:?}: its connections wait; \
                 look for a blocking call, a stopped process or an overloaded CPU"
            ),
            StallEvent::Recovered { core, cpu, silent } => {
                write!(f, "core {core} (CPU {cpu}) answers again after {silent:?}")
            }
        }
    }
}

/// The running monitor. Stop it before the cores, or it reports them as they end.
pub struct StallMonitor {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    stop: Mutex<bool>,
    changed: Condvar,
    stalls: AtomicU64,
    stalled_now: AtomicU64,
}

impl StallMonitor {
    /// Starts watching; `report` is called on the monitor's thread.
    ///
    /// Errors: the system refuses a thread.
    pub fn start(
        pulses: Vec<Pulse>,
        mut report: impl FnMut(StallEvent) + Send + 'static,
    ) -> std::io::Result<StallMonitor> {
        let shared = Arc::new(Shared {
            stop: Mutex::new(false),
            changed: Condvar::new(),
            stalls: AtomicU64::new(0),
            stalled_now: AtomicU64::new(0),
        });
        let watching = shared.clone();
        let cpus = super::os::affinity()?;
        let thread = std::thread::Builder::new().name("stall-monitor".into()).spawn(move || {
            let _ = super::os::set_affinity(&cpus);
            let mut watches: Vec<Watch> =
                pulses.into_iter().map(|pulse| Watch::new(pulse, Instant::now())).collect();
            while !watching.stopped_within(next_look(&watches, Instant::now())) {
                let now = Instant::now();
                for watch in watches.iter_mut().filter(|watch| watch.due <= now) {
                    if let Some(event) = watch.look(now) {
                        watching.count(event);
                        report(event);
                    }
                }
            }
        })?;
        Ok(StallMonitor { shared, thread: Some(thread) })
    }

    /// Stalls reported since the start.
    pub fn stalls(&self) -> u64 {
        self.shared.stalls.load(Ordering::Relaxed)
    }

    /// Cores that do not answer right now.
    pub fn stalled_now(&self) -> u64 {
        self.shared.stalled_now.load(Ordering::Relaxed)
    }

    /// Ends the monitor and joins its thread.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        *lock(&self.shared.stop) = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for StallMonitor {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn stopped_within(&self, time: Duration) -> bool {
        let guard = lock(&self.stop);
        let waited = self.changed.wait_timeout_while(guard, time, |stop| !*stop);
        waited.is_ok_and(|(stop, _)| *stop)
    }

    fn count(&self, event: StallEvent) {
        match event {
            StallEvent::Stalled { .. } => {
                self.stalls.fetch_add(1, Ordering::Relaxed);
                self.stalled_now.fetch_add(1, Ordering::Relaxed);
            }
            StallEvent::Recovered { .. } => {
                self.stalled_now.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}

/// The watch over one core: decides when to poke and what to report. Time is an argument.
struct Watch {
    pulse: Pulse,
    /// Signs of life at the last look.
    beats: u64,
    /// The poke given at the last look, and when the first unanswered one was given.
    open: Option<(u64, Instant)>,
    pause: Duration,
    due: Instant,
    reported: bool,
}

impl Watch {
    fn new(pulse: Pulse, now: Instant) -> Watch {
        Watch { pulse, beats: 0, open: None, pause: POKE_FIRST, due: now, reported: false }
    }

    fn look(&mut self, now: Instant) -> Option<StallEvent> {
        let mut event = None;
        let mut own_beats = 0;
        if let Some((poke, since)) = self.open {
            let silent = now.saturating_duration_since(since);
            if self.pulse.line.answered() < poke {
                return self.unanswered(silent, now);
            }
            self.open = None;
            own_beats = 1; // The answer itself counted as a sign of life.
            if std::mem::take(&mut self.reported) {
                let (core, cpu) = (self.pulse.core, self.pulse.cpu);
                event = Some(StallEvent::Recovered { core, cpu, silent });
            }
        }
        let beats = self.pulse.line.beats();
        if beats == self.beats.wrapping_add(own_beats) {
            self.open = Some((self.pulse.line.poke(), now));
            self.pause = if own_beats == 0 { POKE_FIRST } else { self.pause * 2 };
            self.pause = self.pause.min(POKE_LONGEST);
        } else {
            self.pause = POKE_FIRST;
        }
        self.beats = beats;
        self.due = now + self.pause;
        event
    }

    fn unanswered(&mut self, silent: Duration, now: Instant) -> Option<StallEvent> {
        if silent < STALL_AFTER {
            self.due = now + POKE_LONGEST.min(STALL_AFTER - silent);
            return None;
        }
        self.due = now + POKE_LONGEST;
        let first = !std::mem::replace(&mut self.reported, true);
        let (core, cpu) = (self.pulse.core, self.pulse.cpu);
        first.then_some(StallEvent::Stalled { core, cpu, silent })
    }
}

/// How long until the first core is due for a look.
fn next_look(watches: &[Watch], now: Instant) -> Duration {
    let due = watches.iter().map(|watch| watch.due.saturating_duration_since(now)).min();
    due.unwrap_or(POKE_LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::executor::{CoreSetup, sleep, start};
    use crate::runtime::stop::Stop;

    #[test]
    fn blocked_core_is_reported_once_and_its_recovery_too() {
        let cpus = super::super::os::affinity().unwrap();
        let stop = Stop::new();
        let word = stop.clone();
        let cores = start(&CoreSetup::new(cpus[..1].to_vec()), move |_| async move {
            sleep(Duration::from_millis(50)).await;
            crate::runtime::pause_thread(STALL_AFTER + Duration::from_millis(700)); // The fault.
            word.stopped().await;
        })
        .unwrap();
        let (events, told) = std::sync::mpsc::channel();
        let monitor = StallMonitor::start(cores.pulses(), move |event| {
            let _ = events.send(event);
        })
        .unwrap();
        let patience = Duration::from_secs(20);
        let first = told.recv_timeout(patience).unwrap();
        assert!(matches!(first, StallEvent::Stalled { .. }), "{first}");
        assert_eq!((monitor.stalls(), monitor.stalled_now()), (1, 1));
        let second = told.recv_timeout(patience).unwrap();
        assert!(matches!(second, StallEvent::Recovered { .. }), "{second}");
        assert_eq!((monitor.stalls(), monitor.stalled_now()), (1, 0));
        monitor.stop();
        stop.trigger();
        cores.join().pop().unwrap().unwrap();
        assert!(told.try_recv().is_err(), "one stall is told once");
    }

    #[test]
    fn idle_core_is_poked_ever_more_seldom_and_an_active_one_not_at_all() {
        let line = Line::new();
        let start = Instant::now();
        let mut watch = Watch::new(Pulse::new(ShardId::new(0), 0, line.clone()), start);
        let mut now = start;
        for _ in 0..20 {
            assert_eq!(watch.look(now), None);
            assert!(watch.open.is_some(), "a silent core is poked");
            line.answer_for_test();
            now = watch.due;
        }
        assert_eq!(watch.pause, POKE_LONGEST);
        line.answer_for_test(); // Life that nobody asked for.
        assert_eq!(watch.look(now), None);
        assert!(watch.open.is_none(), "an active core is left alone");
        assert_eq!(watch.pause, POKE_FIRST);
    }

    /// Not a test but a measurement, for `runtime/README.md`: CPU time of idle cores with and
    /// without the monitor.
    #[test]
    #[ignore = "a measurement; `./tests/run --long` makes it"]
    fn idle_cores_measured() {
        for watched in [false, true] {
            let stop = Stop::new();
            let word = stop.clone();
            let cpus = super::super::os::affinity().unwrap();
            let cores =
                start(&CoreSetup::new(cpus), move |_| async move { word.stopped().await }).unwrap();
            let monitor = watched.then(|| StallMonitor::start(cores.pulses(), |_| {}).unwrap());
            crate::runtime::pause_thread(Duration::from_secs(2));
            let before = cpu_ms();
            crate::runtime::pause_thread(Duration::from_secs(20));
            println!("watched {watched}: {} ms of CPU time in 20 s", cpu_ms() - before);
            drop(monitor);
            stop.trigger();
            cores.join().into_iter().for_each(|core| core.unwrap());
        }
    }

    /// CPU time of this process: nanoseconds that each thread ran, from the scheduler.
    fn cpu_ms() -> u64 {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let ran = |task: std::fs::DirEntry| -> u64 {
            let text = std::fs::read_to_string(task.path().join("schedstat")).unwrap();
            text.split(' ').next().unwrap().parse().unwrap()
        };
        tasks.map(|task| ran(task.unwrap())).sum::<u64>() / 1_000_000
    }
}
