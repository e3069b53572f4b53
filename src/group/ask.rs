//! What is asked of a group from any core, owned, and by what each asker waits.

use super::classic::{Answer, CommitKind, Description, JoinRequest, Leaving, Name, SyncRequest};
use super::consumer::{GroupDescription, HeartbeatAnswer};
use super::offsets::CommittedOffset;
use super::topics::Searcher;
use crate::wire::ErrorCode;
use bytes::Bytes;
use millstream_io::batch::Outcome;
use millstream_io::runtime::Promise;
use millstream_io::units::{ProducerEpoch, ProducerId};
use millstream_shards::message::AppendError;
use std::fmt;

/// What a client of a classic group waits by.
pub type Waiter = Promise<Answer>;

/// One question to one group.
#[derive(Debug)]
pub enum Ask {
    Join(JoinRequest, Waiter),
    Sync(SyncRequest, Waiter),
    Heartbeat(Heartbeat, Promise<ErrorCode>),
    Leave(Vec<Leaving>, Waiter),
    Commit(Commit, Promise<ErrorCode>),
    /// Whether a commit in a transaction needs to be verified first.
    Verify(InTransaction, Promise<Result<Verification, ErrorCode>>),
    Offsets(Wanted, FetchedBy, Promise<Result<Vec<TopicOffsets>, ErrorCode>>),
    /// A classic group as it is; `None` when there is none.
    Describe(Promise<Option<Description>>),
    ConsumerHeartbeat(ConsumerHeartbeat, Promise<Result<HeartbeatAnswer, Refusal>>),
    /// A group of the consumer protocol as it is; `None` when there is none.
    ConsumerDescribe(Promise<Option<GroupDescription>>),
    Delete(Promise<ErrorCode>),
    /// Forget offsets; one answer for each, in order.
    DeleteOffsets(Vec<(Name, i32)>, Promise<Result<Vec<ErrorCode>, ErrorCode>>),
}

/// A Heartbeat of a classic member.
#[derive(Debug)]
pub struct Heartbeat {
    pub member_id: Name,
    pub instance_id: Option<Name>,
    pub generation: i32,
}

/// Offsets to be committed.
#[derive(Debug)]
pub struct Commit {
    pub member_id: Name,
    pub instance_id: Option<Name>,
    /// Below 0: the client uses the group for its offsets alone.
    pub generation: i32,
    /// The transaction that it is part of (TxnOffsetCommit).
    pub transaction: Option<InTransaction>,
    /// What [`Ask::Verify`] gave for it, when it needed to be verified.
    pub guard: Option<Guard>,
    /// Version of the request.
    pub version: i16,
    pub offsets: Vec<(Name, i32, CommittedOffset)>,
}

impl Commit {
    pub fn kind(&self) -> CommitKind {
        match self.transaction {
            Some(_) => CommitKind::Transactional,
            None => CommitKind::Plain,
        }
    }
}

/// Whose transaction offsets are committed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InTransaction {
    pub producer: ProducerId,
    pub epoch: ProducerEpoch,
}

/// Proof that nothing has ended a producer's transaction in a partition of the offsets topic since
/// its coordinator was asked whether the partition is part of it (KIP-890).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Guard(pub(super) u64);

/// Whether a producer may commit offsets in its transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verification {
    /// It has committed some in this very transaction.
    Open,
    /// Its coordinator must be asked; this comes with the commit then.
    Needed(Guard),
}

/// The end of a producer's transaction in one partition of the offsets topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    pub producer: ProducerId,
    pub epoch: ProducerEpoch,
    pub outcome: Outcome,
    /// Of the transaction's coordinator.
    pub coordinator_epoch: i32,
    /// 2 when the coordinator raises the epoch at every end (KIP-890).
    pub transaction_version: u8,
}

/// Why a transaction was not ended in a partition of the offsets topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndError {
    /// Not here, not now, or nobody knows: try again.
    NotReady,
    /// The log does not take the marker.
    Refused(AppendError),
}

impl fmt::Display for EndError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EndError::NotReady => f.write_str("the group coordinator is not ready; try again"),
            EndError::Refused(error) => write!(f, "the marker was refused: {error}"),
        }
    }
}

/// Who fetches offsets, and which. A member of the consumer protocol says who it is.
#[derive(Clone, Debug, Default)]
pub struct FetchedBy {
    pub member_id: Option<Name>,
    /// Below 0: no member.
    pub epoch: i32,
    /// Not those that a transaction may replace (KIP-447).
    pub require_stable: bool,
}

/// What is shown of one offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Nothing was committed.
    Nothing,
    Committed(CommittedOffset),
    /// A transaction may replace it, and stable ones were asked for.
    Unstable,
}

/// A heartbeat of the consumer protocol (KIP-848).
#[derive(Debug)]
pub struct ConsumerHeartbeat {
    /// The request's body, which was read before.
    pub body: Bytes,
    pub version: i16,
    pub client_id: Name,
    pub client_host: Name,
    pub fresh_member_id: Name,
    /// Where there are access rules.
    pub searcher: Option<Searcher>,
}

/// Why a heartbeat is refused, with words for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub code: ErrorCode,
    pub message: String,
}

impl From<ErrorCode> for Refusal {
    fn from(code: ErrorCode) -> Refusal {
        Refusal { code, message: String::new() }
    }
}

/// Which offsets are wanted; `None` for all.
pub type Wanted = Option<Vec<(Name, Vec<i32>)>>;

/// Offsets of one topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicOffsets {
    pub topic: Name,
    pub partitions: Vec<(i32, Shown)>,
}

/// A line of ListGroups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    pub group: Name,
    pub protocol_type: Name,
    pub state: &'static str,
    pub kind: GroupKind,
}

/// Which protocol a group follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupKind {
    Classic,
    Consumer,
}

impl GroupKind {
    /// The name that ListGroups tells.
    pub const fn name(self) -> &'static str {
        match self {
            GroupKind::Classic => "classic",
            GroupKind::Consumer => "consumer",
        }
    }
}

impl Ask {
    /// Refuses whatever is asked, where it has an answer for that.
    pub fn refuse(self, error: ErrorCode) {
        use super::classic::{JoinAnswer, LeaveAnswer, SyncAnswer};
        // Nobody may be waiting any more, who then needs no answer.
        match self {
            Ask::Join(request, waiter) => {
                let answer = JoinAnswer::refused(error, request.member_id);
                let _ = waiter.send(Answer::Join(answer));
            }
            Ask::Sync(_, waiter) => {
                let _ = waiter.send(Answer::Sync(SyncAnswer::refused(error)));
            }
            Ask::Leave(_, waiter) => {
                let _ = waiter.send(Answer::Leave(LeaveAnswer::refused(error)));
            }
            Ask::Heartbeat(_, reply) | Ask::Commit(_, reply) | Ask::Delete(reply) => {
                let _ = reply.send(error);
            }
            Ask::Offsets(_, _, reply) => {
                let _ = reply.send(Err(error));
            }
            Ask::Verify(_, reply) => {
                let _ = reply.send(Err(error));
            }
            Ask::ConsumerHeartbeat(_, reply) => {
                let _ = reply.send(Err(error.into()));
            }
            Ask::DeleteOffsets(_, reply) => {
                let _ = reply.send(Err(error));
            }
            // Dropped: the asker learns that nobody answers.
            Ask::Describe(_) | Ask::ConsumerDescribe(_) => {}
        }
    }
}
