//! DeleteShareGroupState (key 86).

use crate::wire::declare::wire;
use crate::wire::primitives::Uuid;

wire! {
    /// Deletes the stored state of share partitions (KIP-932).
    request DeleteShareGroupStateRequest<'a>
        for DeleteShareGroupState, versions 0-0, flexible 0
    {
        group_id: &'a str;
        topics: Vec<DeleteStateData>;
    }

    /// An element of `topics` in [`DeleteShareGroupStateRequest`].
    struct DeleteStateData {
        topic_id: Uuid;
        partitions: Vec<PartitionData>;
    }

    /// An element of `partitions` in [`DeleteStateData`].
    struct PartitionData {
        partition: i32;
    }

    /// Answer to [`DeleteShareGroupStateRequest`].
    response DeleteShareGroupStateResponse<'a>
        for DeleteShareGroupState, versions 0-0, flexible 0
    {
        results: Vec<DeleteStateResult<'a>>;
    }

    /// An element of `results` in [`DeleteShareGroupStateResponse`].
    struct DeleteStateResult<'a> {
        topic_id: Uuid;
        partitions: Vec<PartitionResult<'a>>;
    }

    /// An element of `partitions` in [`DeleteStateResult`].
    struct PartitionResult<'a> {
        partition: i32;
        error_code: i16;
        error_message: Option<&'a str> = None;
    }
}
