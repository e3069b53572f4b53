//! OffsetDelete (key 47).

use crate::wire::declare::wire;

wire! {
    /// Deletes offsets of a group (KIP-496).
    request OffsetDeleteRequest<'a> for OffsetDelete, versions 0-0 {
        group_id: &'a str;
        topics: Vec<OffsetDeleteRequestTopic<'a>>;
    }

    /// An element of `topics` in [`OffsetDeleteRequest`].
    struct OffsetDeleteRequestTopic<'a> {
        name: &'a str;
        partitions: Vec<OffsetDeleteRequestPartition>;
    }

    /// An element of `partitions` in [`OffsetDeleteRequestTopic`].
    struct OffsetDeleteRequestPartition {
        partition_index: i32;
    }

    /// Answer to [`OffsetDeleteRequest`].
    response OffsetDeleteResponse<'a> for OffsetDelete, versions 0-0 {
        error_code: i16;
        throttle_time_ms: i32;
        topics: Vec<OffsetDeleteResponseTopic<'a>>;
    }

    /// An element of `topics` in [`OffsetDeleteResponse`].
    struct OffsetDeleteResponseTopic<'a> {
        name: &'a str;
        partitions: Vec<OffsetDeleteResponsePartition>;
    }

    /// An element of `partitions` in [`OffsetDeleteResponseTopic`].
    struct OffsetDeleteResponsePartition {
        partition_index: i32;
        error_code: i16;
    }
}
