//! What a heartbeat must look like before a group looks at it, and why one is refused.

use std::fmt;

use super::assignor::Assignor;
use super::epoch::Epoch;
use super::pattern::PatternError;
use super::settings::ConsumerSettings;
use crate::wire::ErrorCode;
use crate::wire::messages::consumer_group_heartbeat::ConsumerGroupHeartbeatRequest;

/// Who sent a request.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    /// Version of the request.
    pub version: i16,
    pub client_id: &'a str,
    /// As Kafka writes it: `/127.0.0.1`.
    pub client_host: &'a str,
    /// A new id, for a member of version 0 that has none yet.
    pub fresh_member_id: &'a str,
}

/// From this version on members make their ids themselves (KIP-1082).
const OWN_MEMBER_ID_VERSION: i16 = 1;

/// Why a heartbeat is refused; nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeartbeatError {
    Invalid {
        reason: &'static str,
    },
    UnsupportedAssignor {
        asked: String,
        offered: Vec<Assignor>,
    },
    Pattern {
        text: String,
        error: PatternError,
    },
    GroupIsFull {
        members_max: usize,
    },
    UnknownMember {
        member_id: String,
    },
    UnknownInstance {
        instance_id: String,
    },
    /// The instance id is another member's that has not left.
    UnreleasedInstance {
        instance_id: String,
        owner: String,
    },
    /// Another member has taken the instance id over.
    FencedInstance {
        instance_id: String,
        owner: String,
    },
    FencedEpoch {
        got: Epoch,
        current: Epoch,
    },
    /// The group's epochs are used up.
    EpochsUsedUp {
        epoch: Epoch,
    },
}

impl HeartbeatError {
    pub fn code(&self) -> ErrorCode {
        match self {
            HeartbeatError::Invalid { .. } => ErrorCode::InvalidRequest,
            HeartbeatError::UnsupportedAssignor { .. } => ErrorCode::UnsupportedAssignor,
            HeartbeatError::Pattern { .. } => ErrorCode::InvalidRegularExpression,
            HeartbeatError::GroupIsFull { .. } => ErrorCode::GroupMaxSizeReached,
            HeartbeatError::UnknownMember { .. } | HeartbeatError::UnknownInstance { .. } => {
                ErrorCode::UnknownMemberId
            }
            HeartbeatError::UnreleasedInstance { .. } => ErrorCode::UnreleasedInstanceId,
            HeartbeatError::FencedInstance { .. } => ErrorCode::FencedInstanceId,
            HeartbeatError::FencedEpoch { .. } => ErrorCode::FencedMemberEpoch,
            HeartbeatError::EpochsUsedUp { .. } => ErrorCode::UnknownServerError,
        }
    }
}

/// The message that goes with the code.
impl fmt::Display for HeartbeatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HeartbeatError::Invalid { reason } => f.write_str(reason),
            HeartbeatError::UnsupportedAssignor { asked, offered } => {
                let offered: Vec<&str> = offered.iter().map(|assignor| assignor.name()).collect();
                write!(f, "assignor {asked} is not supported; these are: {}", offered.join(", "))
            }
            HeartbeatError::Pattern { text, error } => {
                write!(f, "the regular expression `{text}` is not valid: {error}")
            }
            HeartbeatError::GroupIsFull { members_max } => {
                write!(f, "the group has as many members as it may have, {members_max}")
            }
            HeartbeatError::UnknownMember { member_id } => {
                write!(f, "the group has no member {member_id}")
            }
            HeartbeatError::UnknownInstance { instance_id } => {
                write!(f, "the group has no static member {instance_id}")
            }
            HeartbeatError::UnreleasedInstance { instance_id, owner } => {
                write!(f, "static member {instance_id} has not left the group; it is {owner}")
            }
            HeartbeatError::FencedInstance { instance_id, owner } => {
                write!(f, "static member {instance_id} is {owner} now")
            }
            HeartbeatError::FencedEpoch { got, current } => {
                let order = if got > current { "greater" } else { "smaller" };
                write!(
                    f,
                    "member epoch {got} is {order} than the current one, {current}; \
                     give up all partitions and join again"
                )
            }
            HeartbeatError::EpochsUsedUp { epoch } => {
                write!(f, "the group is at its last epoch, {epoch}; it must be deleted")
            }
        }
    }
}

impl std::error::Error for HeartbeatError {}

/// Checks the fields in Kafka's order; all of it without looking at the group.
pub(super) fn check(
    request: &ConsumerGroupHeartbeatRequest<'_>,
    version: i16,
    settings: &ConsumerSettings,
) -> Result<(), HeartbeatError> {
    let invalid = |reason| Err(HeartbeatError::Invalid { reason });
    let is_blank = |text: &str| text.trim().is_empty();
    let epoch = Epoch::new(request.member_epoch);
    let is_join = epoch == Epoch::ZERO;
    if is_blank(request.member_id) && (!is_join || version >= OWN_MEMBER_ID_VERSION) {
        return invalid("member id must not be empty");
    }
    if is_blank(request.group_id) {
        return invalid("group id must not be empty");
    }
    if request.instance_id.is_some_and(is_blank) {
        return invalid("instance id must not be empty");
    }
    if request.rack_id.is_some_and(is_blank) {
        return invalid("rack id must not be empty");
    }
    if is_join {
        check_join(request)?;
    } else if epoch == Epoch::LEAVE_STATIC && request.instance_id.is_none() {
        return invalid("instance id must be given by a static member that leaves");
    } else if epoch < Epoch::LEAVE_STATIC {
        return invalid("member epoch is less than -2");
    }
    match request.server_assignor {
        Some(asked) if !settings.assignors.iter().any(|offered| offered.name() == asked) => {
            let offered = settings.assignors.clone();
            Err(HeartbeatError::UnsupportedAssignor { asked: asked.to_owned(), offered })
        }
        _ => Ok(()),
    }
}

/// A member that joins with no names and an empty pattern is welcome; it gets nothing.
fn check_join(request: &ConsumerGroupHeartbeatRequest<'_>) -> Result<(), HeartbeatError> {
    let invalid = |reason| Err(HeartbeatError::Invalid { reason });
    if request.rebalance_timeout_ms == -1 {
        return invalid("rebalance timeout must be given when joining");
    }
    if request.topic_partitions.as_ref().is_none_or(|owned| !owned.is_empty()) {
        return invalid("owned partitions must be empty when joining");
    }
    if request.subscribed_topic_names.is_none() && request.subscribed_topic_regex.is_none() {
        return invalid("topic names or a regular expression must be given when joining");
    }
    Ok(())
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
