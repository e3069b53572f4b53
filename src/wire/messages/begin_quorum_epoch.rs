//! BeginQuorumEpoch (key 53).

use crate::wire::declare::wire;
use crate::wire::primitives::Uuid;

wire! {
    /// Announces a new leader of the metadata quorum (KIP-595).
    request BeginQuorumEpochRequest<'a> for BeginQuorumEpoch, versions 0-1, flexible 1 {
        cluster_id: Option<&'a str> = None;
        voter_id: i32 = -1, in 1+, else ignored;
        topics: Vec<RequestTopicData<'a>>;
        leader_endpoints: Vec<LeaderEndpoint<'a>>, in 1+, else ignored;
    }

    /// An element of `topics` in [`BeginQuorumEpochRequest`].
    struct RequestTopicData<'a> {
        topic_name: &'a str;
        partitions: Vec<RequestPartitionData>;
    }

    /// An element of `partitions` in [`RequestTopicData`].
    struct RequestPartitionData {
        partition_index: i32;
        voter_directory_id: Uuid, in 1+, else ignored;
        leader_id: i32;
        leader_epoch: i32;
    }

    /// An element of `leader_endpoints` in [`BeginQuorumEpochRequest`].
    struct LeaderEndpoint<'a> {
        name: &'a str;
        host: &'a str;
        port: u16;
    }

    /// Answer to [`BeginQuorumEpochRequest`].
    response BeginQuorumEpochResponse<'a> for BeginQuorumEpoch, versions 0-1, flexible 1 {
        error_code: i16;
        topics: Vec<ResponseTopicData<'a>>;
        node_endpoints: Vec<NodeEndpoint<'a>>, in 1+, tag 0;
    }

    /// An element of `topics` in [`BeginQuorumEpochResponse`].
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

    /// An element of `node_endpoints` in [`BeginQuorumEpochResponse`].
    struct NodeEndpoint<'a> {
        node_id: i32;
        host: &'a str;
        port: u16;
    }
}
