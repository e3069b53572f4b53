//! ReadShareGroupStateSummary (key 87).

use crate::wire::declare::wire;
use crate::wire::primitives::Uuid;

wire! {
    /// Reads start offsets of share partitions (KIP-932).
    request ReadShareGroupStateSummaryRequest<'a>
        for ReadShareGroupStateSummary, versions 0-0, flexible 0
    {
        group_id: &'a str;
        topics: Vec<ReadStateSummaryData>;
    }

    /// An element of `topics` in [`ReadShareGroupStateSummaryRequest`].
    struct ReadStateSummaryData {
        topic_id: Uuid;
        partitions: Vec<PartitionData>;
    }

    /// An element of `partitions` in [`ReadStateSummaryData`].
    struct PartitionData {
        partition: i32;
        leader_epoch: i32;
    }

    /// Answer to [`ReadShareGroupStateSummaryRequest`].
    response ReadShareGroupStateSummaryResponse<'a>
        for ReadShareGroupStateSummary, versions 0-0, flexible 0
    {
        results: Vec<ReadStateSummaryResult<'a>>;
    }

    /// An element of `results` in [`ReadShareGroupStateSummaryResponse`].
    struct ReadStateSummaryResult<'a> {
        topic_id: Uuid;
        partitions: Vec<PartitionResult<'a>>;
    }

    /// An element of `partitions` in [`ReadStateSummaryResult`].
    struct PartitionResult<'a> {
        partition: i32;
        error_code: i16;
        error_message: Option<&'a str> = None;
        state_epoch: i32;
        leader_epoch: i32;
        start_offset: i64;
    }
}
