//! What a group tells of itself: DescribeGroups, ListGroups, and when its offsets may expire.

use bytes::Bytes;
use millstream_io::units::TimestampMs;
use std::collections::BTreeSet;

use super::calls::Name;
use super::members::Member;
use super::static_join::topics;
use super::{ClassicGroup, State};
use crate::wire::error_code::ErrorCode;

/// Protocol type of groups whose members' bytes are subscriptions to topics.
pub(in crate::group) const CONSUMER_PROTOCOL_TYPE: &str = "consumer";

/// A group as DescribeGroups shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    pub state: State,
    /// Empty when there is none.
    pub protocol_type: Name,
    /// Empty unless the group is Stable.
    pub protocol: Name,
    pub members: Vec<MemberDescription>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberDescription {
    pub member_id: Name,
    pub instance_id: Option<Name>,
    pub client_id: Name,
    pub client_host: Name,
    /// What it wants under the group's protocol; empty unless the group is Stable.
    pub metadata: Bytes,
    pub assignment: Bytes,
}

/// From when on the retention of a group's offsets counts (KIP-211).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetExpiry {
    /// They stay.
    Never,
    /// From the commit of each, and in any group only for topics that nobody subscribes to.
    SinceCommit,
    /// From when the group became empty.
    SinceEmpty(TimestampMs),
}

impl<W> ClassicGroup<W> {
    pub fn describe(&self) -> Description {
        let protocol = match self.state {
            State::Stable => self.protocol.clone(),
            State::Empty | State::PreparingRebalance | State::CompletingRebalance | State::Dead => {
                None
            }
        };
        let one = |(id, member): (&Name, &Member<W>)| MemberDescription {
            member_id: id.clone(),
            instance_id: member.instance_id.clone(),
            client_id: member.client_id.clone(),
            client_host: member.client_host.clone(),
            metadata: protocol.as_deref().map(|p| member.metadata(Some(p))).unwrap_or_default(),
            assignment: member.assignment().clone(),
        };
        let members = self.members.iter().map(one).collect();
        Description {
            state: self.state,
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            protocol: protocol.clone().unwrap_or_default(),
            members,
        }
    }

    /// What its consumers subscribe to; none when that cannot be known: another protocol type, or
    /// bytes that cannot be read. Reads every member's subscription.
    pub fn subscribed_topics(&self) -> Option<BTreeSet<Name>> {
        if self.protocol_type() != Some(CONSUMER_PROTOCOL_TYPE) {
            return None;
        }
        let mut all = BTreeSet::new();
        for (_, member) in self.members.iter() {
            let protocol = self.protocol.as_deref()?;
            let metadata = member.metadata(Some(protocol));
            for topic in topics(&metadata)? {
                if !all.contains(topic) {
                    all.insert(Name::from(topic));
                }
            }
        }
        Some(all)
    }

    /// When offsets may be forgotten, for topics that are not subscribed to.
    pub fn offset_expiry(&self) -> OffsetExpiry {
        match (self.state, self.protocol_type(), self.state_since) {
            (State::Dead, ..) => OffsetExpiry::Never,
            (_, None, _) => OffsetExpiry::SinceCommit,
            (State::Empty, _, Some(since)) => OffsetExpiry::SinceEmpty(since),
            (State::Empty, _, None) => OffsetExpiry::SinceCommit,
            (State::Stable, Some(CONSUMER_PROTOCOL_TYPE), _) => match self.subscribed_topics() {
                Some(_) => OffsetExpiry::SinceCommit,
                None => OffsetExpiry::Never,
            },
            (
                State::PreparingRebalance | State::CompletingRebalance | State::Stable,
                Some(_),
                _,
            ) => OffsetExpiry::Never,
        }
    }

    /// Whether OffsetDelete may touch the group at all; topics that it subscribes to stay out of
    /// reach (GROUP_SUBSCRIBED_TO_TOPIC).
    ///
    /// # Errors
    /// NON_EMPTY_GROUP with members of which it is not known what they read; GROUP_ID_NOT_FOUND.
    pub fn check_offset_delete(&self) -> Result<(), ErrorCode> {
        match self.state {
            State::Dead => Err(ErrorCode::GroupIdNotFound),
            State::Empty => Ok(()),
            State::PreparingRebalance | State::CompletingRebalance | State::Stable => {
                match self.protocol_type() {
                    Some(CONSUMER_PROTOCOL_TYPE) => Ok(()),
                    Some(_) | None => Err(ErrorCode::NonEmptyGroup),
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "describe_tests.rs"]
mod tests;
