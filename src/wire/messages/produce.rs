//! Produce (key 0).

use crate::wire::declare::wire;
use crate::wire::primitives::Uuid;

wire! {
    /// Appends record batches to partitions. Version 13 names topics by id (KIP-516).
    request ProduceRequest<'a> for Produce, versions 3-13, flexible 9 {
        /// Null when the producer is not transactional.
        transactional_id: Option<&'a str> = None;
        /// 0: no answer at all; 1: durable here; -1: durable on the in-sync replicas.
        acks: i16;
        timeout_ms: i32;
        topic_data: Vec<TopicProduceData<'a>>;
    }

    /// An element of `topic_data` in [`ProduceRequest`].
    struct TopicProduceData<'a> {
        name: &'a str, in 3-12, else ignored;
        topic_id: Uuid, in 13+, else ignored;
        partition_data: Vec<PartitionProduceData<'a>>;
    }

    /// An element of `partition_data` in [`TopicProduceData`].
    struct PartitionProduceData<'a> {
        index: i32;
        /// Exactly one batch from version 3 on.
        records: Option<&'a [u8]> = Some(&[]);
    }

    /// Answer to [`ProduceRequest`].
    response ProduceResponse<'a> for Produce, versions 3-13, flexible 9 {
        responses: Vec<TopicProduceResponse<'a>>;
        throttle_time_ms: i32;
        node_endpoints: Vec<NodeEndpoint<'a>>, in 10+, tag 0;
    }

    /// An element of `responses` in [`ProduceResponse`].
    struct TopicProduceResponse<'a> {
        name: &'a str, in 3-12, else ignored;
        topic_id: Uuid, in 13+, else ignored;
        partition_responses: Vec<PartitionProduceResponse<'a>>;
    }

    /// An element of `partition_responses` in [`TopicProduceResponse`].
    struct PartitionProduceResponse<'a> {
        index: i32;
        error_code: i16;
        base_offset: i64;
        /// -1 unless the topic stamps the time of append.
        log_append_time_ms: i64 = -1;
        log_start_offset: i64 = -1, in 5+, else ignored;
        record_errors: Vec<BatchIndexAndErrorMessage<'a>>, in 8+, else ignored;
        error_message: Option<&'a str> = None, in 8+, else ignored;
        current_leader: LeaderIdAndEpoch, in 10+, tag 0;
    }

    /// An element of `record_errors` in [`PartitionProduceResponse`].
    struct BatchIndexAndErrorMessage<'a> {
        batch_index: i32;
        batch_index_error_message: Option<&'a str> = None;
    }

    /// The `current_leader` of [`PartitionProduceResponse`].
    struct LeaderIdAndEpoch {
        leader_id: i32 = -1;
        leader_epoch: i32 = -1;
    }

    /// An element of `node_endpoints` in [`ProduceResponse`].
    struct NodeEndpoint<'a> {
        node_id: i32;
        host: &'a str;
        port: i32;
        rack: Option<&'a str> = None;
    }
}
