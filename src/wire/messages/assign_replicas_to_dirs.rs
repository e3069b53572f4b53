//! AssignReplicasToDirs (key 73).

use crate::wire::declare::wire;
use crate::wire::primitives::Uuid;

wire! {
    /// Tells the controller in which directories replicas lie (KIP-858).
    request AssignReplicasToDirsRequest for AssignReplicasToDirs, versions 0-0, flexible 0 {
        broker_id: i32;
        broker_epoch: i64 = -1;
        directories: Vec<DirectoryData>;
    }

    /// An element of `directories` in [`AssignReplicasToDirsRequest`].
    struct DirectoryData {
        id: Uuid;
        topics: Vec<TopicData>;
    }

    /// An element of `topics` in [`DirectoryData`].
    struct TopicData {
        topic_id: Uuid;
        partitions: Vec<RequestPartitionData>;
    }

    /// An element of `partitions` in [`TopicData`].
    struct RequestPartitionData {
        partition_index: i32;
    }

    /// Answer to [`AssignReplicasToDirsRequest`].
    response AssignReplicasToDirsResponse for AssignReplicasToDirs, versions 0-0, flexible 0 {
        throttle_time_ms: i32;
        error_code: i16;
        directories: Vec<DirectoryData>;
    }

    /// An element of `partitions` in [`TopicData`].
    struct ResponsePartitionData {
        partition_index: i32;
        error_code: i16;
    }
}
