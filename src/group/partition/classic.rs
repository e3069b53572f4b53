//! What members of the classic protocol ask, of classic groups and of groups of the other one.

use super::super::consumer::ConsumerGroup;
use super::*;

impl GroupPartition {
    pub(super) fn join(
        &mut self,
        name: &Name,
        request: JoinRequest,
        waiter: Waiter,
        topics: &dyn TopicsView,
        now: Now,
    ) -> Option<Entry> {
        let refuse = |waiter: Waiter, error| {
            let answer = JoinAnswer::refused(error, request.member_id.clone());
            let _ = waiter.send(Answer::Join(answer));
        };
        if !self.groups.contains_key(name) {
            if !request.member_id.is_empty() {
                refuse(waiter, ErrorCode::UnknownMemberId);
                return None;
            }
            if self.groups.len() >= GROUPS_PER_PARTITION_MAX {
                refuse(waiter, ErrorCode::CoordinatorNotAvailable);
                return None;
            }
        }
        let settings = self.settings.classic;
        let group = self.group_or_new(name, now);
        let Some(before) = group.become_classic(name, settings, now) else {
            return self.join_consumer_group(name, &request, waiter, topics, now);
        };
        let Kind::Classic(classic) = &mut group.kind else {
            panic!("group {name:?} did not become a classic one");
        };
        let outcome = classic.join(request, waiter, now);
        let mut entry = Entry::plain(before, Vec::new());
        if let Some(Entry { records, then, .. }) = self.settle(name, outcome) {
            entry.records.extend(records);
            entry.then.extend(then);
        }
        (!entry.records.is_empty()).then_some(entry)
    }

    fn join_consumer_group(
        &mut self,
        name: &Name,
        request: &JoinRequest,
        waiter: Waiter,
        topics: &dyn TopicsView,
        now: Now,
    ) -> Option<Entry> {
        let consumer = self.consumer(name)?;
        match consumer.join(request, topics, now.ms) {
            Ok((mut answer, records)) => {
                let mut entry = self.consumer_entry(name, records, Vec::new(), topics, now);
                // It may have become a classic group just now, which has chosen a protocol.
                if let Some(protocol) = self.classic(name).and_then(|classic| classic.protocol()) {
                    answer.protocol = Some(protocol.clone());
                }
                // Behind what the last join of this member wrote, if this one wrote nothing.
                let then = Then::Answer(waiter, Answer::Join(answer));
                entry.get_or_insert_default().then.push(then);
                entry
            }
            Err(answer) => {
                let _ = waiter.send(Answer::Join(answer));
                None
            }
        }
    }

    pub(super) fn sync(
        &mut self,
        name: &Name,
        request: SyncRequest,
        waiter: Waiter,
        topics: &dyn TopicsView,
        now: Now,
    ) -> Option<Entry> {
        if let Some(classic) = self.classic(name) {
            let outcome = classic.sync(request, waiter, now);
            return self.settle(name, outcome);
        }
        let synced = match self.consumer(name) {
            Some(consumer) => consumer.sync(&request, topics, now.ms),
            None => Err(ErrorCode::UnknownMemberId),
        };
        match synced {
            // Behind the record of what the member is told.
            Ok(answer) => {
                let then = vec![Then::Answer(waiter, Answer::Sync(answer))];
                Some(Entry::plain(Vec::new(), then))
            }
            Err(error) => {
                let _ = waiter.send(Answer::Sync(SyncAnswer::refused(error)));
                None
            }
        }
    }

    pub(super) fn heartbeat(&mut self, name: &Name, heartbeat: &Heartbeat, now: Now) -> ErrorCode {
        let Heartbeat { member_id, instance_id, generation } = heartbeat;
        let caller = Caller { member_id, instance_id: instance_id.as_deref() };
        let beaten = match self.groups.get_mut(name).map(|group| &mut group.kind) {
            Some(Kind::Classic(classic)) => classic.heartbeat(caller, *generation, now),
            Some(Kind::Consumer(consumer)) => {
                consumer.classic_heartbeat(caller, *generation, now.ms)
            }
            None => Err(ErrorCode::UnknownMemberId),
        };
        match beaten {
            Ok(()) => ErrorCode::None,
            Err(error) => error,
        }
    }

    pub(super) fn leave(
        &mut self,
        name: &Name,
        leaving: Vec<Leaving>,
        waiter: Waiter,
        topics: &dyn TopicsView,
        now: Now,
    ) -> Option<Entry> {
        if let Some(classic) = self.classic(name) {
            let outcome = classic.leave(leaving, waiter, now);
            return self.settle(name, outcome);
        }
        let (members, records) = match self.consumer(name) {
            Some(consumer) => consumer.leave_classic(leaving, topics),
            None => {
                let error = ErrorCode::UnknownMemberId;
                (leaving.into_iter().map(|member| Left { member, error }).collect(), Vec::new())
            }
        };
        let answer = Answer::Leave(LeaveAnswer { error: ErrorCode::None, members });
        self.consumer_entry(name, records, vec![Then::Answer(waiter, answer)], topics, now)
    }

    fn consumer(&mut self, name: &Name) -> Option<&mut ConsumerGroup> {
        match self.groups.get_mut(name).map(|group| &mut group.kind) {
            Some(Kind::Consumer(consumer)) => Some(consumer),
            Some(Kind::Classic(_)) | None => None,
        }
    }
}
