//! What members of classic groups ask.

use super::*;

impl GroupPartition {
    pub(super) fn join(
        &mut self,
        name: &Name,
        request: JoinRequest,
        waiter: Waiter,
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
            refuse(waiter, ErrorCode::InconsistentGroupProtocol);
            return None;
        };
        let Kind::Classic(classic) = &mut group.kind else {
            panic!("group {name:?} did not become a classic one");
        };
        let outcome = classic.join(request, waiter, now);
        let mut entry = Entry { records: before, then: Vec::new() };
        if let Some(Entry { records, then }) = self.settle(name, outcome) {
            entry.records.extend(records);
            entry.then.extend(then);
        }
        (!entry.records.is_empty()).then_some(entry)
    }

    pub(super) fn heartbeat(&mut self, name: &Name, heartbeat: &Heartbeat, now: Now) -> ErrorCode {
        let Some(group) = self.classic(name) else { return ErrorCode::UnknownMemberId };
        let Heartbeat { member_id, instance_id, generation } = heartbeat;
        let caller = Caller { member_id, instance_id: instance_id.as_deref() };
        match group.heartbeat(caller, *generation, now) {
            Ok(()) => ErrorCode::None,
            Err(error) => error,
        }
    }

    pub(super) fn leave(
        &mut self,
        name: &Name,
        leaving: Vec<Leaving>,
        waiter: Waiter,
        now: Now,
    ) -> Option<Entry> {
        let Some(group) = self.classic(name) else {
            let error = ErrorCode::UnknownMemberId;
            let members = leaving.into_iter().map(|member| Left { member, error }).collect();
            let answer = LeaveAnswer { error: ErrorCode::None, members };
            let _ = waiter.send(Answer::Leave(answer));
            return None;
        };
        let outcome = group.leave(leaving, waiter, now);
        self.settle(name, outcome)
    }
}
