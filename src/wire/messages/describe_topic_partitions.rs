//! DescribeTopicPartitions (key 75).

use crate::wire::declare::{wire, wire_nullable};
use crate::wire::primitives::Uuid;

wire! {
    /// Asks for partitions of topics page by page (KIP-966).
    request DescribeTopicPartitionsRequest<'a>
        for DescribeTopicPartitions, versions 0-0, flexible 0
    {
        topics: Vec<TopicRequest<'a>>;
        response_partition_limit: i32 = 2000;
        cursor: Option<Cursor<'a>> = None;
    }

    /// An element of `topics` in [`DescribeTopicPartitionsRequest`].
    struct TopicRequest<'a> {
        name: &'a str;
    }

    /// The `cursor` of [`DescribeTopicPartitionsRequest`].
    struct Cursor<'a> {
        topic_name: &'a str;
        partition_index: i32;
    }

    /// Answer to [`DescribeTopicPartitionsRequest`].
    response DescribeTopicPartitionsResponse<'a>
        for DescribeTopicPartitions, versions 0-0, flexible 0
    {
        throttle_time_ms: i32;
        topics: Vec<DescribeTopicPartitionsResponseTopic<'a>>;
        next_cursor: Option<Cursor<'a>> = None;
    }

    /// An element of `topics` in [`DescribeTopicPartitionsResponse`].
    struct DescribeTopicPartitionsResponseTopic<'a> {
        error_code: i16;
        name: Option<&'a str> = Some("");
        topic_id: Uuid;
        is_internal: bool;
        partitions: Vec<DescribeTopicPartitionsResponsePartition>;
        topic_authorized_operations: i32 = i32::MIN;
    }

    /// An element of `partitions` in [`DescribeTopicPartitionsResponseTopic`].
    struct DescribeTopicPartitionsResponsePartition {
        error_code: i16;
        partition_index: i32;
        leader_id: i32;
        leader_epoch: i32 = -1;
        replica_nodes: Vec<i32>;
        isr_nodes: Vec<i32>;
        eligible_leader_replicas: Option<Vec<i32>> = None;
        last_known_elr: Option<Vec<i32>> = None;
        offline_replicas: Vec<i32>;
    }
}

wire_nullable!(Cursor<'a>);
