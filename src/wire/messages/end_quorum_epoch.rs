//! EndQuorumEpoch (key 54).

use crate::wire::declare::wire;
use crate::wire::primitives::Uuid;

wire! {
    /// Resigns as leader of the metadata quorum (KIP-595).
    request EndQuorumEpochRequest<'a> for EndQuorumEpoch, versions 0-1, flexible 1 {
        cluster_id: Option<&'a str> = None;
        topics: Vec<RequestTopicData<'a>>;
        leader_endpoints: Vec<LeaderEndpoint<'a>>, in 1+, else ignored;
    }

    /// An element of `topics` in [`EndQuorumEpochRequest`].
    struct RequestTopicData<'a> {
        topic_name: &'a str;
        partitions: Vec<RequestPartitionData>;
    }

    /// An element of `partitions` in [`RequestTopicData`].
    struct RequestPartitionData {
        partition_index: i32;
        leader_id: i32;
        leader_epoch: i32;
        preferred_successors: Vec<i32>, in 0-0, else ignored;
        preferred_candidates: Vec<ReplicaInfo>, in 1+, else ignored;
    }

    /// An element of `preferred_candidates` in [`RequestPartitionData`].
    struct ReplicaInfo {
        candidate_id: i32;
        candidate_directory_id: Uuid;
    }

    /// An element of `leader_endpoints` in [`EndQuorumEpochRequest`].
    struct LeaderEndpoint<'a> {
        name: &'a str;
        host: &'a str;
        port: u16;
    }

    /// Answer to [`EndQuorumEpochRequest`].
    response EndQuorumEpochResponse<'a> for EndQuorumEpoch, versions 0-1, flexible 1 {
        error_code: i16;
        topics: Vec<ResponseTopicData<'a>>;
        node_endpoints: Vec<NodeEndpoint<'a>>, in 1+, tag 0;
    }

    /// An element of `topics` in [`EndQuorumEpochResponse`].
    struct ResponseTopicData<'a> {
        topic_name: &'a str;
        partitions: Vec<ResponsePartitionData>;
    }

    /// An element of `partitions` in [`ResponseTopicData`].
    struct ResponsePartitionData {
        partition_index: i32;
        error_code: i16;
        leader_id: i32;
        leader_epoch: i32;
    }

    /// An element of `node_endpoints` in [`EndQuorumEpochResponse`].
    struct NodeEndpoint<'a> {
        node_id: i32;
        host: &'a str;
        port: u16;
    }
}
