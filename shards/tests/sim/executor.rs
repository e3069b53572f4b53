//! A single-threaded executor that polls woken tasks in the order that the seed says.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};

use millstream_io::disk_sim::SimRng;

#[derive(Default)]
pub struct Executor {
    tasks: Vec<Task>,
}

struct Task {
    future: Pin<Box<dyn Future<Output = ()>>>,
    woken: Arc<Woken>,
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Executor {
    pub fn spawn(&mut self, future: impl Future<Output = ()> + 'static) {
        let woken = Arc::new(Woken(AtomicBool::new(true)));
        self.tasks.push(Task { future: Box::pin(future), woken });
    }

    /// Polls one woken task; false when all sleep.
    pub fn step(&mut self, rng: &mut SimRng) -> bool {
        let awake = |task: &Task| task.woken.0.load(Ordering::Relaxed);
        let count = self.tasks.iter().filter(|task| awake(task)).count();
        if count == 0 {
            return false;
        }
        let nth = rng.index(count);
        let found = (0..self.tasks.len()).filter(|i| awake(&self.tasks[*i])).nth(nth);
        let i = found.expect("counted");
        let task = &mut self.tasks[i];
        task.woken.0.store(false, Ordering::Relaxed);
        let waker = Waker::from(task.woken.clone());
        if task.future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
            drop(self.tasks.swap_remove(i));
        }
        true
    }
}
