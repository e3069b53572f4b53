//! What is asked of a group from any core, owned, and by what each asker waits.

use super::classic::{
    Answer, CommitKind, Description, JoinRequest, Leaving, Name, State, SyncRequest,
};
use super::offsets::CommittedOffset;
use crate::wire::ErrorCode;
use millstream_io::runtime::Promise;

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
    Offsets(Wanted, Promise<Result<Vec<TopicOffsets>, ErrorCode>>),
    /// The group as it is; `None` when there is none.
    Describe(Promise<Option<Description>>),
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
    pub kind: CommitKind,
    /// Whether the client knows of GROUP_ID_NOT_FOUND here (OffsetCommit 9 on).
    pub knows_missing_groups: bool,
    pub offsets: Vec<(Name, i32, CommittedOffset)>,
}

/// Which offsets are wanted; `None` for all.
pub type Wanted = Option<Vec<(Name, Vec<i32>)>>;

/// Offsets of one topic; `None` where nothing was committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicOffsets {
    pub topic: Name,
    pub partitions: Vec<(i32, Option<CommittedOffset>)>,
}

/// A line of ListGroups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    pub group: Name,
    pub protocol_type: Name,
    pub state: State,
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
            Ask::Offsets(_, reply) => {
                let _ = reply.send(Err(error));
            }
            Ask::DeleteOffsets(_, reply) => {
                let _ = reply.send(Err(error));
            }
            // Dropped: the asker learns that nobody answers.
            Ask::Describe(_) => {}
        }
    }
}
