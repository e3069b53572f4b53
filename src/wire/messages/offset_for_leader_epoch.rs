//! OffsetForLeaderEpoch (key 23).

use crate::wire::declare::wire;

wire! {
    /// Asks where leader epochs end, to find where logs diverge (KIP-320).
    request OffsetForLeaderEpochRequest<'a> for OffsetForLeaderEpoch, versions 2-4, flexible 4 {
        replica_id: i32 = -2, in 3+, else ignored;
        topics: Vec<OffsetForLeaderTopic<'a>>;
    }

    /// An element of `topics` in [`OffsetForLeaderEpochRequest`].
    struct OffsetForLeaderTopic<'a> {
        topic: &'a str;
        partitions: Vec<OffsetForLeaderPartition>;
    }

    /// An element of `partitions` in [`OffsetForLeaderTopic`].
    struct OffsetForLeaderPartition {
        partition: i32;
        current_leader_epoch: i32 = -1;
        leader_epoch: i32;
    }

    /// Answer to [`OffsetForLeaderEpochRequest`].
    response OffsetForLeaderEpochResponse<'a>
        for OffsetForLeaderEpoch, versions 2-4, flexible 4
    {
        throttle_time_ms: i32;
        topics: Vec<OffsetForLeaderTopicResult<'a>>;
    }

    /// An element of `topics` in [`OffsetForLeaderEpochResponse`].
    struct OffsetForLeaderTopicResult<'a> {
        topic: &'a str;
        partitions: Vec<EpochEndOffset>;
    }

    /// An element of `partitions` in [`OffsetForLeaderTopicResult`].
    struct EpochEndOffset {
        error_code: i16;
        partition: i32;
        leader_epoch: i32 = -1;
        end_offset: i64 = -1;
    }
}
