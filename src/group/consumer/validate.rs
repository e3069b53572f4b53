//! Who may commit and fetch offsets of a group, and when a group may be deleted.

use std::fmt;

use millstream_io::units::TopicPartition;

use super::ConsumerGroup;
use super::epoch::Epoch;
use super::member::Member;
use crate::wire::ErrorCode;

/// Who commits.
#[derive(Clone, Copy, Debug)]
pub struct Committer<'a> {
    pub member_id: &'a str,
    pub instance_id: Option<&'a str>,
    /// Member epoch or generation of the request.
    pub epoch: i32,
    /// TxnOffsetCommit instead of OffsetCommit.
    pub is_transactional: bool,
    /// Version of the request.
    pub version: i16,
}

/// Members of the new protocol use OffsetCommit from this version on.
const COMMIT_VERSION_MIN: i16 = 9;

/// Why offsets are refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OffsetError {
    UnknownMember {
        member_id: String,
    },
    /// Of a member of the new protocol.
    StaleEpoch {
        got: Epoch,
        current: Epoch,
    },
    /// Of a member that speaks the classic protocol.
    OtherGeneration {
        got: Epoch,
        current: Epoch,
    },
    OldVersion {
        version: i16,
    },
    /// The group cannot be deleted.
    NotEmpty {
        members: usize,
    },
}

impl OffsetError {
    pub fn code(&self) -> ErrorCode {
        match self {
            OffsetError::UnknownMember { .. } => ErrorCode::UnknownMemberId,
            OffsetError::StaleEpoch { .. } => ErrorCode::StaleMemberEpoch,
            OffsetError::OtherGeneration { .. } => ErrorCode::IllegalGeneration,
            OffsetError::OldVersion { .. } => ErrorCode::UnsupportedVersion,
            OffsetError::NotEmpty { .. } => ErrorCode::NonEmptyGroup,
        }
    }
}

impl fmt::Display for OffsetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OffsetError::UnknownMember { member_id } => {
                write!(f, "the group has no member {member_id}")
            }
            OffsetError::StaleEpoch { got, current }
            | OffsetError::OtherGeneration { got, current } => {
                write!(f, "the member's epoch is {current}, not {got}")
            }
            OffsetError::OldVersion { version } => {
                write!(f, "version {version}: this member needs {COMMIT_VERSION_MIN}")
            }
            OffsetError::NotEmpty { members } => write!(f, "the group has {members} members"),
        }
    }
}

impl std::error::Error for OffsetError {}

/// Leave to commit, as far as it goes.
#[derive(Clone, Copy, Debug)]
pub struct CommitLeave<'a> {
    /// A member that is behind: leave for what it has had since.
    behind: Option<(&'a Member, Epoch)>,
}

impl CommitLeave<'_> {
    /// Whether the offset of this partition may be committed.
    ///
    /// # Errors
    /// [`OffsetError::StaleEpoch`]: the member comes with an epoch from before it had the partition
    /// (KIP-1251).
    pub fn check(&self, partition: &TopicPartition) -> Result<(), OffsetError> {
        let Some((member, got)) = self.behind else { return Ok(()) };
        let current = &member.current;
        let since = current.assigned.get(partition).or_else(|| current.revoking.get(partition));
        match since {
            Some(since) if *since <= got => Ok(()),
            Some(_) | None => Err(OffsetError::StaleEpoch { got, current: current.epoch }),
        }
    }
}

impl ConsumerGroup {
    /// Whether a request may commit offsets.
    ///
    /// An administrator, who is no member, may while there are none; so may a transaction that does
    /// not say for which member it commits.
    ///
    /// # Errors
    /// [`OffsetError`]; single partitions may be refused after that, by [`CommitLeave::check`].
    pub fn validate_commit(&self, by: &Committer<'_>) -> Result<CommitLeave<'_>, OffsetError> {
        let all = CommitLeave { behind: None };
        if by.epoch < 0 && self.state.members.is_empty() {
            return Ok(all);
        }
        let is_anonymous = by.epoch == -1 && by.member_id.is_empty() && by.instance_id.is_none();
        if by.is_transactional && is_anonymous {
            return Ok(all);
        }
        let member = self.member(by.member_id)?;
        let is_classic = member.uses_classic_protocol();
        if !by.is_transactional && !is_classic && by.version < COMMIT_VERSION_MIN {
            return Err(OffsetError::OldVersion { version: by.version });
        }
        let (got, current) = (Epoch::new(by.epoch), member.current.epoch);
        if got == current {
            Ok(all)
        } else if is_classic {
            Err(OffsetError::OtherGeneration { got, current })
        } else if got > current || got < Epoch::ZERO {
            Err(OffsetError::StaleEpoch { got, current })
        } else {
            Ok(CommitLeave { behind: Some((member, got)) })
        }
    }

    /// Whether a request may fetch offsets. One that names no member may always.
    ///
    /// # Errors
    /// [`OffsetError`].
    pub fn validate_fetch(&self, member_id: Option<&str>, epoch: i32) -> Result<(), OffsetError> {
        let member_id = member_id.unwrap_or_default();
        if member_id.is_empty() && epoch < 0 {
            return Ok(());
        }
        let member = self.member(member_id)?;
        let (got, current) = (Epoch::new(epoch), member.current.epoch);
        if got == current {
            Ok(())
        } else if member.uses_classic_protocol() {
            Err(OffsetError::OtherGeneration { got, current })
        } else {
            Err(OffsetError::StaleEpoch { got, current })
        }
    }

    /// Whether the group may be deleted.
    ///
    /// # Errors
    /// [`OffsetError::NotEmpty`].
    pub fn validate_delete(&self) -> Result<(), OffsetError> {
        match self.state.members.len() {
            0 => Ok(()),
            members => Err(OffsetError::NotEmpty { members }),
        }
    }

    /// Whether any member subscribes to a topic, so that its offsets may not be deleted.
    pub fn is_subscribed_to(&self, topic_name: &str) -> bool {
        self.state.members.values().any(|member| {
            let pattern = member.metadata.pattern();
            member.metadata.topic_names.contains(topic_name)
                || pattern
                    .and_then(|pattern| self.state.patterns.get(pattern))
                    .is_some_and(|matched| matched.contains(topic_name))
        })
    }

    fn member(&self, member_id: &str) -> Result<&Member, OffsetError> {
        let unknown = || OffsetError::UnknownMember { member_id: member_id.to_owned() };
        self.state.members.get(member_id).ok_or_else(unknown)
    }
}

#[cfg(test)]
#[path = "validate_tests.rs"]
mod tests;
