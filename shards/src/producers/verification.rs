//! Guards given out and not used yet: transactions whose coordinator is being asked (KIP-890).

use std::collections::BTreeMap;

use millstream_io::units::{IdMap, ProducerEpoch, ProducerId, Sequence};

use crate::limits::VERIFICATIONS_PER_PARTITION_MAX;
use crate::message::{TransactionQuery, VerificationGuard};

/// The guards of one partition, one a producer. Lives on the owner's core, and only in memory: after
/// a restart every guard is a stranger's.
///
/// Bounded by [`VERIFICATIONS_PER_PARTITION_MAX`]: beyond, the oldest guard is forgotten, and the
/// batch that comes with it is refused, so that its client aborts.
#[derive(Clone, Debug, Default)]
pub(super) struct Verifications {
    of: IdMap<ProducerId, Verification>,
    /// By age.
    producers: BTreeMap<VerificationGuard, ProducerId>,
    last: u64,
}

/// What was asked for a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Verification {
    pub guard: VerificationGuard,
    pub epoch: ProducerEpoch,
    /// The lowest sequence asked for under this epoch. A batch behind it must wait: were it taken,
    /// the lower one could never be.
    pub lowest: Option<Sequence>,
    pub bumps_epoch: bool,
}

impl Verifications {
    pub fn get(&self, producer: ProducerId) -> Option<&Verification> {
        if self.of.is_empty() { None } else { self.of.get(&producer) }
    }

    /// The guard of a producer, made when there is none.
    pub fn begin(&mut self, query: &TransactionQuery) -> VerificationGuard {
        if let Some(held) = self.of.get_mut(&query.producer) {
            if query.epoch > held.epoch {
                (held.epoch, held.lowest) = (query.epoch, query.first);
            } else if query.epoch == held.epoch {
                let both = held.lowest.zip(query.first);
                let both = both.map(|(held, new)| if held.is_behind(new) { new } else { held });
                held.lowest = both.or(held.lowest).or(query.first);
            }
            return held.guard;
        }
        if self.of.len() >= VERIFICATIONS_PER_PARTITION_MAX
            && let Some((_, oldest)) = self.producers.pop_first()
        {
            self.of.remove(&oldest);
        }
        self.last += 1;
        let guard = VerificationGuard(self.last);
        let TransactionQuery { epoch, first: lowest, bumps_epoch, producer, at: _ } = *query;
        self.of.insert(producer, Verification { guard, epoch, lowest, bumps_epoch });
        self.producers.insert(guard, producer);
        guard
    }

    /// The transaction is open, or has ended.
    pub fn clear(&mut self, producer: ProducerId) {
        if self.of.is_empty() {
            return;
        }
        if let Some(held) = self.of.remove(&producer) {
            self.producers.remove(&held.guard);
        }
    }
}
