//! AlterPartitionReassignments (key 45).

use crate::wire::declare::wire;

wire! {
    /// Moves replicas between brokers, or cancels moves (KIP-455).
    request AlterPartitionReassignmentsRequest<'a>
        for AlterPartitionReassignments, versions 0-1, flexible 0
    {
        timeout_ms: i32 = 60000;
        allow_replication_factor_change: bool = true, in 1+;
        topics: Vec<ReassignableTopic<'a>>;
    }

    /// An element of `topics` in [`AlterPartitionReassignmentsRequest`].
    struct ReassignableTopic<'a> {
        name: &'a str;
        partitions: Vec<ReassignablePartition>;
    }

    /// An element of `partitions` in [`ReassignableTopic`].
    struct ReassignablePartition {
        partition_index: i32;
        replicas: Option<Vec<i32>> = None;
    }

    /// Answer to [`AlterPartitionReassignmentsRequest`].
    response AlterPartitionReassignmentsResponse<'a>
        for AlterPartitionReassignments, versions 0-1, flexible 0
    {
        throttle_time_ms: i32;
        allow_replication_factor_change: bool = true, in 1+, else ignored;
        error_code: i16;
        error_message: Option<&'a str> = Some("");
        responses: Vec<ReassignableTopicResponse<'a>>;
    }

    /// An element of `responses` in [`AlterPartitionReassignmentsResponse`].
    struct ReassignableTopicResponse<'a> {
        name: &'a str;
        partitions: Vec<ReassignablePartitionResponse<'a>>;
    }

    /// An element of `partitions` in [`ReassignableTopicResponse`].
    struct ReassignablePartitionResponse<'a> {
        partition_index: i32;
        error_code: i16;
        error_message: Option<&'a str> = Some("");
    }
}
