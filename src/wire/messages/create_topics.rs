//! CreateTopics (key 19).

use crate::wire::declare::wire;
use crate::wire::primitives::Uuid;

wire! {
    /// Creates topics; -1 partitions or replicas mean the default (KIP-464).
    request CreateTopicsRequest<'a> for CreateTopics, versions 2-7, flexible 5 {
        topics: Vec<CreatableTopic<'a>>;
        timeout_ms: i32 = 60000;
        validate_only: bool;
    }

    /// An element of `topics` in [`CreateTopicsRequest`].
    struct CreatableTopic<'a> {
        name: &'a str;
        /// -1 with an assignment, or for the broker's default.
        num_partitions: i32;
        /// -1 with an assignment, or for the broker's default.
        replication_factor: i16;
        assignments: Vec<CreatableReplicaAssignment>;
        configs: Vec<CreatableTopicConfig<'a>>;
    }

    /// An element of `assignments` in [`CreatableTopic`].
    struct CreatableReplicaAssignment {
        partition_index: i32;
        broker_ids: Vec<i32>;
    }

    /// An element of `configs` in [`CreatableTopic`].
    struct CreatableTopicConfig<'a> {
        name: &'a str;
        value: Option<&'a str> = Some("");
    }

    /// Answer to [`CreateTopicsRequest`].
    response CreateTopicsResponse<'a> for CreateTopics, versions 2-7, flexible 5 {
        throttle_time_ms: i32;
        topics: Vec<CreatableTopicResult<'a>>;
    }

    /// An element of `topics` in [`CreateTopicsResponse`].
    struct CreatableTopicResult<'a> {
        name: &'a str;
        topic_id: Uuid, in 7+, else ignored;
        error_code: i16;
        error_message: Option<&'a str> = Some("");
        topic_config_error_code: i16, in 5+, tag 0, else ignored;
        num_partitions: i32 = -1, in 5+, else ignored;
        replication_factor: i16 = -1, in 5+, else ignored;
        /// Null when the caller may not see them.
        configs: Option<Vec<CreatableTopicConfigs<'a>>> = Some(Vec::new()), in 5+, else ignored;
    }

    /// An element of `configs` in [`CreatableTopicResult`].
    struct CreatableTopicConfigs<'a> {
        name: &'a str;
        value: Option<&'a str> = Some("");
        read_only: bool;
        config_source: i8 = -1;
        is_sensitive: bool;
    }
}
