//! A group with all that its members said, for a change of its protocol (KIP-848): unlike a record,
//! it has every protocol that a member follows.

use bytes::Bytes;

use super::calls::{JoinRequest, JoinRules, Name, Protocol};
use super::describe::CONSUMER_PROTOCOL_TYPE;
use super::members::Member;
use super::{ClassicGroup, GroupSnapshot, Now, Outcome, Settings, State};

/// A group of consumers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roster {
    pub generation: i32,
    /// One that all members follow.
    pub protocol: Name,
    /// Its assignment was made for these members.
    pub is_settled: bool,
    pub members: Vec<RosterMember>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RosterMember {
    pub member_id: Name,
    pub instance_id: Option<Name>,
    pub client_id: Name,
    pub client_host: Name,
    pub rebalance_timeout_ms: i32,
    pub session_timeout_ms: i32,
    pub protocols: Vec<Protocol>,
    pub assignment: Bytes,
}

impl RosterMember {
    /// What it wants under a protocol.
    pub fn metadata(&self, protocol: &str) -> Option<&Bytes> {
        let found = self.protocols.iter().find(|one| *one.name == *protocol);
        found.map(|one| &one.metadata)
    }
}

impl<W> ClassicGroup<W> {
    /// `None` for a group without members, and for one whose members are no consumers.
    pub fn roster(&self) -> Option<Roster> {
        if self.members.is_empty() || self.protocol_type() != Some(CONSUMER_PROTOCOL_TYPE) {
            return None;
        }
        // While members rejoin, some may have given up what the last generation followed.
        let protocol = self.protocol.clone().filter(|protocol| self.members.all_follow(protocol));
        let one = |(id, member): (&Name, &Member<W>)| RosterMember {
            member_id: id.clone(),
            instance_id: member.instance_id.clone(),
            client_id: member.client_id.clone(),
            client_host: member.client_host.clone(),
            rebalance_timeout_ms: member.rebalance_timeout_ms,
            session_timeout_ms: member.session_timeout_ms,
            protocols: member.protocols().to_vec(),
            assignment: member.assignment().clone(),
        };
        Some(Roster {
            generation: self.generation,
            is_settled: self.state == State::Stable,
            protocol: protocol.or_else(|| self.members.choose_protocol())?,
            members: self.members.iter().map(one).collect(),
        })
    }

    /// A group of these members with its record, which is to be written. Unless it is settled, they
    /// are asked to join again, also when the group is restored from that record: it names no leader
    /// then.
    ///
    /// # Panics
    /// When the members do not all follow the roster's protocol.
    pub fn found(settings: Settings, roster: Roster, now: Now) -> (ClassicGroup<W>, GroupSnapshot) {
        let mut group = ClassicGroup::new(settings, now);
        group.is_on_disk = true;
        group.generation = roster.generation;
        group.protocol_type = Some(Name::from(CONSUMER_PROTOCOL_TYPE));
        for member in roster.members {
            let id = member.member_id.clone();
            let assignment = member.assignment.clone();
            group.members.insert(id.clone(), Member::new(as_join(member)).known(assignment));
            group.start_session(&id, now);
        }
        // The most wanted one, which may be another than the roster's.
        assert!(group.members.all_follow(&roster.protocol), "not all follow {}", roster.protocol);
        group.protocol = group.members.choose_protocol();
        group.state = State::Stable;
        let first = group.members.ids().into_iter().next();
        group.leader = first.filter(|_| roster.is_settled);
        let snapshot = group.snapshot();
        if !roster.is_settled {
            group.lead_and_rebalance(now);
        }
        (group, snapshot)
    }

    /// A stable group without a leader: nobody has made its assignment, so all join again.
    pub(super) fn lead_and_rebalance(&mut self, now: Now) {
        if self.leader.is_none() {
            self.leader = self.members.ids().into_iter().next();
        }
        let mut out = Outcome::nothing();
        self.begin_rebalance(now, &mut out);
        assert!(out.answers.is_empty(), "{} wait in a new group", out.answers.len());
    }

    /// The protocol of the generation.
    pub fn protocol(&self) -> Option<&Name> {
        self.protocol.as_ref()
    }
}

fn as_join(member: RosterMember) -> JoinRequest {
    JoinRequest {
        member_id: member.member_id,
        instance_id: member.instance_id,
        client_id: member.client_id,
        client_host: member.client_host,
        session_timeout_ms: member.session_timeout_ms,
        rebalance_timeout_ms: member.rebalance_timeout_ms,
        protocol_type: Name::from(CONSUMER_PROTOCOL_TYPE),
        protocols: member.protocols,
        new_member_uuid: Name::from(""),
        rules: JoinRules::of_version(0),
    }
}

#[cfg(test)]
#[path = "roster_tests.rs"]
mod tests;
