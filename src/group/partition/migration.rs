//! Groups that change their protocol: without members at once, with members as the policy allows.
//!
//! Either way one batch ends the one group in the log and begins the other, so that a log never
//! holds half of a change.

use super::super::classic::Dissolved;
use super::super::consumer::{ConsumerGroup, Downgrade, UpgradeError};
use super::group::consumer_records;
use super::*;

impl Group {
    /// The records that end a group of the consumer protocol without members, which is a classic one
    /// from now on. `None` when it has members.
    pub fn become_classic(
        &mut self,
        name: &Name,
        settings: Settings,
        now: Now,
    ) -> Option<Vec<NewRecord>> {
        let Kind::Consumer(consumer) = &self.kind else { return Some(Vec::new()) };
        if !consumer.is_empty() {
            return None;
        }
        let records = consumer_records(name, &consumer.tombstones());
        self.kind = Kind::Classic(Box::new(ClassicGroup::new(settings, now)));
        (self.is_on_disk, self.last) = (false, None);
        self.era += 1;
        Some(records)
    }

    /// The records that end a classic group, which is `consumer` from now on. Who waits for others
    /// in it is told to join again; answers that rest on its records come with the entry.
    pub fn become_consumer(&mut self, name: &Name, consumer: ConsumerGroup) -> Entry {
        let is_on_disk = std::mem::take(&mut self.is_on_disk);
        let kind = std::mem::replace(&mut self.kind, Kind::Consumer(Box::new(consumer)));
        let Kind::Classic(classic) = kind else {
            panic!("group {name:?} becomes what it is, one of the consumer protocol");
        };
        self.last = None;
        self.era += 1;
        let Dissolved { answers, held } = classic.dissolve(ErrorCode::RebalanceInProgress);
        send_all(answers);
        Entry::plain(
            is_on_disk.then(|| group_record(name, None)).into_iter().collect(),
            held.into_iter().map(|(waiter, answer)| Then::Answer(waiter, answer)).collect(),
        )
    }

    /// The records that end a group of the consumer protocol whose members all speak the classic
    /// one, and begin theirs. `None` when they would not fit into `bytes_max` with `before`, or the
    /// members have nothing in common; then nothing has changed.
    pub fn become_classic_with_members(
        &mut self,
        name: &Name,
        how: Downgrade,
        topics: &dyn TopicsView,
        (settings, bytes_max): (Settings, usize),
        now: Now,
    ) -> Option<Vec<NewRecord>> {
        let Kind::Consumer(consumer) = &self.kind else { return None };
        let roster = consumer.roster(how, topics)?;
        let (classic, snapshot) = ClassicGroup::found(settings, roster, now);
        let mut records = consumer_records(name, &consumer.tombstones());
        records.push(group_record(name, Some(&snapshot)));
        if records.iter().map(NewRecord::bytes_max).sum::<usize>() > bytes_max {
            return None;
        }
        self.kind = Kind::Classic(Box::new(classic));
        (self.is_on_disk, self.last) = (true, Some(Box::new(snapshot)));
        self.era += 1;
        Some(records)
    }

    /// The group of the consumer protocol that a classic one with members becomes.
    ///
    /// # Errors
    /// Why it does not.
    pub fn upgraded(
        &self,
        settings: &ConsumerSettings,
        topics: &dyn TopicsView,
        now: Now,
    ) -> Result<ConsumerGroup, UpgradeError> {
        let roster = match &self.kind {
            Kind::Classic(classic) => classic.roster(),
            Kind::Consumer(_) => None,
        };
        ConsumerGroup::from_classic(settings.clone(), roster.as_ref(), topics, now.ms)
    }
}

impl GroupPartition {
    /// The entry for records of a group of the consumer protocol, with those that make it a classic
    /// one when only such members are left. What follows from nothing new is done at once.
    pub(super) fn consumer_entry(
        &mut self,
        name: &Name,
        mut records: Vec<ConsumerRecord>,
        then: Vec<Then>,
        topics: &dyn TopicsView,
        now: Now,
    ) -> Option<Entry> {
        let limits = (self.settings.classic, self.append_bytes_max);
        let mut begun = Vec::new();
        if let Some(group) = self.groups.get_mut(name)
            && let Kind::Consumer(consumer) = &mut group.kind
        {
            if let Some(how) = consumer.take_downgrade() {
                let written = consumer_records(name, &records);
                let bytes: usize = written.iter().map(NewRecord::bytes_max).sum();
                let limits = (limits.0, limits.1.saturating_sub(bytes));
                match group.become_classic_with_members(name, how, topics, limits, now) {
                    Some(records) => begun = records,
                    None => group.stay(topics, &mut records),
                }
            }
            group.is_on_disk |= !records.is_empty();
        }
        if records.is_empty() && begun.is_empty() {
            for then in then {
                // No offset is committed here, so no place in the log is needed.
                let _ = self.durable(then, Offset::ZERO, now);
            }
            return None;
        }
        let mut written = consumer_records(name, &records);
        written.extend(begun);
        Some(Entry::plain(written, then))
    }
}
