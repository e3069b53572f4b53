//! CreatePartitions (key 37).

use crate::wire::declare::wire;

wire! {
    /// Raises the number of partitions of topics.
    request CreatePartitionsRequest<'a> for CreatePartitions, versions 0-3, flexible 2 {
        topics: Vec<CreatePartitionsTopic<'a>>;
        timeout_ms: i32;
        validate_only: bool;
    }

    /// An element of `topics` in [`CreatePartitionsRequest`].
    struct CreatePartitionsTopic<'a> {
        name: &'a str;
        count: i32;
        assignments: Option<Vec<CreatePartitionsAssignment>> = Some(Vec::new());
    }

    /// An element of `assignments` in [`CreatePartitionsTopic`].
    struct CreatePartitionsAssignment {
        broker_ids: Vec<i32>;
    }

    /// Answer to [`CreatePartitionsRequest`].
    response CreatePartitionsResponse<'a> for CreatePartitions, versions 0-3, flexible 2 {
        throttle_time_ms: i32;
        results: Vec<CreatePartitionsTopicResult<'a>>;
    }

    /// An element of `results` in [`CreatePartitionsResponse`].
    struct CreatePartitionsTopicResult<'a> {
        name: &'a str;
        error_code: i16;
        error_message: Option<&'a str> = None;
    }
}
