//! What the coordinators of groups and transactions have done, and what transactions are open.

use super::core_task::CoreCounts;
use super::families::*;
use super::render_cores::of_each;
use super::text::Text;
use crate::coordinator::load_times::Loads;
use crate::group::metrics::GroupTotals;
use crate::txn::metrics::{TransactionLevels, TransactionTotals};
use crate::txn::state::State;
use std::time::Duration;

/// Writes the families of coordinators, of every core that answered.
pub fn write(text: &mut Text, cores: &[(String, CoreCounts)]) {
    of_each(text, cores, |counts| groups(&counts.groups));
    of_each(text, cores, |counts| transactions(counts.transactions));
    let mut rebalances = text.family(&GROUP_REBALANCES);
    for (core, counts) in cores {
        rebalances.add(&[core, "classic"], counts.groups.classic_rebalances);
        rebalances.add(&[core, "consumer"], counts.groups.consumer_rebalances);
    }
    let mut ids = text.family(&TRANSACTIONAL_IDS);
    for (core, counts) in cores {
        for (state, count) in State::STORED.iter().zip(counts.transactions.1.by_state) {
            ids.add(&[core, state.name()], count);
        }
    }
    let mut ended = text.family(&TRANSACTIONS_ENDED);
    for (core, counts) in cores {
        ended.add(&[core, "commit"], counts.transactions.0.committed);
        ended.add(&[core, "abort"], counts.transactions.0.aborted);
    }
    let mut oldest = text.family(&TRANSACTION_OLDEST_OPEN);
    for (core, counts) in cores {
        let began = counts.transactions.1.oldest_open;
        let age_ms = began.map_or(0, |began| counts.at.since_ms(began));
        // The clock of day may have been set back.
        let age = Duration::from_millis(u64::try_from(age_ms).unwrap_or(0));
        oldest.add(&[core], age.as_secs_f64());
    }
    loads(text, cores);
}

fn groups(totals: &GroupTotals) -> Vec<(&'static Family, u64)> {
    vec![
        (&GROUP_OFFSET_COMMITS, totals.commits),
        (&GROUP_OFFSETS_EXPIRED, totals.expired),
        (&GROUP_OFFSETS_DELETED, totals.deleted),
    ]
}

fn transactions(
    (totals, levels): (TransactionTotals, TransactionLevels),
) -> Vec<(&'static Family, u64)> {
    vec![
        (&TRANSACTIONS_TIMED_OUT, totals.timed_out),
        (&TRANSACTIONS_COMPLETING, levels.completing),
        (&TRANSACTION_PARTITIONS_LOADING, levels.loading),
    ]
}

fn loads(text: &mut Text, cores: &[(String, CoreCounts)]) {
    let both = |counts: &CoreCounts| {
        [("group", counts.groups.loads), ("transaction", counts.transactions.0.loads)]
    };
    let families: [(&'static Family, fn(&Loads) -> String); 3] = [
        (&COORDINATOR_LOADS, |loads| loads.count.to_string()),
        (&COORDINATOR_LOAD_SECONDS, |loads| loads.time.as_secs_f64().to_string()),
        (&COORDINATOR_LOAD_LONGEST, |loads| loads.longest.as_secs_f64().to_string()),
    ];
    for (family, value) in families {
        let mut samples = text.family(family);
        for (core, counts) in cores {
            for (coordinator, loads) in both(counts) {
                samples.add(&[core, coordinator], value(&loads));
            }
        }
    }
}
