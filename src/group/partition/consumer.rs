//! Heartbeats of the consumer protocol (KIP-848).

use super::super::ask::ConsumerHeartbeat;
use super::super::consumer::{Caller, ConsumerGroup, ConsumerRecord, HeartbeatError, UpgradeError};
use super::super::topics::Searched;
use super::group::consumer_records;
use super::*;
use crate::wire::messages::consumer_group_heartbeat::ConsumerGroupHeartbeatRequest;
use crate::wire::{Message, Reader};

type Reply = Promise<Result<HeartbeatAnswer, Refusal>>;

impl GroupPartition {
    /// Takes a heartbeat. One that joins a classic group makes that one of ours, if it may.
    pub(super) fn consumer_heartbeat(
        &mut self,
        name: &Name,
        beat: &ConsumerHeartbeat,
        reply: Reply,
        topics: &dyn TopicsView,
        now: Now,
    ) -> Option<Entry> {
        match self.beat(name, beat, topics, now) {
            Ok(Beaten { mut before, answer, records }) => {
                let then = vec![Then::Beat(reply, answer)];
                if let Some(entry) = self.consumer_entry(name, records, then, topics, now) {
                    before.records.extend(entry.records);
                    before.then.extend(entry.then);
                }
                (!before.records.is_empty()).then_some(before)
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
    ) -> Result<Beaten, Refusal> {
        let mut reader = Reader::new(&beat.body);
        let request = ConsumerGroupHeartbeatRequest::decode(&mut reader, beat.version)
            .map_err(|_| Refusal::from(ErrorCode::InvalidRequest))?;
        let caller = Caller {
            version: beat.version,
            client_id: &beat.client_id,
            client_host: &beat.client_host,
            fresh_member_id: &beat.fresh_member_id,
        };
        let searched = beat.searcher.as_ref().map(|by| Searched { topics, by });
        let topics = searched.as_ref().map_or(topics, |searched| searched as &dyn TopicsView);
        let times = self.member_times(name);
        if let Some(Group { kind: Kind::Consumer(consumer), .. }) = self.groups.get_mut(name) {
            consumer.set_times(times);
            let beaten = consumer.heartbeat(&request, &caller, topics, now.ms);
            let (answer, records) = beaten.map_err(refusal)?;
            return Ok(Beaten { before: Entry::default(), answer, records });
        }
        self.first_beat(name, &request, &caller, topics, now)
    }

    /// The group's own times, or the broker's.
    pub(super) fn member_times(&self, name: &Name) -> MemberTimes {
        match self.configs.in_force(name) {
            Some(config) => MemberTimes {
                session_timeout_ms: config.session_ms,
                heartbeat_interval_ms: config.heartbeat_ms,
            },
            None => self.settings.consumer.times,
        }
    }

    /// A heartbeat where no group of the consumer protocol is. One that is refused neither makes nor
    /// changes a group.
    fn first_beat(
        &mut self,
        name: &Name,
        request: &ConsumerGroupHeartbeatRequest<'_>,
        caller: &Caller<'_>,
        topics: &dyn TopicsView,
        now: Now,
    ) -> Result<Beaten, Refusal> {
        let times = self.member_times(name);
        let settings = &ConsumerSettings { times, ..self.settings.consumer.clone() };
        let is_join = request.member_epoch == 0;
        let mut consumer = ConsumerGroup::new(settings.clone());
        let (mut answer, mut records) = match consumer.heartbeat(request, caller, topics, now.ms) {
            Ok(_) if !is_join => return Err(missing(name)),
            Ok(beaten) => beaten,
            Err(error) if is_join || is_malformed(error.code()) => return Err(refusal(error)),
            Err(_) => return Err(missing(name)),
        };
        match self.groups.get(name) {
            None if self.groups.len() >= GROUPS_PER_PARTITION_MAX => {
                return Err(ErrorCode::CoordinatorNotAvailable.into());
            }
            Some(group) if group.has_members() => {
                let stays = |error| stays_classic(name, error);
                consumer = group.upgraded(settings, topics, now).map_err(stays)?;
                let begun = consumer.records();
                let beaten = consumer.heartbeat(request, caller, topics, now.ms);
                (answer, records) = beaten.map_err(refusal)?;
                records.splice(0..0, begun);
                let bytes = consumer_records(name, &records);
                let bytes: usize = bytes.iter().map(NewRecord::bytes_max).sum();
                if bytes + ROOM_FOR_A_TOMBSTONE > self.append_bytes_max {
                    return Err(stays(UpgradeError::TooLarge));
                }
            }
            Some(_) | None => {}
        }
        let before = self.group_or_new(name, now).become_consumer(name, consumer);
        Ok(Beaten { before, answer, records })
    }
}

/// A heartbeat that was taken.
struct Beaten {
    /// What ends the classic group that was there.
    before: Entry,
    answer: HeartbeatAnswer,
    records: Vec<ConsumerRecord>,
}

/// The record that ends a classic group is no larger: a group id and what records have besides.
const ROOM_FOR_A_TOMBSTONE: usize = 64 << 10;

fn refusal(error: HeartbeatError) -> Refusal {
    Refusal { code: error.code(), message: error.to_string() }
}

fn stays_classic(name: &str, error: UpgradeError) -> Refusal {
    Refusal {
        code: ErrorCode::GroupIdNotFound,
        message: format!("Classic group {name} cannot become a consumer group: {error}."),
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
