//! DeleteRecords (key 21).

use crate::wire::declare::wire;

wire! {
    /// Moves the start of partitions forward.
    request DeleteRecordsRequest<'a> for DeleteRecords, versions 0-2, flexible 2 {
        topics: Vec<DeleteRecordsTopic<'a>>;
        timeout_ms: i32;
    }

    /// An element of `topics` in [`DeleteRecordsRequest`].
    struct DeleteRecordsTopic<'a> {
        name: &'a str;
        partitions: Vec<DeleteRecordsPartition>;
    }

    /// An element of `partitions` in [`DeleteRecordsTopic`].
    struct DeleteRecordsPartition {
        partition_index: i32;
        offset: i64;
    }

    /// Answer to [`DeleteRecordsRequest`].
    response DeleteRecordsResponse<'a> for DeleteRecords, versions 0-2, flexible 2 {
        throttle_time_ms: i32;
        topics: Vec<DeleteRecordsTopicResult<'a>>;
    }

    /// An element of `topics` in [`DeleteRecordsResponse`].
    struct DeleteRecordsTopicResult<'a> {
        name: &'a str;
        partitions: Vec<DeleteRecordsPartitionResult>;
    }

    /// An element of `partitions` in [`DeleteRecordsTopicResult`].
    struct DeleteRecordsPartitionResult {
        partition_index: i32;
        low_watermark: i64;
        error_code: i16;
    }
}
