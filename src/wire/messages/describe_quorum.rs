//! DescribeQuorum (key 55).

use crate::wire::declare::wire;
use crate::wire::primitives::Uuid;

wire! {
    /// Describes the metadata quorum (KIP-595).
    request DescribeQuorumRequest<'a> for DescribeQuorum, versions 0-2, flexible 0 {
        topics: Vec<RequestTopicData<'a>>;
    }

    /// An element of `topics` in [`DescribeQuorumRequest`].
    struct RequestTopicData<'a> {
        topic_name: &'a str;
        partitions: Vec<RequestPartitionData>;
    }

    /// An element of `partitions` in [`RequestTopicData`].
    struct RequestPartitionData {
        partition_index: i32;
    }

    /// Answer to [`DescribeQuorumRequest`].
    response DescribeQuorumResponse<'a> for DescribeQuorum, versions 0-2, flexible 0 {
        error_code: i16;
        error_message: Option<&'a str> = Some(""), in 2+, else ignored;
        topics: Vec<ResponseTopicData<'a>>;
        nodes: Vec<Node<'a>>, in 2+;
    }

    /// An element of `topics` in [`DescribeQuorumResponse`].
    struct ResponseTopicData<'a> {
        topic_name: &'a str;
        partitions: Vec<ResponsePartitionData<'a>>;
    }

    /// An element of `partitions` in [`ResponseTopicData`].
    struct ResponsePartitionData<'a> {
        partition_index: i32;
        error_code: i16;
        error_message: Option<&'a str> = Some(""), in 2+, else ignored;
        leader_id: i32;
        leader_epoch: i32;
        high_watermark: i64;
        current_voters: Vec<ReplicaState>;
        observers: Vec<ReplicaState>;
    }

    /// An element of `current_voters` in [`ResponsePartitionData`].
    struct ReplicaState {
        replica_id: i32;
        replica_directory_id: Uuid, in 2+;
        log_end_offset: i64;
        last_fetch_timestamp: i64 = -1, in 1+, else ignored;
        last_caught_up_timestamp: i64 = -1, in 1+, else ignored;
    }

    /// An element of `nodes` in [`DescribeQuorumResponse`].
    struct Node<'a> {
        node_id: i32;
        listeners: Vec<Listener<'a>>;
    }

    /// An element of `listeners` in [`Node`].
    struct Listener<'a> {
        name: &'a str;
        host: &'a str;
        port: u16;
    }
}
