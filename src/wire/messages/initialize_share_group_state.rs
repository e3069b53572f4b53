//! InitializeShareGroupState (key 83).

use crate::wire::declare::wire;
use crate::wire::primitives::Uuid;

wire! {
    /// Creates the stored state of share partitions (KIP-932).
    request InitializeShareGroupStateRequest<'a>
        for InitializeShareGroupState, versions 0-0, flexible 0
    {
        group_id: &'a str;
        topics: Vec<InitializeStateData>;
    }

    /// An element of `topics` in [`InitializeShareGroupStateRequest`].
    struct InitializeStateData {
        topic_id: Uuid;
        partitions: Vec<PartitionData>;
    }

    /// An element of `partitions` in [`InitializeStateData`].
    struct PartitionData {
        partition: i32;
        state_epoch: i32;
        start_offset: i64;
    }

    /// Answer to [`InitializeShareGroupStateRequest`].
    response InitializeShareGroupStateResponse<'a>
        for InitializeShareGroupState, versions 0-0, flexible 0
    {
        results: Vec<InitializeStateResult<'a>>;
    }

    /// An element of `results` in [`InitializeShareGroupStateResponse`].
    struct InitializeStateResult<'a> {
        topic_id: Uuid;
        partitions: Vec<PartitionResult<'a>>;
    }

    /// An element of `partitions` in [`InitializeStateResult`].
    struct PartitionResult<'a> {
        partition: i32;
        error_code: i16;
        error_message: Option<&'a str> = None;
    }
}
