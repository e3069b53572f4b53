//! AssignReplicasToDirs (key 73).

use crate::wire::declare::wire;
use crate::wire::primitives::Uuid;

wire! {
    /// Tells the controller in which directories replicas lie (KIP-858).
    request AssignReplicasToDirsRequest for AssignReplicasToDirs, versions 0-0, flexible 0 {
        broker_id: i32;
        broker_epoch: i64 = -1;
        directories: Vec<RequestDirectoryData>;
    }

    /// An element of `directories` in [`AssignReplicasToDirsRequest`].
    struct RequestDirectoryData {
        id: Uuid;
        topics: Vec<RequestTopicData>;
    }

    /// An element of `topics` in [`RequestDirectoryData`].
    struct RequestTopicData {
        topic_id: Uuid;
        partitions: Vec<RequestPartitionData>;
    }

    /// An element of `partitions` in [`RequestTopicData`].
    struct RequestPartitionData {
        partition_index: i32;
    }

    /// Answer to [`AssignReplicasToDirsRequest`].
    response AssignReplicasToDirsResponse for AssignReplicasToDirs, versions 0-0, flexible 0 {
        throttle_time_ms: i32;
        error_code: i16;
        directories: Vec<ResponseDirectoryData>;
    }

    /// An element of `directories` in [`AssignReplicasToDirsResponse`].
    struct ResponseDirectoryData {
        id: Uuid;
        topics: Vec<ResponseTopicData>;
    }

    /// An element of `topics` in [`ResponseDirectoryData`].
    struct ResponseTopicData {
        topic_id: Uuid;
        partitions: Vec<ResponsePartitionData>;
    }

    /// An element of `partitions` in [`ResponseTopicData`].
    struct ResponsePartitionData {
        partition_index: i32;
        error_code: i16;
    }
}
