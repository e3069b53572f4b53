//! ReadShareGroupState (key 84).

use crate::wire::declare::wire;
use crate::wire::primitives::Uuid;

wire! {
    /// Reads the stored state of share partitions (KIP-932).
    request ReadShareGroupStateRequest<'a> for ReadShareGroupState, versions 0-0, flexible 0 {
        group_id: &'a str;
        topics: Vec<ReadStateData>;
    }

    /// An element of `topics` in [`ReadShareGroupStateRequest`].
    struct ReadStateData {
        topic_id: Uuid;
        partitions: Vec<PartitionData>;
    }

    /// An element of `partitions` in [`ReadStateData`].
    struct PartitionData {
        partition: i32;
        leader_epoch: i32;
    }

    /// Answer to [`ReadShareGroupStateRequest`].
    response ReadShareGroupStateResponse<'a> for ReadShareGroupState, versions 0-0, flexible 0 {
        results: Vec<ReadStateResult<'a>>;
    }

    /// An element of `results` in [`ReadShareGroupStateResponse`].
    struct ReadStateResult<'a> {
        topic_id: Uuid;
        partitions: Vec<PartitionResult<'a>>;
    }

    /// An element of `partitions` in [`ReadStateResult`].
    struct PartitionResult<'a> {
        partition: i32;
        error_code: i16;
        error_message: Option<&'a str> = None;
        state_epoch: i32;
        start_offset: i64;
        state_batches: Vec<StateBatch>;
    }

    /// An element of `state_batches` in [`PartitionResult`].
    struct StateBatch {
        first_offset: i64;
        last_offset: i64;
        delivery_state: i8;
        delivery_count: i16;
    }
}
