//! AlterShareGroupOffsets (key 91).

use crate::wire::declare::wire;
use crate::wire::primitives::Uuid;

wire! {
    /// Sets start offsets of share groups (KIP-932).
    request AlterShareGroupOffsetsRequest<'a>
        for AlterShareGroupOffsets, versions 0-0, flexible 0
    {
        group_id: &'a str;
        topics: Vec<AlterShareGroupOffsetsRequestTopic<'a>>;
    }

    /// An element of `topics` in [`AlterShareGroupOffsetsRequest`].
    struct AlterShareGroupOffsetsRequestTopic<'a> {
        topic_name: &'a str;
        partitions: Vec<AlterShareGroupOffsetsRequestPartition>;
    }

    /// An element of `partitions` in [`AlterShareGroupOffsetsRequestTopic`].
    struct AlterShareGroupOffsetsRequestPartition {
        partition_index: i32;
        start_offset: i64;
    }

    /// Answer to [`AlterShareGroupOffsetsRequest`].
    response AlterShareGroupOffsetsResponse<'a>
        for AlterShareGroupOffsets, versions 0-0, flexible 0
    {
        throttle_time_ms: i32;
        error_code: i16;
        error_message: Option<&'a str> = None;
        responses: Vec<AlterShareGroupOffsetsResponseTopic<'a>>;
    }

    /// An element of `responses` in [`AlterShareGroupOffsetsResponse`].
    struct AlterShareGroupOffsetsResponseTopic<'a> {
        topic_name: &'a str;
        topic_id: Uuid;
        partitions: Vec<AlterShareGroupOffsetsResponsePartition<'a>>;
    }

    /// An element of `partitions` in [`AlterShareGroupOffsetsResponseTopic`].
    struct AlterShareGroupOffsetsResponsePartition<'a> {
        partition_index: i32;
        error_code: i16;
        error_message: Option<&'a str> = None;
    }
}
