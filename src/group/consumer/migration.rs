//! A group that changes its protocol while it has members (KIP-848): from a classic group, and to
//! one when no member of the new protocol is left.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use super::ConsumerGroup;
use super::embedded::{self, EmbeddedError};
use super::epoch::Epoch;
use super::guests::classic_member;
use super::member::{
    CurrentAssignment, HeldPartitions, Member, MemberMetadata, MemberState, Partitions,
};
use super::record::{ConsumerRecord, GroupMetadata};
use super::settings::ConsumerSettings;
use super::topics::TopicsView;
use crate::group::classic::{Protocol, Roster, RosterMember};

/// Why a classic group stays one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpgradeError {
    Disabled,
    /// Its members are no consumers.
    OtherType,
    TooManyMembers,
    Malformed,
    /// An assignor of the clients' own keeps something in the assignments.
    CustomAssignor,
    /// Two members were given one partition.
    SharedPartition,
    /// Its records would not fit into one batch.
    TooLarge,
}

impl fmt::Display for UpgradeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            UpgradeError::Disabled => "group.consumer.migration.policy does not allow it",
            UpgradeError::OtherType => "its members are of another protocol type than consumer",
            UpgradeError::TooManyMembers => "it has more than group.consumer.max.size members",
            UpgradeError::Malformed => "a subscription or an assignment in it cannot be read",
            UpgradeError::CustomAssignor => {
                "its assignor keeps user data in the assignments, which would be lost; \
                 change to an assignor without first"
            }
            UpgradeError::SharedPartition => "two of its members are assigned one partition",
            UpgradeError::TooLarge => "its records do not fit into one batch",
        })
    }
}

/// What is to become of a group that only members of the classic protocol are left in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Downgrade {
    /// Every member has what it is to have, and nothing is left over.
    pub is_settled: bool,
}

/// What a member of a classic group said to own when it joined, and since when.
struct Claimed {
    generation: i32,
    partitions: Partitions,
}

impl ConsumerGroup {
    /// The group that a classic one becomes; its members go on with the classic protocol. Its epoch
    /// is the classic group's generation, and [`records`](ConsumerGroup::records) give all of it.
    ///
    /// # Errors
    /// [`UpgradeError`].
    pub fn from_classic(
        settings: ConsumerSettings,
        roster: Option<&Roster>,
        topics: &dyn TopicsView,
        now: u64,
    ) -> Result<ConsumerGroup, UpgradeError> {
        if !settings.migration.upgrades() {
            return Err(UpgradeError::Disabled);
        }
        let roster = roster.ok_or(UpgradeError::OtherType)?;
        if roster.members.len() > settings.members_max {
            return Err(UpgradeError::TooManyMembers);
        }
        let mut group = ConsumerGroup::new(settings);
        let epoch = Epoch::new(roster.generation);
        let mut claims = Vec::new();
        for member in &roster.members {
            let claimed = group.take_over(member, &roster.protocol, epoch, topics)?;
            claims.push((claimed, &member.member_id));
        }
        // Who owned a partition last owns it.
        claims.sort_by_key(|(claimed, _)| Reverse(claimed.generation));
        for (claimed, member) in claims {
            group.hold_claimed(member, &claimed.partitions, epoch);
        }
        group.state.apply(&ConsumerRecord::TargetAssignmentMetadata(Some(epoch)));
        let metadata_hash = group.subscribed_hash(topics);
        let metadata = GroupMetadata { epoch, metadata_hash };
        group.state.apply(&ConsumerRecord::GroupMetadata(Some(metadata)));
        group.loaded(now);
        group.soft.must_bump = !roster.is_settled || !group.has_an_owner_for_all(topics);
        Ok(group)
    }

    /// Whether all that members subscribe to by name is somebody's to have.
    fn has_an_owner_for_all(&self, topics: &dyn TopicsView) -> bool {
        let names = self.state.members.values().flat_map(|member| &member.metadata.topic_names);
        let names: BTreeSet<&Arc<str>> = names.collect();
        let facts = names.into_iter().filter_map(|name| topics.by_name(name));
        let all: u64 = facts.map(|facts| u64::from(facts.partitions)).sum();
        let given: usize = self.state.targets.values().map(Partitions::len).sum();
        u64::try_from(given).is_ok_and(|given| given >= all)
    }

    /// Makes a member of the classic group one of this; gives what it said to own when it joined.
    fn take_over(
        &mut self,
        from: &RosterMember,
        protocol: &str,
        epoch: Epoch,
        topics: &dyn TopicsView,
    ) -> Result<Claimed, UpgradeError> {
        let subscription = from.metadata(protocol).ok_or(UpgradeError::Malformed)?;
        let wanted = embedded::subscription(subscription, topics)?;
        let assigned = embedded::assignment(&from.assignment, topics)?;
        if assigned.iter().any(|partition| self.state.owners.contains_key(partition)) {
            return Err(UpgradeError::SharedPartition);
        }
        let metadata = MemberMetadata {
            instance_id: from.instance_id.clone(),
            rack_id: wanted.rack_id,
            client_id: from.client_id.clone(),
            client_host: from.client_host.clone(),
            topic_names: wanted.topic_names,
            topic_regex: None,
            rebalance_timeout_ms: from.rebalance_timeout_ms,
            server_assignor: None,
            classic: Some(classic_member(from.session_timeout_ms, &from.protocols)),
        };
        let current = CurrentAssignment {
            epoch,
            previous_epoch: epoch,
            state: MemberState::Stable,
            assigned: assigned.iter().map(|partition| (*partition, epoch)).collect(),
            revoking: Default::default(),
        };
        let member = || from.member_id.clone();
        let (metadata, current) = (Some(metadata), Some(current));
        self.state.apply(&ConsumerRecord::MemberMetadata { member: member(), value: metadata });
        let target = Some(assigned);
        self.state
            .apply(&ConsumerRecord::TargetAssignmentMember { member: member(), value: target });
        self.state
            .apply(&ConsumerRecord::CurrentMemberAssignment { member: member(), value: current });
        Ok(Claimed { generation: wanted.generation, partitions: wanted.owned })
    }

    /// A member of a cooperative assignor reads on what it owned when it joined, though the group
    /// has given it less, or nothing yet: it is to let go of that first.
    fn hold_claimed(&mut self, member: &Arc<str>, claimed: &Partitions, epoch: Epoch) {
        let owners = &self.state.owners;
        let free = claimed.iter().filter(|partition| !owners.contains_key(*partition));
        let revoking: HeldPartitions = free.map(|partition| (*partition, epoch)).collect();
        let Some(known) = self.state.members.get(member) else { return };
        if revoking.is_empty() {
            return;
        }
        let state = MemberState::UnrevokedPartitions;
        let value = Some(CurrentAssignment { state, revoking, ..known.current.clone() });
        let member = member.clone();
        self.state.apply(&ConsumerRecord::CurrentMemberAssignment { member, value });
    }

    /// Members were removed: the group goes on with another epoch, unless only members of the
    /// classic protocol are left and whoever drives it makes it a classic group.
    pub(super) fn go_on_without(
        &mut self,
        has_new_protocol_left: bool,
        topics: &dyn TopicsView,
        records: &mut Vec<ConsumerRecord>,
    ) {
        if has_new_protocol_left && self.is_for_classic_members() {
            self.soft.downgrade = Some(Downgrade { is_settled: false });
        } else {
            self.bump_epoch_if(true, topics, records);
        }
    }

    /// A member of the classic protocol took the place of one of the new protocol, with all its
    /// partitions.
    pub(super) fn look_whether_classic_members_are_left(&mut self) {
        if !self.is_for_classic_members() {
            return;
        }
        let state = &self.state;
        let has_target = |(id, member): (&Arc<str>, &Member)| {
            let target = state.targets.get(id);
            let target = target.into_iter().flatten();
            member.is_reconciled_to(state.epoch) && member.current.assigned.keys().eq(target)
        };
        let is_settled = state.members.iter().all(has_target);
        self.soft.downgrade = Some(Downgrade { is_settled });
    }

    fn is_for_classic_members(&self) -> bool {
        let members = &self.state.members;
        self.settings.migration.downgrades()
            && !members.is_empty()
            && members.len() <= self.settings.classic_members_max
            && members.values().all(Member::uses_classic_protocol)
    }

    /// Whether the last call left members of the classic protocol alone, so that the group is to
    /// become theirs. If it does not, [`stay`](ConsumerGroup::stay) is to be called.
    pub fn take_downgrade(&mut self) -> Option<Downgrade> {
        self.soft.downgrade.take()
    }

    /// Goes on as a group of the new protocol, though no member uses it.
    pub fn stay(&mut self, topics: &dyn TopicsView, records: &mut Vec<ConsumerRecord>) {
        self.bump_epoch_if(true, topics, records);
    }

    /// The group as its members of the classic protocol know it, each with all that it may use still:
    /// what others were to get of it nobody has. `None` when there are other members, or when these
    /// have nothing in common.
    pub fn roster(
        &self,
        Downgrade { is_settled }: Downgrade,
        topics: &dyn TopicsView,
    ) -> Option<Roster> {
        let state = &self.state;
        let (_, first) = state.members.first_key_value()?;
        let mut names = first.metadata.classic.as_ref()?.protocols.iter().map(|(name, _)| name);
        let protocol = names.find(|name| self.all_guests_follow(name))?.clone();
        let one = |(id, member): (&Arc<str>, &Member)| {
            let classic = member.metadata.classic.as_ref()?;
            let mut seen = BTreeSet::new();
            let all = classic.protocols.iter().filter(|(name, _)| seen.insert(name));
            let protocols = all.map(|(name, metadata)| Protocol {
                name: name.clone(),
                metadata: Bytes::copy_from_slice(metadata),
            });
            let protocols: Vec<Protocol> = protocols.collect();
            let (_, subscription) = classic.protocols.iter().find(|(name, _)| *name == protocol)?;
            let held: Partitions = member.current.held().copied().collect();
            Some(RosterMember {
                member_id: id.clone(),
                instance_id: member.metadata.instance_id.clone(),
                client_id: member.metadata.client_id.clone(),
                client_host: member.metadata.client_host.clone(),
                rebalance_timeout_ms: member.metadata.rebalance_timeout_ms,
                session_timeout_ms: classic.session_timeout_ms,
                assignment: embedded::assignment_bytes(&held, subscription, topics).ok()?,
                protocols,
            })
        };
        let members = state.members.iter().map(one).collect::<Option<Vec<RosterMember>>>()?;
        let generation = state.epoch.get();
        Some(Roster { generation, protocol, is_settled, members })
    }
}

impl From<EmbeddedError> for UpgradeError {
    fn from(error: EmbeddedError) -> UpgradeError {
        match error {
            EmbeddedError::Malformed => UpgradeError::Malformed,
            EmbeddedError::HasUserData => UpgradeError::CustomAssignor,
        }
    }
}

#[cfg(test)]
#[path = "migration_tests.rs"]
mod tests;
