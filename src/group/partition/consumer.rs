//! Heartbeats of the consumer protocol (KIP-848).

use super::super::ask::ConsumerHeartbeat;
use super::super::consumer::{Caller, ConsumerGroup, ConsumerRecord};
use super::group::consumer_records;
use super::*;
use crate::wire::messages::consumer_group_heartbeat::ConsumerGroupHeartbeatRequest;
use crate::wire::{Message, Reader};

type Reply = Promise<Result<HeartbeatAnswer, Refusal>>;

impl GroupPartition {
    /// Takes a heartbeat. A group that has members of the classic protocol is none of ours.
    pub(super) fn consumer_heartbeat(
        &mut self,
        name: &Name,
        beat: &ConsumerHeartbeat,
        reply: Reply,
        topics: &dyn TopicsView,
        now: Now,
    ) -> Option<Entry> {
        match self.beat(name, beat, topics, now) {
            Ok((answer, before, records)) => {
                let mut entry = Entry { records: before, then: Vec::new() };
                match self.consumer_entry(name, &records, Some((reply, answer))) {
                    Some(Entry { records, then }) => {
                        entry.records.extend(records);
                        entry.then.extend(then);
                        Some(entry)
                    }
                    None if entry.records.is_empty() => None,
                    None => Some(entry),
                }
            }
            Err(refusal) => {
                let _ = reply.send(Err(refusal));
                None
            }
        }
    }

    fn beat(
        &mut self,
        name: &Name,
        beat: &ConsumerHeartbeat,
        topics: &dyn TopicsView,
        now: Now,
    ) -> Result<(HeartbeatAnswer, Vec<NewRecord>, Vec<ConsumerRecord>), Refusal> {
        let mut reader = Reader::new(&beat.body);
        let request = ConsumerGroupHeartbeatRequest::decode(&mut reader, beat.version)
            .map_err(|_| Refusal::from(ErrorCode::InvalidRequest))?;
        let settings = self.settings.consumer.clone();
        let caller = Caller {
            version: beat.version,
            client_id: &beat.client_id,
            client_host: &beat.client_host,
            fresh_member_id: &beat.fresh_member_id,
        };
        let is_join = request.member_epoch == 0;
        let kind = self.groups.get(name).map(|group| &group.kind);
        if !matches!(kind, Some(Kind::Consumer(_))) {
            // A join that is refused must not make or change a group: an empty one is asked first.
            let asked = ConsumerGroup::new(settings.clone());
            if let Err(refusal) = first_heartbeat(asked, &request, &caller, topics, now) {
                return Err(if is_join || is_malformed(refusal.code) {
                    refusal
                } else {
                    missing(name)
                });
            }
            if !is_join {
                return Err(missing(name));
            }
            if kind.is_none() && self.groups.len() >= GROUPS_PER_PARTITION_MAX {
                return Err(ErrorCode::CoordinatorNotAvailable.into());
            }
        }
        let group = self.group_or_new(name, now);
        let before = match &group.kind {
            Kind::Consumer(_) => Vec::new(),
            Kind::Classic(_) if is_join => {
                group.become_consumer(name, &settings).ok_or_else(|| missing(name))?
            }
            Kind::Classic(_) => return Err(missing(name)),
        };
        let Kind::Consumer(consumer) = &mut group.kind else {
            panic!("group {name:?} did not become one of the consumer protocol");
        };
        match consumer.heartbeat(&request, &caller, topics, now.ms) {
            Ok((answer, records)) => Ok((answer, before, records)),
            Err(error) => {
                assert!(
                    before.is_empty(),
                    "{name:?} changed its protocol for a join that is refused"
                );
                Err(Refusal { code: error.code(), message: error.to_string() })
            }
        }
    }

    /// The entry for records of a group; an answer that rests on nothing new is sent at once.
    pub(super) fn consumer_entry(
        &mut self,
        name: &Name,
        records: &[ConsumerRecord],
        answer: Option<(Reply, HeartbeatAnswer)>,
    ) -> Option<Entry> {
        if records.is_empty() {
            if let Some((reply, answer)) = answer {
                let _ = reply.send(Ok(answer));
            }
            return None;
        }
        if let Some(group) = self.groups.get_mut(name) {
            group.is_on_disk = true;
        }
        let then = answer.into_iter().map(|(reply, answer)| Then::Beat(reply, answer)).collect();
        Some(Entry { records: consumer_records(name, records), then })
    }
}

/// What a group without members says to a heartbeat.
fn first_heartbeat(
    mut empty: ConsumerGroup,
    request: &ConsumerGroupHeartbeatRequest<'_>,
    caller: &Caller<'_>,
    topics: &dyn TopicsView,
    now: Now,
) -> Result<(), Refusal> {
    match empty.heartbeat(request, caller, topics, now.ms) {
        Ok(_) => Ok(()),
        Err(error) => Err(Refusal { code: error.code(), message: error.to_string() }),
    }
}

/// Whether a request is refused for what it says, whatever the group.
fn is_malformed(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::InvalidRequest | ErrorCode::UnsupportedAssignor)
}

fn missing(name: &str) -> Refusal {
    Refusal {
        code: ErrorCode::GroupIdNotFound,
        message: format!("Group {name} is no consumer group."),
    }
}
