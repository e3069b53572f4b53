//! SyncGroup: the leader's assignment, through the log to everybody.

use bytes::Bytes;
use std::collections::{BTreeMap, HashMap};

use super::calls::{Caller, Name, SyncAnswer, SyncRequest};
use super::{ClassicGroup, Now, Outcome, Phase, State, StoreNumber, Storing};
use crate::wire::error_code::ErrorCode;

impl<W> ClassicGroup<W> {
    /// Gives a member its share. It waits until the leader's assignment is durable.
    pub fn sync(&mut self, request: SyncRequest, waiter: W, now: Now) -> Outcome<W> {
        let mut out = Outcome::nothing();
        if let Err(error) = self.check_sync(&request) {
            out.sync(waiter, SyncAnswer::refused(error));
            return out;
        }
        let id = request.member_id;
        self.members.has_synced(&id);
        if self.members.unsynced() == 0 {
            self.phase = Phase::Untimed;
        }
        if self.state == State::Stable {
            let answer = self.synced(&id);
            out.sync(waiter, answer);
            return out;
        }
        if let Some(former) = self.members.wait_for_sync(&id, waiter) {
            out.sync(former, SyncAnswer::refused(ErrorCode::RebalanceInProgress));
        }
        // A second assignment, while the first is on its way, changes nothing.
        if self.is_leader(&id) && self.storing.is_none() {
            self.store_assignment(request.assignments, now, &mut out);
        }
        out
    }

    /// A record is durable, and with it those before it: what rests on it is answered. Called for
    /// each [`super::Store::Group`]; one call for the last of several is enough.
    ///
    /// # Panics
    /// When the group never asked for that record.
    pub fn stored(&mut self, number: StoreNumber, now: Now) -> Outcome<W> {
        assert!(number <= self.stores, "record {number:?} of {:?} is stored", self.stores);
        let mut out = Outcome::nothing();
        let held = self.held.extract_if(.., |(rests_on, ..)| *rests_on <= number);
        out.answers.extend(held.map(|(_, waiter, answer)| (waiter, answer)));
        if let Some(storing) = self.storing.take_if(|storing| storing.number <= number) {
            self.become_stable(storing.assignments, now, &mut out);
        }
        self.answer_replaced(number, now, &mut out);
        out
    }

    fn check_sync(&self, request: &SyncRequest) -> Result<(), ErrorCode> {
        if self.state == State::Dead {
            return Err(ErrorCode::CoordinatorNotAvailable);
        }
        let instance_id = request.instance_id.as_deref();
        self.members.check(Caller { member_id: &request.member_id, instance_id })?;
        if request.generation != self.generation {
            return Err(ErrorCode::IllegalGeneration);
        }
        if is_other(request.protocol_type.as_ref(), self.protocol_type.as_ref())
            || is_other(request.protocol.as_ref(), self.protocol.as_ref())
        {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        match self.state {
            State::PreparingRebalance => Err(ErrorCode::RebalanceInProgress),
            State::CompletingRebalance | State::Stable => Ok(()),
            State::Empty | State::Dead => {
                panic!("{} is a member of a {:?} group", request.member_id, self.state)
            }
        }
    }

    /// Asks for the record of the generation. Ids that are no members' get nothing.
    fn store_assignment(&mut self, given: Vec<(Name, Bytes)>, now: Now, out: &mut Outcome<W>) {
        let mut given: HashMap<Name, Bytes> = given.into_iter().collect();
        let mut share = |id: &Name| (id.clone(), given.remove(id).unwrap_or_default());
        let assignments: BTreeMap<Name, Bytes> =
            self.members.iter().map(|(id, _)| share(id)).collect();
        let number = StoreNumber(self.stores.0 + 1);
        self.storing = Some(Storing { number, assignments });
        if self.record_bytes() > self.settings.record_bytes_max {
            self.drop_assignment(ErrorCode::UnknownServerError, now, out);
            self.begin_rebalance(now, out);
            return;
        }
        let asked = self.store(out);
        assert!(asked == number, "record {number:?} was asked for as {asked:?}");
    }

    fn become_stable(
        &mut self,
        assignments: BTreeMap<Name, Bytes>,
        now: Now,
        out: &mut Outcome<W>,
    ) {
        self.enter(State::Stable, now);
        for (id, assignment) in assignments {
            self.members.set_assignment(&id, assignment);
        }
        for id in self.members.ids() {
            if let Some(waiter) = self.members.take_sync(&id) {
                // Its session stood still while it waited.
                self.start_session(&id, now);
                let answer = self.synced(&id);
                out.sync(waiter, answer);
            }
        }
    }

    fn synced(&self, id: &str) -> SyncAnswer {
        let member = self.members.get(id);
        SyncAnswer {
            error: ErrorCode::None,
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            assignment: member.map(|m| m.assignment().clone()).unwrap_or_default(),
        }
    }
}

/// True when both are known and differ: old clients name neither.
fn is_other(told: Option<&Name>, own: Option<&Name>) -> bool {
    matches!((told, own), (Some(told), Some(own)) if told != own)
}

#[cfg(test)]
#[path = "sync_tests.rs"]
mod tests;
