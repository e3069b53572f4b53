//! Metadata (key 3).

use crate::wire::declare::wire;
use crate::wire::primitives::Uuid;

wire! {
    /// Asks for the brokers, and for topics by name or (from version 10 on) by id.
    request MetadataRequest<'a> for Metadata, versions 0-13, flexible 9 {
        /// Null: all. Empty: none, but all in version 0.
        topics: Option<Vec<MetadataRequestTopic<'a>>> = Some(Vec::new()), nullable 1+;
        allow_auto_topic_creation: bool = true, in 4+;
        include_cluster_authorized_operations: bool, in 8-10;
        include_topic_authorized_operations: bool, in 8+;
    }

    /// An element of `topics` in [`MetadataRequest`].
    struct MetadataRequestTopic<'a> {
        topic_id: Uuid, in 10+, else ignored;
        name: Option<&'a str> = Some(""), nullable 10+;
    }

    /// Answer to [`MetadataRequest`].
    response MetadataResponse<'a> for Metadata, versions 0-13, flexible 9 {
        throttle_time_ms: i32, in 3+, else ignored;
        brokers: Vec<MetadataResponseBroker<'a>>;
        cluster_id: Option<&'a str> = None, in 2+, else ignored;
        controller_id: i32 = -1, in 1+, else ignored;
        topics: Vec<MetadataResponseTopic<'a>>;
        /// A set of bits; `i32::MIN` when it was not asked for.
        cluster_authorized_operations: i32 = i32::MIN, in 8-10;
        error_code: i16, in 13+, else ignored;
    }

    /// An element of `brokers` in [`MetadataResponse`].
    struct MetadataResponseBroker<'a> {
        node_id: i32;
        host: &'a str;
        port: i32;
        rack: Option<&'a str> = None, in 1+, else ignored;
    }

    /// An element of `topics` in [`MetadataResponse`].
    struct MetadataResponseTopic<'a> {
        error_code: i16;
        /// Null only when asked by an id that is unknown.
        name: Option<&'a str> = Some(""), nullable 12+;
        topic_id: Uuid, in 10+, else ignored;
        is_internal: bool, in 1+, else ignored;
        partitions: Vec<MetadataResponsePartition>;
        /// A set of bits; `i32::MIN` when it was not asked for.
        topic_authorized_operations: i32 = i32::MIN, in 8+;
    }

    /// An element of `partitions` in [`MetadataResponseTopic`].
    struct MetadataResponsePartition {
        error_code: i16;
        partition_index: i32;
        leader_id: i32;
        leader_epoch: i32 = -1, in 7+, else ignored;
        replica_nodes: Vec<i32>;
        isr_nodes: Vec<i32>;
        offline_replicas: Vec<i32>, in 5+, else ignored;
    }
}
