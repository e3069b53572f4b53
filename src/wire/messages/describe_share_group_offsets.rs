//! DescribeShareGroupOffsets (key 90).

use crate::wire::declare::wire;
use crate::wire::primitives::Uuid;

wire! {
    /// Reads start offsets of share groups (KIP-932).
    request DescribeShareGroupOffsetsRequest<'a>
        for DescribeShareGroupOffsets, versions 0-0, flexible 0
    {
        groups: Vec<DescribeShareGroupOffsetsRequestGroup<'a>>;
    }

    /// An element of `groups` in [`DescribeShareGroupOffsetsRequest`].
    struct DescribeShareGroupOffsetsRequestGroup<'a> {
        group_id: &'a str;
        topics: Option<Vec<DescribeShareGroupOffsetsRequestTopic<'a>>> = Some(Vec::new());
    }

    /// An element of `topics` in [`DescribeShareGroupOffsetsRequestGroup`].
    struct DescribeShareGroupOffsetsRequestTopic<'a> {
        topic_name: &'a str;
        partitions: Vec<i32>;
    }

    /// Answer to [`DescribeShareGroupOffsetsRequest`].
    response DescribeShareGroupOffsetsResponse<'a>
        for DescribeShareGroupOffsets, versions 0-0, flexible 0
    {
        throttle_time_ms: i32;
        groups: Vec<DescribeShareGroupOffsetsResponseGroup<'a>>;
    }

    /// An element of `groups` in [`DescribeShareGroupOffsetsResponse`].
    struct DescribeShareGroupOffsetsResponseGroup<'a> {
        group_id: &'a str;
        topics: Vec<DescribeShareGroupOffsetsResponseTopic<'a>>;
        error_code: i16;
        error_message: Option<&'a str> = None;
    }

    /// An element of `topics` in [`DescribeShareGroupOffsetsResponseGroup`].
    struct DescribeShareGroupOffsetsResponseTopic<'a> {
        topic_name: &'a str;
        topic_id: Uuid;
        partitions: Vec<DescribeShareGroupOffsetsResponsePartition<'a>>;
    }

    /// An element of `partitions` in [`DescribeShareGroupOffsetsResponseTopic`].
    struct DescribeShareGroupOffsetsResponsePartition<'a> {
        partition_index: i32;
        start_offset: i64;
        leader_epoch: i32;
        error_code: i16;
        error_message: Option<&'a str> = None;
    }
}
