//! Which places the seeds reached: a simulator that never comes to a place proves nothing about it.

use millstream_shards::metrics::Metrics;

use super::life::End;
use super::model::Model;

macro_rules! covered {
    ($($place:ident),+ $(,)?) => {
        /// How often the places that matter were reached.
        #[derive(Debug, Default)]
        pub struct Covered {
            $(pub $place: u64,)+
        }

        impl Covered {
            /// Takes over what another part of the seeds has reached.
            pub fn join(&mut self, other: &Covered) {
                $(self.$place += other.$place;)+
            }

            pub fn check(&self) {
                let all = [$(self.$place),+];
                let met = all.iter().all(|count| *count > 0);
                assert!(met, "something was never met: {self:?}");
            }
        }
    };
}

covered!(
    lives,
    crashes,
    stops,
    recoveries_cut,
    scanned_bytes,
    replayed_bytes,
    cut_bytes,
    rounds,
    direct_bytes,
    behind_bytes,
    journal_bytes,
    journal_full,
    sealed,
    checkpoints,
    duplicates,
    refused,
    cold_reads,
    checked_reads,
    evicted_bytes,
    deletions,
    segments_deleted,
    reads_refused,
    retained,
    cleanings,
    segments_cleaned,
    cleanings_broken_off,
    markers,
    claims,
    claims_held_back,
    claims_with_aborted,
    withheld,
    replaced_gone,
    tombstones_gone,
    aborted_gone,
    markers_gone,
);

impl Covered {
    pub fn add(&mut self, metrics: &Metrics, end: End) {
        self.cleanings += metrics.cleaning.finished;
        self.segments_cleaned += metrics.cleaning.segments;
        self.cleanings_broken_off += metrics.cleaning.broken_off;
        self.deletions += metrics.deletions_total;
        self.segments_deleted += metrics.segments_deleted_total;
        self.retained += metrics.retention_by_time_total + metrics.retention_by_size_total;
        self.lives += 1;
        self.crashes += u64::from(end == End::Crash);
        self.stops += u64::from(end == End::Stop);
        self.rounds += metrics.rounds_total;
        self.direct_bytes += metrics.direct_bytes_total;
        self.behind_bytes += metrics.behind_bytes_total;
        self.journal_bytes += metrics.journal_bytes_total;
        self.journal_full += metrics.journal_full_total;
        self.sealed += metrics.segments_sealed_total;
        self.checkpoints += metrics.checkpoints_total;
        self.duplicates += metrics.append_duplicates_total;
        self.refused += metrics.append_refused_total;
        self.cold_reads += metrics.cold_reads_total;
        self.checked_reads += metrics.checked_reads_total;
        self.evicted_bytes += metrics.tail_evicted_bytes_total;
        self.markers += metrics.transaction_markers_total;
    }

    /// What a seed's judge has met.
    pub fn add_judged(&mut self, model: &Model) {
        let (claims, reached) = (&model.claims, model.compaction.as_ref().map(|c| c.reached));
        self.claims += claims.judged;
        self.claims_held_back += claims.held_back;
        self.claims_with_aborted += claims.with_aborted;
        self.withheld += claims.withheld;
        let reached = reached.unwrap_or_default();
        self.replaced_gone += reached.replaced;
        self.tombstones_gone += reached.tombstones;
        self.aborted_gone += reached.aborted;
        self.markers_gone += reached.markers;
    }
}
