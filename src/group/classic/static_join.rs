//! A static member joins again without its member id: it was restarted (KIP-345).

use std::collections::BTreeSet;

use super::calls::{Answer, JoinAnswer, JoinRequest, Name, SyncAnswer};
use super::describe::CONSUMER_PROTOCOL_TYPE;
use super::members::Waiters;
use super::{ClassicGroup, Now, Outcome, Replaced, State, StoreNumber};
use crate::wire::error_code::ErrorCode;
use crate::wire::messages::consumer_protocol::{ConsumerProtocolSubscription, decode_prefixed};

impl<W> ClassicGroup<W> {
    /// Gives the member `id` the id in the request, and fences the old one.
    ///
    /// A stable group stays as it is if the member wants what it wanted: then the new id must be
    /// durable before anybody hears of it. Otherwise there is a rebalance.
    pub(super) fn replace_static(
        &mut self,
        id: &Name,
        request: JoinRequest,
        waiter: W,
        now: Now,
        out: &mut Outcome<W>,
    ) {
        let new_id = request.member_id.clone();
        let can_skip_assignment = request.rules.can_skip_assignment;
        let wants_the_same = self.wants_the_same(id, &request);
        let leader_before = self.leader.clone();
        let Some(fenced) = self.members.rename(id, new_id.clone()) else {
            panic!("{id} has an instance id and is no member");
        };
        if self.is_leader(id) {
            self.leader = Some(new_id.clone());
        }
        self.members.update(&new_id, request);
        self.start_session(&new_id, now);
        let former = self.members.wait_for_join(&new_id, waiter);
        assert!(former.is_none(), "{new_id} waited before it was a member");
        let stays = self.state == State::Stable
            && wants_the_same
            && self.members.choose_protocol() == self.protocol
            && self.record_bytes() <= self.settings.record_bytes_max;
        if stays {
            let member_id = new_id;
            let number = self.store(out);
            self.replaced.push(Replaced { number, member_id, can_skip_assignment, leader_before });
            self.held.extend(fence(fenced, id).map(|(waiter, answer)| (number, waiter, answer)));
            return;
        }
        out.answers.extend(fence(fenced, id));
        // In CompletingRebalance, too: the leader may be assigning to the old id already.
        self.rebalance_or_complete_join(now, out);
    }

    /// Answers the replaced members whose new ids are durable, while the group is as it was. Those
    /// of a group that rebalances are answered with everybody.
    pub(super) fn answer_replaced(&mut self, durable: StoreNumber, now: Now, out: &mut Outcome<W>) {
        let is_durable = |replaced: &mut Replaced| replaced.number <= durable;
        let replaced: Vec<_> = self.replaced.extract_if(.., is_durable).collect();
        for Replaced { member_id, can_skip_assignment, leader_before, .. } in replaced {
            assert!(self.state == State::Stable, "{member_id} was replaced in {:?}", self.state);
            // It left, or was replaced again: then its waiter has its answer.
            let Some(waiter) = self.members.take_join(&member_id) else { continue };
            let mut answer = self.joined(&member_id);
            if can_skip_assignment {
                answer.skip_assignment = self.is_leader(&member_id);
            } else {
                // A client that cannot skip the assignment must not take itself for the leader.
                answer.leader = leader_before.unwrap_or_default();
                answer.members = Vec::new();
            }
            self.start_session(&member_id, now);
            out.join(waiter, answer);
        }
    }

    /// False when a consumer is known to subscribe to other topics than before. Other bytes may
    /// differ: what a restarted consumer owns does.
    fn wants_the_same(&self, id: &str, request: &JoinRequest) -> bool {
        if self.protocol_type() != Some(CONSUMER_PROTOCOL_TYPE) {
            return true;
        }
        let Some(member) = self.members.get(id) else { return true };
        let before = member.metadata(self.protocol.as_deref());
        let after = request.protocols.iter().find(|p| Some(&p.name) == self.protocol.as_ref());
        let after = after.and_then(|protocol| topics(&protocol.metadata));
        match (topics(&before), after) {
            (Some(before), Some(after)) => before == after,
            (None, _) | (_, None) => true,
        }
    }
}

/// The topics of a consumer's subscription; none if it cannot be read.
pub(super) fn topics(metadata: &[u8]) -> Option<BTreeSet<&str>> {
    let subscription: ConsumerProtocolSubscription<'_> = decode_prefixed(metadata).ok()?;
    Some(subscription.topics.into_iter().collect())
}

fn fence<W>(waiters: Waiters<W>, id: &Name) -> impl Iterator<Item = (W, Answer)> + use<W> {
    let error = ErrorCode::FencedInstanceId;
    let join = JoinAnswer::refused(error, id.clone());
    let join = waiters.join.map(|waiter| (waiter, Answer::Join(join)));
    let sync = waiters.sync.map(|waiter| (waiter, Answer::Sync(SyncAnswer::refused(error))));
    join.into_iter().chain(sync)
}

#[cfg(test)]
#[path = "static_join_tests.rs"]
mod tests;
