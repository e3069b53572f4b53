//! What the admin thread knows: the phase of the broker, and what the cores said last.

use super::core_task::{CoreCounts, Look};
use super::health::{Directory, Health, Phase};
use super::limits::{
    COUNTS_PATIENCE, HEALTH_AGE_MAX, HEALTH_PATIENCE, SILENT_AFTER, TEXT_AGE_MAX, WALK_PATIENCE,
};
use super::render;
use crate::group::metrics::CoreGroups;
use bytes::Bytes;
use millstream_io::runtime::{ForeignPost, Promise, Reply, oneshot};
use millstream_io::units::ShardId;
use millstream_shards::query::PartitionMarks;
use std::path::PathBuf;
use std::sync::{Arc, Mutex as PlainMutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::Mutex;
use tokio::time::{Instant as Deadline, timeout_at};

/// What one scrape found out.
pub struct Observation {
    pub started: SystemTime,
    /// Whether `/readyz` would say so.
    pub ready: bool,
    /// One entry a core; `None` when it did not answer in time.
    pub counts: Vec<Option<CoreCounts>>,
    /// Committed offsets were asked for before the ends of the partitions, so that none looks ahead
    /// of its end only because the end is older.
    pub groups: Vec<Option<CoreGroups>>,
    pub partitions: Vec<PartitionMarks>,
    pub took: Duration,
    /// `admin.metrics.detail.max`.
    pub detail_max: usize,
}

/// The watcher. One for the process; its questions are asked on the admin thread, its phase is set
/// by the main thread.
pub struct Watch {
    post: ForeignPost<Look>,
    started: SystemTime,
    data_dir: PathBuf,
    detail_max: usize,
    phase: PlainMutex<Phase>,
    /// Locked while the cores are asked: who comes meanwhile takes the same answer.
    heard: Mutex<Heard>,
    text: Mutex<Option<(Instant, Bytes)>>,
}

/// What each core said last.
struct Heard {
    /// When the cores were last asked and had their time to answer.
    asked: Option<Instant>,
    cores: Vec<Said>,
}

#[derive(Clone, Default)]
struct Said {
    counts: Option<CoreCounts>,
    /// When it was first asked in vain since it last answered.
    unanswered: Option<Instant>,
}

impl Watch {
    pub fn new(post: ForeignPost<Look>, data_dir: PathBuf, detail_max: usize) -> Watch {
        let cores = vec![Said::default(); post.cores()];
        Watch {
            post,
            started: SystemTime::now(),
            data_dir,
            detail_max,
            phase: PlainMutex::new(Phase::Starting),
            heard: Mutex::new(Heard { asked: None, cores }),
            text: Mutex::new(None),
        }
    }

    /// Says how far the broker is. Never goes back.
    pub fn enter(&self, phase: Phase) {
        let mut now = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        *now = (*now).max(phase);
    }

    fn phase(&self) -> Phase {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How the broker is, within [`HEALTH_AGE_MAX`] and [`HEALTH_PATIENCE`].
    pub async fn health(&self) -> Health {
        let phase = self.phase();
        let began = Instant::now();
        // Before the doors are open no core answers.
        let mut heard = self.heard.lock().await;
        if phase != Phase::Starting && heard.asked.is_none_or(|at| at.elapsed() > HEALTH_AGE_MAX) {
            let counts = self.ask_all(Look::Counts, HEALTH_PATIENCE).await;
            heard.take(began, counts);
        }
        let mut directory = Directory::new(self.data_dir.clone());
        let mut silent = Vec::new();
        for (core, said) in heard.cores.iter().enumerate() {
            if let Some(counts) = &said.counts {
                directory.add(&counts.levels);
            }
            if said.unanswered.is_some_and(|since| since.elapsed() > SILENT_AFTER) {
                silent.push(core);
            }
        }
        Health { phase, directories: vec![directory], silent_cores: silent }
    }

    /// The text of all metrics, not older than [`TEXT_AGE_MAX`]. Who asks while it is made waits for
    /// it and makes none of its own.
    pub async fn text(&self) -> Bytes {
        let mut text = self.text.lock().await;
        if let Some((at, text)) = &*text
            && at.elapsed() < TEXT_AGE_MAX
        {
            return text.clone();
        }
        let began = Instant::now();
        let made = render::text(&self.observe().await).await;
        *text = Some((began, made.clone()));
        made
    }

    async fn observe(&self) -> Observation {
        let health = self.health().await;
        let began = Instant::now();
        let cores = self.post.cores();
        let (mut counts, mut groups, mut partitions) =
            (vec![None; cores], (0..cores).map(|_| None).collect(), Vec::new());
        if health.phase != Phase::Starting {
            counts = self.ask_all(Look::Counts, COUNTS_PATIENCE).await;
            self.heard.lock().await.take(began, counts.clone());
            let answering: Vec<bool> = counts.iter().map(Option::is_some).collect();
            groups = self.ask(&answering, Look::Groups, WALK_PATIENCE).await;
            let marks = self.ask(&answering, Look::Partitions, WALK_PATIENCE).await;
            partitions = marks.into_iter().flatten().flatten().collect();
        }
        Observation {
            started: self.started,
            ready: health.unready().is_none(),
            counts,
            groups,
            partitions,
            took: began.elapsed(),
            detail_max: self.detail_max,
        }
    }

    async fn ask_all<T>(
        &self,
        look: impl Fn(Promise<T>) -> Look,
        patience: Duration,
    ) -> Vec<Option<T>> {
        self.ask(&vec![true; self.post.cores()], look, patience).await
    }

    /// Asks the cores that `which` marks, all at once; what has not come in time is `None`.
    async fn ask<T>(
        &self,
        which: &[bool],
        look: impl Fn(Promise<T>) -> Look,
        patience: Duration,
    ) -> Vec<Option<T>> {
        let deadline = Deadline::now() + patience;
        let mut replies: Vec<Option<Reply<T>>> = Vec::new();
        for (core, is_asked) in (0u16..).zip(which) {
            let (promise, reply) = oneshot();
            let sending = self.post.send_async(ShardId::new(core), look(promise));
            let sent = *is_asked && matches!(timeout_at(deadline, sending).await, Ok(Ok(())));
            replies.push(sent.then_some(reply));
        }
        let mut answers = Vec::new();
        for reply in replies {
            answers.push(match reply {
                Some(reply) => timeout_at(deadline, reply).await.ok().and_then(Result::ok),
                None => None,
            });
        }
        answers
    }
}

impl Heard {
    fn take(&mut self, asked: Instant, counts: Vec<Option<CoreCounts>>) {
        // Who waited meanwhile takes this answer, also when it was long in coming.
        self.asked = Some(Instant::now());
        for (said, counts) in self.cores.iter_mut().zip(counts) {
            match counts {
                Some(counts) => *said = Said { counts: Some(counts), unanswered: None },
                None => said.unanswered = said.unanswered.or(Some(asked)),
            }
        }
    }
}

/// A handle on the watcher for whoever starts and stops the broker.
pub type Watcher = Arc<Watch>;

#[cfg(test)]
#[path = "watch_tests.rs"]
mod tests;
