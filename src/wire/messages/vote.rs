//! Vote (key 52).

use crate::wire::declare::wire;
use crate::wire::primitives::Uuid;

wire! {
    /// Asks a voter of the metadata quorum for its vote (KIP-595, pre-vote KIP-996).
    request VoteRequest<'a> for Vote, versions 0-2, flexible 0 {
        cluster_id: Option<&'a str> = None;
        voter_id: i32 = -1, in 1+, else ignored;
        topics: Vec<RequestTopicData<'a>>;
    }

    /// An element of `topics` in [`VoteRequest`].
    struct RequestTopicData<'a> {
        topic_name: &'a str;
        partitions: Vec<RequestPartitionData>;
    }

    /// An element of `partitions` in [`RequestTopicData`].
    struct RequestPartitionData {
        partition_index: i32;
        replica_epoch: i32;
        replica_id: i32;
        replica_directory_id: Uuid, in 1+, else ignored;
        voter_directory_id: Uuid, in 1+, else ignored;
        last_offset_epoch: i32;
        last_offset: i64;
        pre_vote: bool, in 2+;
    }

    /// Answer to [`VoteRequest`].
    response VoteResponse<'a> for Vote, versions 0-2, flexible 0 {
        error_code: i16;
        topics: Vec<ResponseTopicData<'a>>;
        node_endpoints: Vec<NodeEndpoint<'a>>, in 1+, tag 0;
    }

    /// An element of `topics` in [`VoteResponse`].
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
        vote_granted: bool;
    }

    /// An element of `node_endpoints` in [`VoteResponse`].
    struct NodeEndpoint<'a> {
        node_id: i32;
        host: &'a str;
        port: u16;
    }
}
