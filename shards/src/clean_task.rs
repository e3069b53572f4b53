//! The task that compacts: one pass after the other, each in small steps on the helper pool, no more at
//! a time than there are seats for over all cores.

use std::collections::VecDeque;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use millstream_io::batch_stream::READ_BYTES;
use millstream_io::checkpoint::{StateError, write_state};
use millstream_io::clock::{Clock, SystemClock};
use millstream_io::disk::{CoreDisk, Disk, DiskError, DiskErrorKind, DiskOp};
use millstream_io::partition_state::CleanerCheckpoint;
use millstream_io::runtime::{Promise, Reply, oneshot, sleep};
use millstream_io::units::{Offset, TimestampMs};

use crate::cleaning::pass::{Pass, PassCounts, PassPlan, Step};
use crate::disk_shell::DiskShell;
use crate::shard::Cleaned;
use crate::table::Slot;

/// How all cores of a broker compact.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CleanerConfig {
    /// `log.cleaner.threads`: passes at a time, over all cores; none cleans nothing.
    pub threads: usize,
    /// `log.cleaner.dedupe.buffer.size`: memory of all offset maps together.
    pub dedupe_bytes: u64,
    /// `log.cleaner.io.max.bytes.per.second`: read and written by all passes together; `None` when there
    /// is no bound.
    pub io_bytes_per_second: Option<u64>,
    /// `log.cleaner.backoff.ms`: how long a core waits that has nothing to clean.
    pub backoff: Duration,
}

impl Default for CleanerConfig {
    /// The defaults of Apache Kafka 4.
    fn default() -> CleanerConfig {
        CleanerConfig {
            threads: 1,
            dedupe_bytes: 128 << 20,
            io_bytes_per_second: None,
            backoff: Duration::from_secs(15),
        }
    }
}

/// The seats for passes, shared by all cores. First come, first served.
#[derive(Clone, Debug)]
pub struct Cleaners(Arc<Mutex<Seats>>);

#[derive(Debug)]
struct Seats {
    config: CleanerConfig,
    taken: usize,
    waiting: VecDeque<Promise<()>>,
}

impl Seats {
    /// Gives the seats that are free to those who wait.
    fn fill(&mut self) {
        while self.taken < self.config.threads
            && let Some(next) = self.waiting.pop_front()
        {
            // Nobody may be waiting any more.
            self.taken += usize::from(next.send(()).is_ok());
        }
    }
}

/// A seat; given up when dropped.
#[derive(Debug)]
pub struct CleanerSeat(Arc<Mutex<Seats>>);

impl Cleaners {
    pub fn new(config: CleanerConfig) -> Cleaners {
        Cleaners(Arc::new(Mutex::new(Seats { config, taken: 0, waiting: VecDeque::new() })))
    }

    /// What holds from now on. Passes under way keep their seats and their memory.
    pub fn configure(&self, config: CleanerConfig) {
        let mut seats = lock(&self.0);
        if seats.config != config {
            seats.config = config;
            seats.fill();
        }
    }

    /// Memory of one pass's map.
    pub fn map_bytes(&self) -> u64 {
        let config = self.config();
        config.dedupe_bytes / u64::try_from(config.threads.max(1)).unwrap_or(u64::MAX)
    }

    fn config(&self) -> CleanerConfig {
        lock(&self.0).config
    }

    /// Waits for a seat.
    pub async fn seat(&self) -> CleanerSeat {
        loop {
            let reply: Reply<()> = {
                let mut seats = lock(&self.0);
                if seats.taken < seats.config.threads {
                    seats.taken += 1;
                    return CleanerSeat(self.0.clone());
                }
                let (promise, reply) = oneshot();
                seats.waiting.push_back(promise);
                reply
            };
            if reply.await.is_ok() {
                return CleanerSeat(self.0.clone());
            }
        }
    }

    /// How long a pass pauses behind a step that moved so many bytes.
    fn pause(&self, bytes: u64) -> Duration {
        let config = self.config();
        let seats = u64::try_from(config.threads.max(1)).unwrap_or(u64::MAX);
        match config.io_bytes_per_second {
            Some(rate) => {
                let share = (rate / seats).max(1);
                Duration::from_micros(bytes.saturating_mul(1_000_000) / share)
            }
            None => Duration::ZERO,
        }
    }
}

impl Drop for CleanerSeat {
    fn drop(&mut self) {
        let mut seats = lock(&self.0);
        seats.taken -= 1;
        seats.fill();
    }
}

fn lock(seats: &Mutex<Seats>) -> std::sync::MutexGuard<'_, Seats> {
    seats.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Compacts the partitions of one core until the future is dropped. New settings hold from the next
/// pass on, and the rate from the next step.
pub async fn clean<D: CoreDisk>(shell: DiskShell<D>, cleaners: Cleaners) {
    let clock = SystemClock::new();
    loop {
        let config = shell.shard.with(|shard| shard.cleaner);
        cleaners.configure(config);
        let cleaned = config.threads > 0 && {
            let _seat = cleaners.seat().await;
            clean_next(&shell, &cleaners, clock.wall(), sleep).await
        };
        if !cleaned {
            // Looked at in between, so that a long backoff does not keep a shorter one from its turn.
            let mut slept = Duration::ZERO;
            loop {
                let backoff = shell.shard.with(|shard| shard.cleaner.backoff);
                let nap = backoff.saturating_sub(slept).min(BACKOFF_LOOK);
                if nap.is_zero() {
                    break;
                }
                sleep(nap).await;
                slept += nap;
            }
        }
    }
}

/// One pass over the partition that needs it most. False when none did, or when it could not be brought
/// to its end. `pause` waits between two steps for as long as it is told.
pub async fn clean_next<D, P, F>(
    shell: &DiskShell<D>,
    cleaners: &Cleaners,
    now: TimestampMs,
    pause: P,
) -> bool
where
    D: CoreDisk,
    P: Fn(Duration) -> F,
    F: Future<Output = ()>,
{
    let map_bytes = cleaners.map_bytes();
    let Some((slot, plan)) = shell.shard.with_mut(|shard| shard.plan_cleaning(now, map_bytes))
    else {
        return false;
    };
    let (dir, first_dirty) = (plan.dir.clone(), plan.first_dirty);
    let how = Cleaned { clean_to: None, damaged: Vec::new(), leaves_files: false };
    let background = shell.disk.background();
    let (took, rounds, busy_until) = (Duration::ZERO, 0, None);
    let mut cleaner = Cleaner {
        shell,
        background,
        cleaners,
        slot,
        pause,
        took,
        turns: Turns::default(),
        rounds,
        busy_until,
        pass: None,
        how,
    };
    match cleaner.run(plan).await {
        Ok(Some(end)) => cleaner.note(dir, end.max(first_dirty)).await,
        Ok(None) => {}
        Err(error) => shell.shard.with_mut(|shard| shard.clean_failed(error)),
    }
    let how = cleaner.how;
    shell.shard.with_mut(|shard| shard.clean_done(slot, &how));
    how.clean_to.is_some()
}

/// One pass and what it needs.
struct Cleaner<'c, D: CoreDisk, P> {
    shell: &'c DiskShell<D>,
    /// For the steps that do not write.
    background: D,
    cleaners: &'c Cleaners,
    slot: Slot,
    pause: P,
    /// How long the step before took.
    took: Duration,
    turns: Turns,
    /// Commit rounds of all cores when last seen, and until when somebody is taken to write.
    rounds: u64,
    busy_until: Option<Instant>,
    /// Here between two steps.
    pass: Option<Box<Pass<D::Blocking>>>,
    how: Cleaned,
}

impl<D, P, F> Cleaner<'_, D, P>
where
    D: CoreDisk,
    P: Fn(Duration) -> F,
    F: Future<Output = ()>,
{
    /// How far everything is clean then; `None` when the pass has to end early.
    async fn run(&mut self, plan: PassPlan) -> Result<Option<Offset>, DiskError> {
        let disk = self.shell.disk.blocking();
        // The map is a large allocation, and a segment needs its space beside those it stands for.
        let begun = self.shell.disk.run(move || {
            let free = disk.free_bytes(&plan.dir)?;
            let needed = plan.space_needed().saturating_add(SPACE_KEPT_BYTES);
            Ok((free >= needed).then(|| Box::new(Pass::new(plan))))
        });
        let Some(pass) = begun.await?? else { return Ok(None) };
        self.pass = Some(pass);
        let ended = self.work().await;
        if let Some(pass) = &self.pass {
            self.how.damaged = pass.damaged().to_vec();
        }
        ended
    }

    async fn work(&mut self) -> Result<Option<Offset>, DiskError> {
        loop {
            match self.step().await? {
                Some(Step::More) => {}
                Some(Step::Mapped) => break,
                Some(Step::Left | Step::Written { .. }) => panic!("nothing is noted yet"),
                None => return Ok(None),
            }
        }
        while let Some(group) = self.held()?.next_group() {
            let slot = self.slot;
            let gone = self.shell.shard.with_mut(|shard| shard.begin_clean_group(slot, &group));
            if !self.held()?.leave_deleted(gone) {
                continue;
            }
            let written = self.write().await;
            self.shell.shard.with_mut(|shard| shard.clean_group_done(slot));
            if !written? {
                return Ok(None);
            }
        }
        Ok(Some(self.held()?.end()))
    }

    /// Writes a group, and puts it in its place. False when the pass has to end early.
    async fn write(&mut self) -> Result<bool, DiskError> {
        loop {
            match self.step().await? {
                Some(Step::More) => {}
                Some(Step::Mapped) => panic!("everything was noted before"),
                Some(Step::Left) => return Ok(true),
                Some(Step::Written { meta, indexes, over }) => {
                    let (slot, shard) = (self.slot, &self.shell.shard);
                    shard.with_mut(|shard| shard.swap_cleaned(slot, &meta, *indexes, &over));
                    return Ok(true);
                }
                None => {
                    self.on_pool(true, |pass, disk| pass.skip_group(disk)).await?;
                    return Ok(false);
                }
            }
        }
    }

    /// One step on the pool; `None` when the pass has to end.
    async fn step(&mut self) -> Result<Option<Step>, DiskError> {
        let counts = self.held()?.take_counts();
        self.cleaners.configure(self.shell.shard.with(|shard| shard.cleaner));
        let mut pause = self.cleaners.pause(counts.bytes_read + counts.bytes_written);
        if self.others_write() {
            pause = pause.max(rest_behind(self.took, counts.bytes_written));
        }
        if !self.may_go_on(counts) {
            return Ok(None);
        }
        while !pause.is_zero() {
            let nap = pause.min(NAP_MAX);
            (self.pause)(nap).await;
            pause -= nap;
            if !self.may_go_on(PassCounts::default()) {
                return Ok(None);
            }
        }
        let writes = self.held()?.writes_next();
        let begun = Instant::now();
        let step = self.on_pool(writes, |pass, disk| pass.step(disk, STEP_BYTES)).await?;
        self.took = begun.elapsed();
        self.turns.took(self.took);
        self.how.leaves_files |= self.held()?.leaves_files();
        step.map(Some)
    }

    /// Somebody has committed something a short time ago, on whatever core.
    fn others_write(&mut self) -> bool {
        let (now, rounds) =
            (Instant::now(), self.shell.shard.with(|shard| shard.health.directory.rounds()));
        if rounds != self.rounds {
            self.rounds = rounds;
            self.busy_until = now.checked_add(BUSY_FOR);
        }
        self.busy_until.is_some_and(|until| now < until)
    }

    fn may_go_on(&self, counts: PassCounts) -> bool {
        self.shell.shard.with_mut(|shard| shard.may_go_on_cleaning(self.slot, counts))
    }

    /// Lends the pass to the pool; to the thread in the background, unless it `writes`.
    async fn on_pool<T: Send + 'static>(
        &mut self,
        writes: bool,
        body: fn(&mut Pass<D::Blocking>, &D::Blocking) -> T,
    ) -> Result<T, DiskError> {
        let disk = self.shell.disk.blocking();
        let Some(mut pass) = self.pass.take() else { return Err(stopped()) };
        let beside = writes || self.turns.is_one_of_many();
        let who = if beside { &self.shell.disk } else { &self.background };
        let run = who.run(move || (body(&mut pass, &disk), pass));
        match run.await {
            Ok((result, pass)) => {
                self.pass = Some(pass);
                Ok(result)
            }
            Err(error) => {
                // The pool is closing, and nobody knows how far it came.
                self.how.leaves_files = true;
                Err(error)
            }
        }
    }

    fn held(&mut self) -> Result<&mut Pass<D::Blocking>, DiskError> {
        self.pass.as_deref_mut().ok_or_else(stopped)
    }

    /// Writes down how far everything is clean.
    async fn note(&mut self, dir: PathBuf, clean_to: Offset) {
        let disk = self.shell.disk.blocking();
        let checkpoint = CleanerCheckpoint { first_dirty_offset: clean_to };
        let wrote = self.shell.disk.run(move || write_state(&disk, &dir, &checkpoint)).await;
        match flatten(wrote) {
            Ok(()) => self.how.clean_to = Some(clean_to),
            Err(error) => self.shell.shard.with_mut(|shard| shard.clean_failed(error)),
        }
    }
}

fn stopped() -> DiskError {
    DiskError::new(DiskErrorKind::Stopped, DiskOp::Run, Path::new("compaction"))
}

/// The error of the disk behind one of a state file. Writing knows no other.
fn flatten(wrote: Result<Result<(), StateError>, DiskError>) -> Result<(), DiskError> {
    match wrote? {
        Ok(()) => Ok(()),
        Err(StateError::Disk(error)) => Err(error),
        Err(StateError::Damaged { path, .. } | StateError::Newer { path, .. }) => {
            Err(DiskError::new(DiskErrorKind::WrongKind, DiskOp::Write, &path))
        }
    }
}

/// Bytes that one job on the pool reads: some hundred microseconds of the device.
const STEP_BYTES: u64 = READ_BYTES as u64;

/// Whose turn it is on machines whose CPUs are never idle: a thread that gives way would stand still there,
/// and the log would grow. Behind a step that took so long that it must have stood still, some are done
/// by the usual helpers.
#[derive(Debug, Default)]
struct Turns {
    owed: u32,
}

impl Turns {
    /// The next step is one of the usual helpers'.
    fn is_one_of_many(&self) -> bool {
        self.owed > 0
    }

    fn took(&mut self, time: Duration) {
        self.owed = if time >= STOOD_STILL { STEPS_OWED } else { self.owed.saturating_sub(1) };
    }
}

const STOOD_STILL: Duration = Duration::from_secs(1);

/// 16 MiB of log.
const STEPS_OWED: u32 = 128;

/// How long a pass rests behind a step, while others write: they use the same device and the same
/// memory. What was written, a sync of theirs writes too, so that this is what they notice most.
fn rest_behind(took: Duration, bytes_written: u64) -> Duration {
    let written = Duration::from_micros(bytes_written * 1_000_000 / WRITTEN_PER_SECOND);
    // A step that took longer than some milliseconds had to wait for others, and was its own rest.
    (took * 3).min(REST_MAX).max(written)
}

const REST_MAX: Duration = Duration::from_millis(20);

/// Bytes that a pass writes in a second while others write too.
const WRITTEN_PER_SECOND: u64 = 32 << 20;

/// How long somebody is taken to write on after a commit round.
const BUSY_FOR: Duration = Duration::from_millis(200);

/// How often a core that has nothing to clean looks whether its backoff was changed.
const BACKOFF_LOOK: Duration = Duration::from_secs(15);

/// A pass that is throttled looks this often whether it has to end.
const NAP_MAX: Duration = Duration::from_millis(500);

/// Space that a cleaning leaves free: it must not be what fills a disk.
const SPACE_KEPT_BYTES: u64 = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seats_follow_the_setting() {
        let with = |threads| CleanerConfig { threads, ..CleanerConfig::default() };
        let cleaners = Cleaners::new(with(0));
        let (first, mut first_reply) = oneshot();
        let (second, mut second_reply) = oneshot();
        lock(&cleaners.0).waiting.extend([first, second]);
        cleaners.configure(with(1));
        assert!(matches!(first_reply.try_take(), Some(Ok(()))));
        assert!(second_reply.try_take().is_none());
        let seat = CleanerSeat(cleaners.0.clone());
        cleaners.configure(with(0));
        drop(seat);
        assert!(second_reply.try_take().is_none(), "there is no seat any more");
        cleaners.configure(with(2));
        assert!(matches!(second_reply.try_take(), Some(Ok(()))));
        assert_eq!(lock(&cleaners.0).taken, 1);
    }

    #[test]
    fn pass_that_stood_still_gets_its_turns() {
        let (mut turns, soon) = (Turns::default(), Duration::from_millis(2));
        turns.took(soon);
        assert!(!turns.is_one_of_many());
        turns.took(STOOD_STILL);
        for _ in 0..STEPS_OWED {
            assert!(turns.is_one_of_many());
            turns.took(soon);
        }
        assert!(!turns.is_one_of_many());
    }

    #[test]
    fn pass_rests_for_what_it_took_of_the_device() {
        let ms = Duration::from_millis;
        assert_eq!(rest_behind(ms(1), 0), ms(3));
        assert_eq!(rest_behind(ms(300), 0), REST_MAX, "it stood still");
        assert_eq!(rest_behind(ms(1), WRITTEN_PER_SECOND / 4), ms(250));
    }

    #[test]
    fn memory_and_rate_are_shared_by_the_seats() {
        let (dedupe_bytes, backoff) = (1000, Duration::ZERO);
        let config =
            CleanerConfig { threads: 2, dedupe_bytes, io_bytes_per_second: Some(100), backoff };
        let cleaners = Cleaners::new(config);
        assert_eq!((cleaners.map_bytes(), cleaners.pause(50)), (500, Duration::from_secs(1)));
        cleaners.configure(CleanerConfig { threads: 1, io_bytes_per_second: None, ..config });
        assert_eq!((cleaners.map_bytes(), cleaners.pause(50)), (1000, Duration::ZERO));
    }
}
