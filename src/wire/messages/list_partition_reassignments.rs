//! ListPartitionReassignments (key 46).

use crate::wire::declare::wire;

wire! {
    /// Lists moves of replicas that are under way; null topics mean all (KIP-455).
    request ListPartitionReassignmentsRequest<'a>
        for ListPartitionReassignments, versions 0-0, flexible 0
    {
        timeout_ms: i32 = 60000;
        topics: Option<Vec<ListPartitionReassignmentsTopics<'a>>> = None;
    }

    /// An element of `topics` in [`ListPartitionReassignmentsRequest`].
    struct ListPartitionReassignmentsTopics<'a> {
        name: &'a str;
        partition_indexes: Vec<i32>;
    }

    /// Answer to [`ListPartitionReassignmentsRequest`].
    response ListPartitionReassignmentsResponse<'a>
        for ListPartitionReassignments, versions 0-0, flexible 0
    {
        throttle_time_ms: i32;
        error_code: i16;
        error_message: Option<&'a str> = Some("");
        topics: Vec<OngoingTopicReassignment<'a>>;
    }

    /// An element of `topics` in [`ListPartitionReassignmentsResponse`].
    struct OngoingTopicReassignment<'a> {
        name: &'a str;
        partitions: Vec<OngoingPartitionReassignment>;
    }

    /// An element of `partitions` in [`OngoingTopicReassignment`].
    struct OngoingPartitionReassignment {
        partition_index: i32;
        replicas: Vec<i32>;
        adding_replicas: Vec<i32>;
        removing_replicas: Vec<i32>;
    }
}
