//! DescribeLogDirs (key 35).

use crate::wire::declare::wire;

wire! {
    /// Asks for the directories of a broker, and the size of the replicas in them.
    request DescribeLogDirsRequest<'a> for DescribeLogDirs, versions 1-4, flexible 2 {
        topics: Option<Vec<DescribableLogDirTopic<'a>>> = Some(Vec::new());
    }

    /// An element of `topics` in [`DescribeLogDirsRequest`].
    struct DescribableLogDirTopic<'a> {
        topic: &'a str;
        partitions: Vec<i32>;
    }

    /// Answer to [`DescribeLogDirsRequest`].
    response DescribeLogDirsResponse<'a> for DescribeLogDirs, versions 1-4, flexible 2 {
        throttle_time_ms: i32;
        error_code: i16, in 3+, else ignored;
        results: Vec<DescribeLogDirsResult<'a>>;
    }

    /// An element of `results` in [`DescribeLogDirsResponse`].
    struct DescribeLogDirsResult<'a> {
        error_code: i16;
        log_dir: &'a str;
        topics: Vec<DescribeLogDirsTopic<'a>>;
        total_bytes: i64 = -1, in 4+, else ignored;
        usable_bytes: i64 = -1, in 4+, else ignored;
    }

    /// An element of `topics` in [`DescribeLogDirsResult`].
    struct DescribeLogDirsTopic<'a> {
        name: &'a str;
        partitions: Vec<DescribeLogDirsPartition>;
    }

    /// An element of `partitions` in [`DescribeLogDirsTopic`].
    struct DescribeLogDirsPartition {
        partition_index: i32;
        partition_size: i64;
        offset_lag: i64;
        is_future_key: bool;
    }
}
