//! DescribeProducers (key 61).

use crate::wire::declare::wire;

wire! {
    /// Lists the active producers of partitions (KIP-664).
    request DescribeProducersRequest<'a> for DescribeProducers, versions 0-0, flexible 0 {
        topics: Vec<TopicRequest<'a>>;
    }

    /// An element of `topics` in [`DescribeProducersRequest`].
    struct TopicRequest<'a> {
        name: &'a str;
        partition_indexes: Vec<i32>;
    }

    /// Answer to [`DescribeProducersRequest`].
    response DescribeProducersResponse<'a> for DescribeProducers, versions 0-0, flexible 0 {
        throttle_time_ms: i32;
        topics: Vec<TopicResponse<'a>>;
    }

    /// An element of `topics` in [`DescribeProducersResponse`].
    struct TopicResponse<'a> {
        name: &'a str;
        partitions: Vec<PartitionResponse<'a>>;
    }

    /// An element of `partitions` in [`TopicResponse`].
    struct PartitionResponse<'a> {
        partition_index: i32;
        error_code: i16;
        error_message: Option<&'a str> = None;
        active_producers: Vec<ProducerState>;
    }

    /// An element of `active_producers` in [`PartitionResponse`].
    struct ProducerState {
        producer_id: i64;
        producer_epoch: i32;
        last_sequence: i32 = -1;
        last_timestamp: i64 = -1;
        coordinator_epoch: i32;
        current_txn_start_offset: i64 = -1;
    }
}
