//! OffsetFetch (key 9).

use crate::wire::declare::wire;
use crate::wire::primitives::Uuid;

wire! {
    /// Reads the offsets groups have stored; from version 8 on for many groups (KIP-709).
    request OffsetFetchRequest<'a> for OffsetFetch, versions 1-10, flexible 6 {
        group_id: &'a str, in 1-7;
        topics: Option<Vec<OffsetFetchRequestTopic<'a>>> = Some(Vec::new()), in 1-7, nullable 2-7;
        groups: Vec<OffsetFetchRequestGroup<'a>>, in 8+;
        require_stable: bool, in 7+;
    }

    /// An element of `topics` in [`OffsetFetchRequest`].
    struct OffsetFetchRequestTopic<'a> {
        name: &'a str;
        partition_indexes: Vec<i32>;
    }

    /// An element of `groups` in [`OffsetFetchRequest`].
    struct OffsetFetchRequestGroup<'a> {
        group_id: &'a str;
        member_id: Option<&'a str> = None, in 9+, else ignored;
        member_epoch: i32 = -1, in 9+, else ignored;
        topics: Option<Vec<OffsetFetchRequestTopics<'a>>> = Some(Vec::new());
    }

    /// An element of `topics` in [`OffsetFetchRequestGroup`].
    struct OffsetFetchRequestTopics<'a> {
        name: &'a str, in 8-9, else ignored;
        topic_id: Uuid, in 10+, else ignored;
        partition_indexes: Vec<i32>;
    }

    /// Answer to [`OffsetFetchRequest`].
    response OffsetFetchResponse<'a> for OffsetFetch, versions 1-10, flexible 6 {
        throttle_time_ms: i32, in 3+, else ignored;
        topics: Vec<OffsetFetchResponseTopic<'a>>, in 1-7;
        error_code: i16, in 2-7, else ignored;
        groups: Vec<OffsetFetchResponseGroup<'a>>, in 8+;
    }

    /// An element of `topics` in [`OffsetFetchResponse`].
    struct OffsetFetchResponseTopic<'a> {
        name: &'a str;
        partitions: Vec<OffsetFetchResponsePartition<'a>>;
    }

    /// An element of `partitions` in [`OffsetFetchResponseTopic`].
    struct OffsetFetchResponsePartition<'a> {
        partition_index: i32;
        committed_offset: i64;
        committed_leader_epoch: i32 = -1, in 5-7, else ignored;
        metadata: Option<&'a str> = Some("");
        error_code: i16;
    }

    /// An element of `groups` in [`OffsetFetchResponse`].
    struct OffsetFetchResponseGroup<'a> {
        group_id: &'a str;
        topics: Vec<OffsetFetchResponseTopics<'a>>;
        error_code: i16;
    }

    /// An element of `topics` in [`OffsetFetchResponseGroup`].
    struct OffsetFetchResponseTopics<'a> {
        name: &'a str, in 8-9, else ignored;
        topic_id: Uuid, in 10+, else ignored;
        partitions: Vec<OffsetFetchResponsePartitions<'a>>;
    }

    /// An element of `partitions` in [`OffsetFetchResponseTopics`].
    struct OffsetFetchResponsePartitions<'a> {
        partition_index: i32;
        committed_offset: i64;
        committed_leader_epoch: i32 = -1;
        metadata: Option<&'a str> = Some("");
        error_code: i16;
    }
}
