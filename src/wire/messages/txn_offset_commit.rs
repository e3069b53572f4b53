//! TxnOffsetCommit (key 28).

use crate::wire::declare::wire;

wire! {
    /// Stores a group's offsets as part of a transaction.
    request TxnOffsetCommitRequest<'a> for TxnOffsetCommit, versions 0-5, flexible 3 {
        transactional_id: &'a str;
        group_id: &'a str;
        producer_id: i64;
        producer_epoch: i16;
        generation_id: i32 = -1, in 3+;
        member_id: &'a str, in 3+;
        group_instance_id: Option<&'a str> = None, in 3+;
        topics: Vec<TxnOffsetCommitRequestTopic<'a>>;
    }

    /// An element of `topics` in [`TxnOffsetCommitRequest`].
    struct TxnOffsetCommitRequestTopic<'a> {
        name: &'a str;
        partitions: Vec<TxnOffsetCommitRequestPartition<'a>>;
    }

    /// An element of `partitions` in [`TxnOffsetCommitRequestTopic`].
    struct TxnOffsetCommitRequestPartition<'a> {
        partition_index: i32;
        committed_offset: i64;
        committed_leader_epoch: i32 = -1, in 2+, else ignored;
        committed_metadata: Option<&'a str> = Some("");
    }

    /// Answer to [`TxnOffsetCommitRequest`].
    response TxnOffsetCommitResponse<'a> for TxnOffsetCommit, versions 0-5, flexible 3 {
        throttle_time_ms: i32;
        topics: Vec<TxnOffsetCommitResponseTopic<'a>>;
    }

    /// An element of `topics` in [`TxnOffsetCommitResponse`].
    struct TxnOffsetCommitResponseTopic<'a> {
        name: &'a str;
        partitions: Vec<TxnOffsetCommitResponsePartition>;
    }

    /// An element of `partitions` in [`TxnOffsetCommitResponseTopic`].
    struct TxnOffsetCommitResponsePartition {
        partition_index: i32;
        error_code: i16;
    }
}
