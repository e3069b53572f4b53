//! OffsetCommit (key 8).

use crate::wire::declare::wire;
use crate::wire::primitives::Uuid;

wire! {
    /// Stores the offsets a group has consumed. Version 10 names topics by id (KIP-848).
    request OffsetCommitRequest<'a> for OffsetCommit, versions 2-10, flexible 8 {
        group_id: &'a str;
        generation_id_or_member_epoch: i32 = -1;
        member_id: &'a str;
        group_instance_id: Option<&'a str> = None, in 7+;
        retention_time_ms: i64 = -1, in 2-4, else ignored;
        topics: Vec<OffsetCommitRequestTopic<'a>>;
    }

    /// An element of `topics` in [`OffsetCommitRequest`].
    struct OffsetCommitRequestTopic<'a> {
        name: &'a str, in 2-9, else ignored;
        topic_id: Uuid, in 10+, else ignored;
        partitions: Vec<OffsetCommitRequestPartition<'a>>;
    }

    /// An element of `partitions` in [`OffsetCommitRequestTopic`].
    struct OffsetCommitRequestPartition<'a> {
        partition_index: i32;
        committed_offset: i64;
        committed_leader_epoch: i32 = -1, in 6+, else ignored;
        committed_metadata: Option<&'a str> = Some("");
    }

    /// Answer to [`OffsetCommitRequest`].
    response OffsetCommitResponse<'a> for OffsetCommit, versions 2-10, flexible 8 {
        throttle_time_ms: i32, in 3+, else ignored;
        topics: Vec<OffsetCommitResponseTopic<'a>>;
    }

    /// An element of `topics` in [`OffsetCommitResponse`].
    struct OffsetCommitResponseTopic<'a> {
        name: &'a str, in 2-9, else ignored;
        topic_id: Uuid, in 10+, else ignored;
        partitions: Vec<OffsetCommitResponsePartition>;
    }

    /// An element of `partitions` in [`OffsetCommitResponseTopic`].
    struct OffsetCommitResponsePartition {
        partition_index: i32;
        error_code: i16;
    }
}
