//! The helper pool: a few plain threads for what may block or takes longer than a core can
//! spare (file system calls, prefetching, long scans).

use std::any::Any;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::limits::{POOL_JOBS, POOL_THREADS_MAX, WIDENED_THREADS_MAX};
use super::oneshot::{Reply, oneshot};
use super::os::{self, pause_thread};
use super::queue::{Queue, Refused};
use super::wake::lock;

/// A handle on the pool; clones share it. `Send` and `Sync`: used by cores and threads alike.
#[derive(Clone)]
pub struct Pool(Arc<Inner>);

struct Inner {
    jobs: Queue<Job>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    count: usize,
    cpus: Vec<usize>,
}

type Job = Box<dyn FnOnce() + Send>;

/// How the threads of a pool stand to others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    Usual,
    ComesFirst,
    ComesSecond,
    GivesWay,
}

impl Pool {
    /// Starts `threads` threads (at least 1, at most `POOL_THREADS_MAX`). They run on the CPUs
    /// of `allowed` that carry no core of `cores`; when none is spare, on all of `allowed`.
    ///
    /// Errors: the system refuses a thread.
    pub fn start(threads: usize, cores: &[usize], allowed: &[usize]) -> io::Result<Pool> {
        let count = threads.clamp(1, POOL_THREADS_MAX);
        Pool::begin("helper", count, spare(cores, allowed), Manner::ComesSecond)
    }

    /// A pool of one thread of its own, on the same CPUs, for what must not wait behind others.
    /// It ends with its last handle.
    pub(crate) fn companion(&self, name: &str) -> io::Result<Pool> {
        Pool::begin(name, 1, self.0.cpus.clone(), Manner::ComesFirst)
    }

    /// A pool of one thread of its own, on the same CPUs, that works only while nothing else wants
    /// them ([`os::give_way`]). It ends with its last handle.
    pub(crate) fn background(&self, name: &str) -> io::Result<Pool> {
        Pool::begin(name, 1, self.0.cpus.clone(), Manner::GivesWay)
    }

    /// A pool of `threads` threads of its own, on the same CPUs. It ends with its last handle.
    ///
    /// Errors: the system refuses a thread.
    pub fn widened(&self, name: &str, threads: usize) -> io::Result<Pool> {
        let count = threads.clamp(1, WIDENED_THREADS_MAX);
        Pool::begin(name, count, self.0.cpus.clone(), Manner::Usual)
    }

    fn begin(name: &str, count: usize, cpus: Vec<usize>, manner: Manner) -> io::Result<Pool> {
        let jobs: Queue<Job> = Queue::bounded(POOL_JOBS);
        let threads = Mutex::default();
        let inner = Inner { jobs: jobs.clone(), threads, count, cpus: cpus.clone() };
        let pool = Pool(Arc::new(inner));
        for number in 0..count {
            let jobs = jobs.clone();
            let cpus = cpus.clone();
            let thread =
                std::thread::Builder::new().name(format!("{name}-{number}")).spawn(move || {
                    // Threads inherit the pin of whoever starts them. Refused: they work where
                    // they are.
                    let _ = os::set_affinity(&cpus);
                    match manner {
                        Manner::Usual => {}
                        Manner::ComesFirst => os::take_short_turns(os::Turns::Shortest),
                        Manner::ComesSecond => os::come_second(),
                        Manner::GivesWay => os::give_way(),
                    }
                    while let Some(job) = jobs.take_blocking() {
                        job();
                    }
                });
            match thread {
                Ok(thread) => lock(&pool.0.threads).push(thread),
                Err(error) => {
                    pool.stop();
                    return Err(error);
                }
            }
        }
        Ok(pool)
    }

    /// Runs `job` on the pool and awaits its result; waits first while the queue is full. When
    /// the future is dropped the job still runs, and its result is dropped.
    ///
    /// Errors: the job panicked, or the pool was stopped before it ran.
    pub async fn run<T, F>(&self, job: F) -> Result<T, JobError>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let (work, reply) = wrap(job);
        match self.0.jobs.try_give(work) {
            Ok(()) => {}
            Err(Refused::Closed(_)) => return Err(JobError::Stopped),
            Err(Refused::Full(work)) => {
                self.0.jobs.give(work).await.map_err(|_| JobError::Stopped)?;
            }
        }
        reply.await.map_err(|_| JobError::Stopped)?
    }

    /// Runs `job` on the pool and blocks the calling thread for its result. Never on a core.
    pub fn run_blocking<T, F>(&self, job: F) -> Result<T, JobError>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let (work, reply) = wrap(job);
        self.0.jobs.give_blocking(work).map_err(|_| JobError::Stopped)?;
        reply.wait().map_err(|_| JobError::Stopped)?
    }

    /// Jobs that wait for a thread.
    pub fn waiting(&self) -> usize {
        self.0.jobs.len()
    }

    /// How many threads there are.
    pub fn threads(&self) -> usize {
        self.0.count
    }

    /// Finishes the queued jobs, then ends and joins the threads. Blocks: not on a core. Jobs
    /// given afterwards are answered with [`JobError::Stopped`].
    pub fn stop(&self) {
        self.0.jobs.close();
        let threads = std::mem::take(&mut *lock(&self.0.threads));
        for thread in threads {
            let _ = thread.join(); // Always well: the panics of jobs are caught.
        }
    }

    /// [`Pool::stop`] for at most `time`: a job that hangs on a dead device must not hold up the
    /// end of the process. Returns how many threads were still at work then; they are left alone.
    pub fn stop_within(&self, time: Duration) -> usize {
        self.0.jobs.close();
        let deadline = Instant::now() + time;
        let mut threads = std::mem::take(&mut *lock(&self.0.threads));
        loop {
            threads.retain(|thread| !thread.is_finished());
            if threads.is_empty() || Instant::now() >= deadline {
                return threads.len();
            }
            pause_thread(Duration::from_millis(1));
        }
    }
}

impl Drop for Inner {
    /// Threads without anybody to work for end by themselves.
    fn drop(&mut self) {
        self.jobs.close();
    }
}

/// Why a job has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobError {
    /// It panicked, with this message.
    Panicked(String),
    /// The pool was stopped before the job ran.
    Stopped,
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JobError::Panicked(reason) => write!(f, "a job of the helper pool panicked: {reason}"),
            JobError::Stopped => f.write_str("the helper pool is stopping"),
        }
    }
}

impl std::error::Error for JobError {}

fn wrap<T, F>(job: F) -> (Job, Reply<Result<T, JobError>>)
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let (promise, reply) = oneshot();
    let work = move || {
        // The job owns all it touches, so nothing half-changed outlives its panic.
        let result = catch_unwind(AssertUnwindSafe(job));
        let _ = promise.send(result.map_err(|panic| JobError::Panicked(reason(&*panic))));
    };
    (Box::new(work), reply)
}

fn spare(cores: &[usize], allowed: &[usize]) -> Vec<usize> {
    let spare: Vec<usize> = allowed.iter().copied().filter(|cpu| !cores.contains(cpu)).collect();
    if spare.is_empty() { allowed.to_vec() } else { spare }
}

fn reason(panic: &(dyn Any + Send)) -> String {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => (*text).to_owned(),
        (None, Some(text)) => text.clone(),
        (None, None) => "no message".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::executor::run_alone;

    fn pool(threads: usize) -> Pool {
        let allowed = os::affinity().unwrap();
        Pool::start(threads, &allowed[..1], &allowed).unwrap()
    }

    #[test]
    fn core_awaits_a_job_and_a_thread_blocks_for_one() {
        let pool = pool(2);
        let on_core = pool.clone();
        assert_eq!(run_alone(|_| async move { on_core.run(|| 6 * 7).await }), Ok(42));
        assert_eq!(pool.run_blocking(|| "done"), Ok("done"));
        pool.stop();
    }

    #[test]
    fn panicking_job_is_reported_and_its_thread_lives_on() {
        let pool = pool(1);
        let result = pool.run_blocking(|| -> u8 { panic!("job {}", 13) });
        assert_eq!(result, Err(JobError::Panicked("job 13".to_owned())));
        assert_eq!(pool.run_blocking(|| 1), Ok(1));
        pool.stop();
        assert_eq!(pool.run_blocking(|| 1), Err(JobError::Stopped));
    }

    #[test]
    fn job_that_hangs_does_not_hold_up_the_stop() {
        let pool = pool(2);
        let (release, hang) = std::sync::mpsc::channel::<()>();
        let (promise, begun) = oneshot();
        let hanging = pool.clone();
        let caller = std::thread::spawn(move || {
            hanging.run_blocking(move || {
                promise.send(()).unwrap();
                hang.recv()
            })
        });
        begun.wait().unwrap();
        assert_eq!(pool.stop_within(Duration::from_millis(50)), 1);
        release.send(()).unwrap();
        assert!(caller.join().unwrap().is_ok(), "the job itself was not given up");
    }

    #[test]
    fn more_jobs_than_the_queue_holds_all_run() {
        let pool = pool(1);
        let on_core = pool.clone();
        let sum = run_alone(move |_| async move {
            let jobs = (0..3 * POOL_JOBS).map(|n| {
                let pool = on_core.clone();
                crate::runtime::executor::spawn(crate::runtime::Queue::Serve, async move {
                    pool.run(move || n).await.unwrap()
                })
            });
            let mut sum = 0;
            for job in jobs.collect::<Vec<_>>() {
                sum += job.await;
            }
            sum
        });
        assert_eq!(sum, (0..3 * POOL_JOBS).sum::<usize>());
        pool.stop();
    }

    #[test]
    fn helpers_avoid_the_cores_when_a_cpu_is_spare() {
        assert_eq!(spare(&[0, 1], &[0, 1, 2, 3]), [2, 3]);
        assert_eq!(spare(&[0, 1], &[0, 1]), [0, 1]);
    }
}
