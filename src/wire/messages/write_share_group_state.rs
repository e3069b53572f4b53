//! WriteShareGroupState (key 85).

use crate::wire::declare::wire;
use crate::wire::primitives::Uuid;

wire! {
    /// Stores the state of share partitions (KIP-932).
    request WriteShareGroupStateRequest<'a> for WriteShareGroupState, versions 0-0, flexible 0 {
        group_id: &'a str;
        topics: Vec<WriteStateData>;
    }

    /// An element of `topics` in [`WriteShareGroupStateRequest`].
    struct WriteStateData {
        topic_id: Uuid;
        partitions: Vec<PartitionData>;
    }

    /// An element of `partitions` in [`WriteStateData`].
    struct PartitionData {
        partition: i32;
        state_epoch: i32;
        leader_epoch: i32;
        start_offset: i64;
        state_batches: Vec<StateBatch>;
    }

    /// An element of `state_batches` in [`PartitionData`].
    struct StateBatch {
        first_offset: i64;
        last_offset: i64;
        delivery_state: i8;
        delivery_count: i16;
    }

    /// Answer to [`WriteShareGroupStateRequest`].
    response WriteShareGroupStateResponse<'a>
        for WriteShareGroupState, versions 0-0, flexible 0
    {
        results: Vec<WriteStateResult<'a>>;
    }

    /// An element of `results` in [`WriteShareGroupStateResponse`].
    struct WriteStateResult<'a> {
        topic_id: Uuid;
        partitions: Vec<PartitionResult<'a>>;
    }

    /// An element of `partitions` in [`WriteStateResult`].
    struct PartitionResult<'a> {
        partition: i32;
        error_code: i16;
        error_message: Option<&'a str> = None;
    }
}
