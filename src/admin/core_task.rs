//! What a core says of itself when it is asked. Nothing is done for it before: an idle core sleeps,
//! and a record costs nothing more.
//!
//! Questions come by a mailbox of their own, so they wait for no change of the metadata, and each
//! answer is a copy. Counters take a microsecond; walks over groups and partitions look up from
//! their work after each small step.

use crate::cluster::image::MetadataImage;
use crate::cluster::view::MetadataView;
use crate::group::coordinator::Coordinator;
use crate::group::metrics::{CoreGroups, GroupTotals};
use crate::login::Mechanism;
use crate::session::admission::Connections;
use crate::session::door::Door;
use crate::txn::coordinator as txn;
use crate::txn::metrics::{TransactionLevels, TransactionTotals};
use crate::wire::ApiKey;
use millstream_io::clock::Clock;
use millstream_io::runtime::{Breather, Gate, Mailbox, Promise, Queue};
use millstream_io::units::TimestampMs;
use millstream_shards::metrics::{Levels, Metrics};
use millstream_shards::query::PartitionMarks;
use millstream_shards::router::Router;
use std::rc::Rc;
use std::sync::Arc;

/// A question to one core.
pub enum Look {
    Counts(Promise<CoreCounts>),
    Groups(Promise<CoreGroups>),
    Partitions(Promise<Vec<PartitionMarks>>),
}

/// Counters and levels of one core at one moment.
#[derive(Clone)]
pub struct CoreCounts {
    pub metrics: Metrics,
    pub levels: Levels,
    pub requests: Vec<(ApiKey, u64)>,
    pub batches_recompressed: u64,
    /// Mechanism, how many succeeded, how many failed.
    pub logins: Vec<(Mechanism, u64, u64)>,
    pub sessions_expired: u64,
    /// Connections of this core.
    pub connections: usize,
    /// Those of the process.
    pub admitted: Connections,
    pub request_memory_bytes: usize,
    pub groups: GroupTotals,
    pub transactions: (TransactionTotals, TransactionLevels),
    /// By the clock of the core.
    pub at: TimestampMs,
    pub image: Arc<MetadataImage>,
}

/// Whom the answers come from. Lives on the core.
pub struct Watched {
    pub router: Router,
    pub metadata: MetadataView,
    pub coordinator: Coordinator,
    pub transactions: txn::Coordinator,
    pub door: Rc<Door>,
}

/// Answers until it is cancelled; walks run inside `gate`.
pub async fn run(mut mailbox: Mailbox<Look>, watched: Watched, gate: Gate) {
    loop {
        for look in mailbox.receive().await {
            answer(look, &watched, &gate);
        }
    }
}

/// Nobody may be waiting any more, who then needs no answer. A closed gate drops the walk with its
/// promise: the asker learns that nobody answers.
fn answer(look: Look, watched: &Watched, gate: &Gate) {
    match look {
        Look::Counts(promise) => {
            let _ = promise.send(watched.counts());
        }
        Look::Groups(promise) => {
            let coordinator = watched.coordinator.clone();
            let _ = gate.spawn(Queue::Background, async move {
                let groups = coordinator.watch(|| !promise.is_abandoned()).await;
                let _ = promise.send(groups);
            });
        }
        Look::Partitions(promise) => {
            let router = watched.router.clone();
            let _ = gate.spawn(Queue::Background, walk(router, promise));
        }
    }
}

async fn walk(router: Router, promise: Promise<Vec<PartitionMarks>>) {
    let mut breather = Breather::new();
    let (mut found, mut from) = (Vec::new(), 0);
    loop {
        let piece = router.own_marks(from);
        found.extend(piece.partitions);
        let Some(next) = piece.next else { break };
        from = next;
        breather.after(0).await;
        if promise.is_abandoned() {
            return;
        }
    }
    let _ = promise.send(found);
}

impl Watched {
    fn counts(&self) -> CoreCounts {
        let (metrics, levels) = self.router.own_counts();
        CoreCounts {
            metrics,
            levels,
            requests: self.door.core.requests.served(),
            batches_recompressed: self.door.core.requests.batches_recompressed(),
            logins: self.door.core.logins.counts(),
            sessions_expired: self.door.core.logins.expired(),
            connections: self.door.connection_count(),
            admitted: self.door.admission.connections(),
            request_memory_bytes: self.door.memory.used(),
            groups: self.coordinator.totals(),
            transactions: (self.transactions.totals(), self.transactions.levels()),
            at: self.door.core.clock.wall(),
            image: self.metadata.get(),
        }
    }
}
