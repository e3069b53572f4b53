//! ListOffsets (key 2).

use crate::wire::declare::wire;

wire! {
    /// Looks up offsets by timestamp, or by the special timestamps -1 (latest) to -5.
    request ListOffsetsRequest<'a> for ListOffsets, versions 1-10, flexible 6 {
        /// -1 for consumers.
        replica_id: i32;
        /// 0: latest is the HighWatermark; 1: the LastStableOffset.
        isolation_level: i8, in 2+;
        topics: Vec<ListOffsetsTopic<'a>>;
        timeout_ms: i32, in 10+, else ignored;
    }

    /// An element of `topics` in [`ListOffsetsRequest`].
    struct ListOffsetsTopic<'a> {
        name: &'a str;
        partitions: Vec<ListOffsetsPartition>;
    }

    /// An element of `partitions` in [`ListOffsetsTopic`].
    struct ListOffsetsPartition {
        partition_index: i32;
        current_leader_epoch: i32 = -1, in 4+, else ignored;
        /// -1 latest, -2 earliest, -3 largest timestamp, -4 earliest local, -5 latest tiered.
        timestamp: i64;
    }

    /// Answer to [`ListOffsetsRequest`].
    response ListOffsetsResponse<'a> for ListOffsets, versions 1-10, flexible 6 {
        throttle_time_ms: i32, in 2+, else ignored;
        topics: Vec<ListOffsetsTopicResponse<'a>>;
    }

    /// An element of `topics` in [`ListOffsetsResponse`].
    struct ListOffsetsTopicResponse<'a> {
        name: &'a str;
        partitions: Vec<ListOffsetsPartitionResponse>;
    }

    /// An element of `partitions` in [`ListOffsetsTopicResponse`].
    struct ListOffsetsPartitionResponse {
        partition_index: i32;
        error_code: i16;
        timestamp: i64 = -1;
        /// -1, with timestamp -1 and no error, when no record is that young.
        offset: i64 = -1;
        leader_epoch: i32 = -1, in 4+;
    }
}
