//! ElectLeaders (key 43).

use crate::wire::declare::wire;

wire! {
    /// Starts leader elections; null partitions mean all (KIP-460).
    request ElectLeadersRequest<'a> for ElectLeaders, versions 0-2, flexible 2 {
        election_type: i8, in 1+;
        topic_partitions: Option<Vec<TopicPartitions<'a>>> = Some(Vec::new());
        timeout_ms: i32 = 60000;
    }

    /// An element of `topic_partitions` in [`ElectLeadersRequest`].
    struct TopicPartitions<'a> {
        topic: &'a str;
        partitions: Vec<i32>;
    }

    /// Answer to [`ElectLeadersRequest`].
    response ElectLeadersResponse<'a> for ElectLeaders, versions 0-2, flexible 2 {
        throttle_time_ms: i32;
        error_code: i16, in 1+;
        replica_election_results: Vec<ReplicaElectionResult<'a>>;
    }

    /// An element of `replica_election_results` in [`ElectLeadersResponse`].
    struct ReplicaElectionResult<'a> {
        topic: &'a str;
        partition_result: Vec<PartitionResult<'a>>;
    }

    /// An element of `partition_result` in [`ReplicaElectionResult`].
    struct PartitionResult<'a> {
        partition_id: i32;
        error_code: i16;
        error_message: Option<&'a str> = Some("");
    }
}
