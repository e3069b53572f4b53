//! What of a group is on disk: its record in `__consumer_offsets`, in plain form.

use bytes::Bytes;
use millstream_io::units::TimestampMs;

use super::calls::{JoinRequest, JoinRules, Name, Protocol};
use super::limits::ENTRY_BYTES;
use super::members::Member;
use super::{ClassicGroup, Now, Settings, State};

/// Content of a group's record (Kafka's `GroupMetadataValue`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSnapshot {
    /// None for a group of offsets alone: on disk empty.
    pub protocol_type: Option<Name>,
    pub generation: i32,
    pub protocol: Option<Name>,
    /// None when nobody has made the members' assignment: they are to join again.
    pub leader: Option<Name>,
    /// When the state began; none in records of versions 0 and 1 (-1 on disk).
    pub state_since: Option<TimestampMs>,
    pub members: Vec<MemberSnapshot>,
}

/// A member in its group's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberSnapshot {
    pub member_id: Name,
    pub instance_id: Option<Name>,
    pub client_id: Name,
    pub client_host: Name,
    pub rebalance_timeout_ms: i32,
    pub session_timeout_ms: i32,
    /// What it wants under the group's protocol.
    pub subscription: Bytes,
    pub assignment: Bytes,
}

impl<W> ClassicGroup<W> {
    /// The group as its next record would have it, an assignment that is being stored included.
    /// Only a group that is Empty, Stable or about to be is ever stored.
    pub fn snapshot(&self) -> GroupSnapshot {
        let one = |(id, member): (&Name, &Member<W>)| MemberSnapshot {
            member_id: id.clone(),
            instance_id: member.instance_id.clone(),
            client_id: member.client_id.clone(),
            client_host: member.client_host.clone(),
            rebalance_timeout_ms: member.rebalance_timeout_ms,
            session_timeout_ms: member.session_timeout_ms,
            subscription: member.metadata(self.protocol.as_deref()),
            assignment: self.assignment_to_store(id, member).clone(),
        };
        GroupSnapshot {
            protocol_type: self.protocol_type.clone(),
            generation: self.generation,
            protocol: self.protocol.clone(),
            leader: self.leader.clone(),
            state_since: self.state_since,
            members: self.members.iter().map(one).collect(),
        }
    }

    /// A group from its record: Stable with members, which get a fresh session each, else Empty.
    /// With more than `group.max.size` of them, or when the record names no leader, it rebalances at
    /// once. Ids that stand twice count once.
    pub fn restore(settings: Settings, snapshot: GroupSnapshot, now: Now) -> ClassicGroup<W> {
        let mut group = ClassicGroup::new(settings, now);
        group.is_on_disk = true;
        group.generation = snapshot.generation;
        group.protocol_type = snapshot.protocol_type.filter(|name| !name.is_empty());
        group.protocol = snapshot.protocol;
        group.state_since = snapshot.state_since;
        for member in snapshot.members {
            group.restore_member(member, now);
        }
        let has_no_leader = snapshot.leader.is_none();
        let is_member = |id: &Name| group.members.contains(id);
        group.leader = snapshot.leader.filter(is_member);
        if group.members.is_empty() {
            group.protocol = None;
            return group;
        }
        group.state = State::Stable;
        if has_no_leader || group.members.len() > group.settings.size_max {
            group.lead_and_rebalance(now);
        } else if group.leader.is_none() {
            group.leader = group.members.ids().into_iter().next();
        }
        group
    }

    fn restore_member(&mut self, stored: MemberSnapshot, now: Now) {
        let is_double = stored.instance_id.as_deref().and_then(|i| self.members.of_instance(i));
        if is_double.is_some() || self.members.contains(&stored.member_id) {
            return;
        }
        let name = self.protocol.clone().unwrap_or_default();
        let member = Member::new(JoinRequest {
            member_id: stored.member_id.clone(),
            instance_id: stored.instance_id,
            client_id: stored.client_id,
            client_host: stored.client_host,
            session_timeout_ms: stored.session_timeout_ms,
            rebalance_timeout_ms: stored.rebalance_timeout_ms,
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            protocols: vec![Protocol { name, metadata: stored.subscription }],
            new_member_uuid: Name::from(""),
            rules: JoinRules::of_version(0),
        });
        self.members.insert(stored.member_id.clone(), member.known(stored.assignment));
        self.start_session(&stored.member_id, now);
    }

    /// About how large the group's record is.
    pub(super) fn record_bytes(&self) -> usize {
        let own = [&self.protocol_type, &self.protocol, &self.leader];
        let own: usize = own.iter().map(|name| name.as_ref().map_or(0, |n| n.len())).sum();
        let one = |(id, member): (&Name, &Member<W>)| {
            let names = id.len() + member.client_id.len() + member.client_host.len();
            let instance = member.instance_id.as_ref().map_or(0, |i| i.len());
            let subscription = member.metadata(self.protocol.as_deref()).len();
            let assignment = self.assignment_to_store(id, member).len();
            names + instance + subscription + assignment + ENTRY_BYTES
        };
        own + ENTRY_BYTES + self.members.iter().map(one).sum::<usize>()
    }

    fn assignment_to_store<'a>(&'a self, id: &Name, member: &'a Member<W>) -> &'a Bytes {
        let storing = self.storing.as_ref().and_then(|storing| storing.assignments.get(id));
        storing.unwrap_or_else(|| member.assignment())
    }
}

#[cfg(test)]
#[path = "snapshot_tests.rs"]
mod tests;
