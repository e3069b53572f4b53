//! The members of a group, and what is counted over them.

use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};

use super::Caller;
use super::calls::{JoinRequest, JoinedMember, Name, Protocol};
use super::limits::ENTRY_BYTES;
use crate::wire::error_code::ErrorCode;

/// One member. What is counted over all members changes through [`Members`] only.
#[derive(Debug)]
pub(super) struct Member<W> {
    pub instance_id: Option<Name>,
    pub client_id: Name,
    pub client_host: Name,
    pub rebalance_timeout_ms: i32,
    pub session_timeout_ms: i32,
    /// When its session ends, unless it waits for an answer.
    pub expires: u64,
    /// True until its first join is answered.
    pub is_new: bool,
    protocols: Vec<Protocol>,
    assignment: Bytes,
    joining: Option<W>,
    syncing: Option<W>,
    has_to_sync: bool,
}

/// Who waited for a member that is no longer there.
pub(super) struct Waiters<W> {
    pub join: Option<W>,
    pub sync: Option<W>,
}

impl<W> Member<W> {
    pub fn new(request: JoinRequest) -> Member<W> {
        Member {
            instance_id: request.instance_id,
            client_id: request.client_id,
            client_host: request.client_host,
            rebalance_timeout_ms: request.rebalance_timeout_ms,
            session_timeout_ms: request.session_timeout_ms,
            expires: 0,
            is_new: true,
            protocols: request.protocols,
            assignment: Bytes::new(),
            joining: None,
            syncing: None,
            has_to_sync: false,
        }
    }

    /// A member of the log's: known, and with its share.
    pub fn known(self, assignment: Bytes) -> Member<W> {
        Member { assignment, is_new: false, ..self }
    }

    pub fn is_joining(&self) -> bool {
        self.joining.is_some()
    }

    pub fn is_syncing(&self) -> bool {
        self.syncing.is_some()
    }

    pub fn has_to_sync(&self) -> bool {
        self.has_to_sync
    }

    pub fn protocols(&self) -> &[Protocol] {
        &self.protocols
    }

    pub fn assignment(&self) -> &Bytes {
        &self.assignment
    }

    /// What it wants under a protocol; empty when it does not follow that.
    pub fn metadata(&self, protocol: Option<&str>) -> Bytes {
        let wanted = self.protocols.iter().find(|p| Some(&*p.name) == protocol);
        wanted.map(|p| p.metadata.clone()).unwrap_or_default()
    }

    /// When its session ends. One that waits is alive; but a wait of a new member ends, too.
    pub fn session_end(&self) -> Option<u64> {
        let is_alive = (self.is_joining() || self.is_syncing()) && !self.is_new;
        if is_alive { None } else { Some(self.expires) }
    }

    fn bytes(&self, id: &Name) -> usize {
        let names = [id.len(), self.client_id.len(), self.client_host.len()];
        let instance = self.instance_id.as_ref().map_or(0, |i| i.len() + ENTRY_BYTES);
        names.iter().sum::<usize>()
            + instance
            + protocol_bytes(&self.protocols)
            + self.assignment.len()
            + ENTRY_BYTES
    }
}

/// Memory of a member's protocols.
pub(super) fn protocol_bytes(protocols: &[Protocol]) -> usize {
    protocols.iter().map(|p| p.name.len() + p.metadata.len() + ENTRY_BYTES).sum()
}

/// A timeout of a client's; a negative one ends at once.
pub(super) fn timeout_ms(ms: i32) -> u64 {
    u64::from(ms.max(0).unsigned_abs())
}

/// All members of a group, by id.
#[derive(Debug)]
pub(super) struct Members<W> {
    all: BTreeMap<Name, Member<W>>,
    /// Static members: instance id to member id.
    instances: BTreeMap<Name, Name>,
    /// How many members follow a protocol, for those that anybody follows.
    supporters: BTreeMap<Name, usize>,
    joining: usize,
    unsynced: usize,
    bytes: usize,
}

impl<W> Members<W> {
    pub fn new() -> Members<W> {
        Members {
            all: BTreeMap::new(),
            instances: BTreeMap::new(),
            supporters: BTreeMap::new(),
            joining: 0,
            unsynced: 0,
            bytes: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Members that wait for the answer to a join.
    pub fn joining(&self) -> usize {
        self.joining
    }

    /// Members that have not synced since their join was answered.
    pub fn unsynced(&self) -> usize {
        self.unsynced
    }

    /// Memory of all of them.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn contains(&self, id: &str) -> bool {
        self.all.contains_key(id)
    }

    pub fn get(&self, id: &str) -> Option<&Member<W>> {
        self.all.get(id)
    }

    pub fn get_mut(&mut self, id: &str) -> Option<&mut Member<W>> {
        self.all.get_mut(id)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Name, &Member<W>)> {
        self.all.iter()
    }

    pub fn ids(&self) -> Vec<Name> {
        self.all.keys().cloned().collect()
    }

    pub fn ids_of(&self, mut is_meant: impl FnMut(&Member<W>) -> bool) -> Vec<Name> {
        let meant = self.all.iter().filter(|(_, member)| is_meant(member));
        meant.map(|(id, _)| id.clone()).collect()
    }

    /// The member that has an instance id now.
    pub fn of_instance(&self, instance_id: &str) -> Option<&Name> {
        self.instances.get(instance_id)
    }

    /// # Errors
    /// UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID when another has the instance id.
    pub fn check(&self, caller: Caller<'_>) -> Result<(), ErrorCode> {
        if let Some(instance_id) = caller.instance_id {
            match self.of_instance(instance_id) {
                None => return Err(ErrorCode::UnknownMemberId),
                Some(id) if **id != *caller.member_id => return Err(ErrorCode::FencedInstanceId),
                Some(_) => {}
            }
        }
        if self.contains(caller.member_id) { Ok(()) } else { Err(ErrorCode::UnknownMemberId) }
    }

    /// # Panics
    /// When the id or the instance id is taken.
    pub fn insert(&mut self, id: Name, member: Member<W>) {
        if let Some(instance_id) = &member.instance_id {
            let former = self.instances.insert(instance_id.clone(), id.clone());
            assert!(former.is_none(), "{instance_id} of {id} belongs to {former:?} still");
        }
        self.count(&id, &member);
        let former = self.all.insert(id.clone(), member);
        assert!(former.is_none(), "member id {id} is taken");
    }

    pub fn remove(&mut self, id: &str) -> Option<Waiters<W>> {
        let (id, member) = self.all.remove_entry(id)?;
        self.discount(&id, &member);
        if let Some(instance_id) = &member.instance_id {
            self.instances.remove(instance_id);
        }
        Some(Waiters { join: member.joining, sync: member.syncing })
    }

    /// Gives a member another id; who waited for the old one is told apart. Nothing when there is
    /// no such member.
    pub fn rename(&mut self, id: &str, new_id: Name) -> Option<Waiters<W>> {
        let (id, mut member) = self.all.remove_entry(id)?;
        self.discount(&id, &member);
        if let Some(instance_id) = &member.instance_id {
            self.instances.remove(instance_id);
        }
        let waiters = Waiters { join: member.joining.take(), sync: member.syncing.take() };
        member.is_new = false;
        self.insert(new_id, member);
        Some(waiters)
    }

    /// Takes over what a member that joins again says of itself.
    pub fn update(&mut self, id: &Name, request: JoinRequest) {
        let Some(mut member) = self.all.remove(id) else { return };
        self.discount(id, &member);
        member.client_id = request.client_id;
        member.client_host = request.client_host;
        member.rebalance_timeout_ms = request.rebalance_timeout_ms;
        member.session_timeout_ms = request.session_timeout_ms;
        member.protocols = request.protocols;
        self.count(id, &member);
        self.all.insert(id.clone(), member);
    }

    pub fn set_assignment(&mut self, id: &str, assignment: Bytes) {
        let Some(member) = self.all.get_mut(id) else { return };
        self.bytes = self.bytes - member.assignment.len() + assignment.len();
        member.assignment = assignment;
    }

    /// The member waits for the answer to a join. Gives back who waited before.
    pub fn wait_for_join(&mut self, id: &str, waiter: W) -> Option<W> {
        let member = self.known(id);
        let former = member.joining.replace(waiter);
        self.joining += usize::from(former.is_none());
        former
    }

    pub fn take_join(&mut self, id: &str) -> Option<W> {
        let waiter = self.all.get_mut(id)?.joining.take()?;
        self.joining -= 1;
        Some(waiter)
    }

    /// The member waits for the answer to a sync. Gives back who waited before.
    pub fn wait_for_sync(&mut self, id: &str, waiter: W) -> Option<W> {
        self.known(id).syncing.replace(waiter)
    }

    pub fn take_sync(&mut self, id: &str) -> Option<W> {
        self.all.get_mut(id)?.syncing.take()
    }

    pub fn all_have_to_sync(&mut self) {
        self.all.values_mut().for_each(|member| member.has_to_sync = true);
        self.unsynced = self.all.len();
    }

    pub fn nobody_has_to_sync(&mut self) {
        self.all.values_mut().for_each(|member| member.has_to_sync = false);
        self.unsynced = 0;
    }

    pub fn has_synced(&mut self, id: &str) {
        let member = self.known(id);
        let was_due = std::mem::take(&mut member.has_to_sync);
        self.unsynced -= usize::from(was_due);
    }

    /// The largest rebalance timeout.
    pub fn rebalance_timeout_ms(&self) -> u64 {
        self.all.values().map(|m| timeout_ms(m.rebalance_timeout_ms)).max().unwrap_or(0)
    }

    /// True when all members follow one of `protocols`.
    pub fn share_one_of(&self, protocols: &[Protocol]) -> bool {
        protocols.iter().any(|p| self.is_common(&p.name))
    }

    pub fn all_follow(&self, protocol: &str) -> bool {
        self.is_common(protocol)
    }

    /// The protocol that all follow and most members like best; among equals the first by name.
    /// None without members.
    ///
    /// # Panics
    /// When members have no protocol in common: none is taken in that would make it so.
    pub fn choose_protocol(&self) -> Option<Name> {
        let mut votes: BTreeMap<&Name, usize> = BTreeMap::new();
        for (id, member) in &self.all {
            match member.protocols.iter().find(|p| self.is_common(&p.name)) {
                Some(best) => *votes.entry(&best.name).or_default() += 1,
                None => panic!("member {id} shares none of {:?}", self.supporters),
            }
        }
        let most = votes.values().max().copied();
        votes.into_iter().find(|(_, count)| Some(*count) == most).map(|(name, _)| name.clone())
    }

    /// All members with what they want under a protocol, for the leader.
    pub fn as_leader_sees(&self, protocol: Option<&str>) -> Vec<JoinedMember> {
        let one = |(id, member): (&Name, &Member<W>)| JoinedMember {
            member_id: id.clone(),
            instance_id: member.instance_id.clone(),
            metadata: member.metadata(protocol),
        };
        self.all.iter().map(one).collect()
    }

    fn is_common(&self, protocol: &str) -> bool {
        self.supporters.get(protocol).copied().unwrap_or(0) == self.all.len()
    }

    fn known(&mut self, id: &str) -> &mut Member<W> {
        match self.all.get_mut(id) {
            Some(member) => member,
            None => panic!("{id} is no member"),
        }
    }

    fn count(&mut self, id: &Name, member: &Member<W>) {
        for protocol in &member.protocols {
            *self.supporters.entry(protocol.name.clone()).or_default() += 1;
        }
        self.joining += usize::from(member.is_joining());
        self.unsynced += usize::from(member.has_to_sync);
        self.bytes += member.bytes(id);
    }

    fn discount(&mut self, id: &Name, member: &Member<W>) {
        for protocol in &member.protocols {
            if let Some(count) = self.supporters.get_mut(&protocol.name) {
                *count -= 1;
                if *count == 0 {
                    self.supporters.remove(&protocol.name);
                }
            }
        }
        self.joining -= usize::from(member.is_joining());
        self.unsynced -= usize::from(member.has_to_sync);
        self.bytes -= member.bytes(id);
    }
}

/// A list of protocols in which each name stands once: its first entry counts.
pub(super) fn without_doubles(mut protocols: Vec<Protocol>) -> Vec<Protocol> {
    let mut seen = BTreeSet::new();
    protocols.retain(|protocol| seen.insert(protocol.name.clone()));
    protocols
}

#[cfg(test)]
impl<W> Members<W> {
    /// The counts are those of a fresh count.
    pub fn assert_sound(&self) {
        let count = |is: fn(&Member<W>) -> bool| self.all.values().filter(|m| is(m)).count();
        assert_eq!(self.joining, count(Member::is_joining));
        assert_eq!(self.unsynced, count(Member::has_to_sync));
        assert_eq!(self.bytes, self.all.iter().map(|(id, m)| m.bytes(id)).sum::<usize>());
        assert_eq!(self.instances.len(), count(|m| m.instance_id.is_some()));
        for (instance_id, id) in &self.instances {
            assert_eq!(self.all[id].instance_id.as_ref(), Some(instance_id));
        }
        let followed: usize = self.all.values().map(|m| m.protocols.len()).sum();
        assert_eq!(self.supporters.values().sum::<usize>(), followed);
    }
}
