//! ShareAcknowledge (key 79).

use crate::wire::declare::wire;
use crate::wire::primitives::Uuid;

wire! {
    /// Acknowledges records acquired for a share group (KIP-932).
    request ShareAcknowledgeRequest<'a> for ShareAcknowledge, versions 1-1, flexible 0 {
        group_id: Option<&'a str> = None;
        member_id: Option<&'a str> = Some("");
        share_session_epoch: i32;
        topics: Vec<AcknowledgeTopic>;
    }

    /// An element of `topics` in [`ShareAcknowledgeRequest`].
    struct AcknowledgeTopic {
        topic_id: Uuid;
        partitions: Vec<AcknowledgePartition>;
    }

    /// An element of `partitions` in [`AcknowledgeTopic`].
    struct AcknowledgePartition {
        partition_index: i32;
        acknowledgement_batches: Vec<AcknowledgementBatch>;
    }

    /// An element of `acknowledgement_batches` in [`AcknowledgePartition`].
    struct AcknowledgementBatch {
        first_offset: i64;
        last_offset: i64;
        acknowledge_types: Vec<i8>;
    }

    /// Answer to [`ShareAcknowledgeRequest`].
    response ShareAcknowledgeResponse<'a> for ShareAcknowledge, versions 1-1, flexible 0 {
        throttle_time_ms: i32;
        error_code: i16;
        error_message: Option<&'a str> = None;
        responses: Vec<ShareAcknowledgeTopicResponse<'a>>;
        node_endpoints: Vec<NodeEndpoint<'a>>;
    }

    /// An element of `responses` in [`ShareAcknowledgeResponse`].
    struct ShareAcknowledgeTopicResponse<'a> {
        topic_id: Uuid;
        partitions: Vec<PartitionData<'a>>;
    }

    /// An element of `partitions` in [`ShareAcknowledgeTopicResponse`].
    struct PartitionData<'a> {
        partition_index: i32;
        error_code: i16;
        error_message: Option<&'a str> = None;
        current_leader: LeaderIdAndEpoch;
    }

    /// The `current_leader` of [`PartitionData`].
    struct LeaderIdAndEpoch {
        leader_id: i32;
        leader_epoch: i32;
    }

    /// An element of `node_endpoints` in [`ShareAcknowledgeResponse`].
    struct NodeEndpoint<'a> {
        node_id: i32;
        host: &'a str;
        port: i32;
        rack: Option<&'a str> = None;
    }
}
