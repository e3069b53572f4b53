//! What members ask of a group, and what they are answered.

use bytes::Bytes;
use std::sync::Arc;

use crate::wire::error_code::ErrorCode;

/// Names are shared: one text, many answers.
pub type Name = Arc<str>;

/// A protocol that a member can follow, with what it wants under it. The bytes are its own affair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protocol {
    pub name: Name,
    pub metadata: Bytes,
}

/// JoinGroup.
#[derive(Clone, Debug)]
pub struct JoinRequest {
    /// Empty when the client has none yet.
    pub member_id: Name,
    /// `group.instance.id` of a static member.
    pub instance_id: Option<Name>,
    pub client_id: Name,
    pub client_host: Name,
    pub session_timeout_ms: i32,
    /// The session timeout for a request of version 0.
    pub rebalance_timeout_ms: i32,
    pub protocol_type: Name,
    pub protocols: Vec<Protocol>,
    /// A random UUID in text, for the case that a member id must be made. Nobody else has it.
    pub new_member_uuid: Name,
    pub rules: JoinRules,
}

/// What the version of a JoinGroup says about its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JoinRules {
    /// A dynamic member first gets an id, and joins with that (KIP-394).
    pub requires_known_member_id: bool,
    /// A leader knows how to skip the assignment (KIP-814).
    pub can_skip_assignment: bool,
}

impl JoinRules {
    pub const fn of_version(version: i16) -> JoinRules {
        JoinRules { requires_known_member_id: version >= 4, can_skip_assignment: version >= 9 }
    }
}

/// SyncGroup.
#[derive(Clone, Debug)]
pub struct SyncRequest {
    pub member_id: Name,
    pub instance_id: Option<Name>,
    pub generation: i32,
    /// Checked when given (version 5 on).
    pub protocol_type: Option<Name>,
    pub protocol: Option<Name>,
    /// From the leader: bytes for each member id. A later entry for a member replaces an earlier.
    pub assignments: Vec<(Name, Bytes)>,
}

/// Who a client says it is.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    pub member_id: &'a str,
    pub instance_id: Option<&'a str>,
}

/// One of those that a LeaveGroup names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaving {
    /// Empty when only the instance id is known.
    pub member_id: Name,
    pub instance_id: Option<Name>,
}

/// The kind of an offset commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitKind {
    /// OffsetCommit.
    Plain,
    /// TxnOffsetCommit.
    Transactional,
}

/// What a waiter gets: the kind that it asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Join(JoinAnswer),
    Sync(SyncAnswer),
    Leave(LeaveAnswer),
}

impl Answer {
    /// The answer of this kind that says no.
    #[must_use]
    pub fn refused(self, error: ErrorCode) -> Answer {
        match self {
            Answer::Join(answer) => Answer::Join(JoinAnswer::refused(error, answer.member_id)),
            Answer::Sync(_) => Answer::Sync(SyncAnswer::refused(error)),
            Answer::Leave(_) => Answer::Leave(LeaveAnswer::refused(error)),
        }
    }
}

/// Answer to a [`JoinRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinAnswer {
    pub error: ErrorCode,
    /// -1 with an error.
    pub generation: i32,
    pub protocol_type: Option<Name>,
    pub protocol: Option<Name>,
    /// Empty with an error.
    pub leader: Name,
    pub skip_assignment: bool,
    pub member_id: Name,
    /// For the leader all members, for others none.
    pub members: Vec<JoinedMember>,
}

/// A member as its leader sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinedMember {
    pub member_id: Name,
    pub instance_id: Option<Name>,
    pub metadata: Bytes,
}

/// Answer to a [`SyncRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncAnswer {
    pub error: ErrorCode,
    pub protocol_type: Option<Name>,
    pub protocol: Option<Name>,
    /// The leader's bytes for this member; empty if it gave none.
    pub assignment: Bytes,
}

/// Answer to a LeaveGroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaveAnswer {
    pub error: ErrorCode,
    /// One for each that was named, in their order.
    pub members: Vec<Left>,
}

/// How the leaving of one member went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    pub member: Leaving,
    pub error: ErrorCode,
}

impl JoinAnswer {
    pub fn refused(error: ErrorCode, member_id: Name) -> JoinAnswer {
        JoinAnswer {
            error,
            generation: -1,
            protocol_type: None,
            protocol: None,
            leader: Name::from(""),
            skip_assignment: false,
            member_id,
            members: Vec::new(),
        }
    }
}

impl SyncAnswer {
    pub fn refused(error: ErrorCode) -> SyncAnswer {
        SyncAnswer { error, protocol_type: None, protocol: None, assignment: Bytes::new() }
    }
}

impl LeaveAnswer {
    pub fn refused(error: ErrorCode) -> LeaveAnswer {
        LeaveAnswer { error, members: Vec::new() }
    }
}
