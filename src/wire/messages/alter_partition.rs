//! AlterPartition (key 56).

use crate::wire::declare::wire;
use crate::wire::primitives::Uuid;

wire! {
    /// Proposes a new in-sync replica set to the controller (KIP-497).
    request AlterPartitionRequest for AlterPartition, versions 2-3, flexible 0 {
        broker_id: i32;
        broker_epoch: i64 = -1;
        topics: Vec<RequestTopicData>;
    }

    /// An element of `topics` in [`AlterPartitionRequest`].
    struct RequestTopicData {
        topic_id: Uuid;
        partitions: Vec<RequestPartitionData>;
    }

    /// An element of `partitions` in [`RequestTopicData`].
    struct RequestPartitionData {
        partition_index: i32;
        leader_epoch: i32;
        new_isr: Vec<i32>, in 2-2;
        new_isr_with_epochs: Vec<BrokerState>, in 3+;
        leader_recovery_state: i8;
        partition_epoch: i32;
    }

    /// An element of `new_isr_with_epochs` in [`RequestPartitionData`].
    struct BrokerState {
        broker_id: i32;
        broker_epoch: i64 = -1;
    }

    /// Answer to [`AlterPartitionRequest`].
    response AlterPartitionResponse for AlterPartition, versions 2-3, flexible 0 {
        throttle_time_ms: i32;
        error_code: i16;
        topics: Vec<ResponseTopicData>;
    }

    /// An element of `topics` in [`AlterPartitionResponse`].
    struct ResponseTopicData {
        topic_id: Uuid;
        partitions: Vec<ResponsePartitionData>;
    }

    /// An element of `partitions` in [`ResponseTopicData`].
    struct ResponsePartitionData {
        partition_index: i32;
        error_code: i16;
        leader_id: i32;
        leader_epoch: i32;
        isr: Vec<i32>;
        leader_recovery_state: i8;
        partition_epoch: i32;
    }
}
