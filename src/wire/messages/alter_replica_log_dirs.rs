//! AlterReplicaLogDirs (key 34).

use crate::wire::declare::wire;

wire! {
    /// Moves replicas to other directories of their broker.
    request AlterReplicaLogDirsRequest<'a> for AlterReplicaLogDirs, versions 1-2, flexible 2 {
        dirs: Vec<AlterReplicaLogDir<'a>>;
    }

    /// An element of `dirs` in [`AlterReplicaLogDirsRequest`].
    struct AlterReplicaLogDir<'a> {
        path: &'a str;
        topics: Vec<AlterReplicaLogDirTopic<'a>>;
    }

    /// An element of `topics` in [`AlterReplicaLogDir`].
    struct AlterReplicaLogDirTopic<'a> {
        name: &'a str;
        partitions: Vec<i32>;
    }

    /// Answer to [`AlterReplicaLogDirsRequest`].
    response AlterReplicaLogDirsResponse<'a> for AlterReplicaLogDirs, versions 1-2, flexible 2 {
        throttle_time_ms: i32;
        results: Vec<AlterReplicaLogDirTopicResult<'a>>;
    }

    /// An element of `results` in [`AlterReplicaLogDirsResponse`].
    struct AlterReplicaLogDirTopicResult<'a> {
        topic_name: &'a str;
        partitions: Vec<AlterReplicaLogDirPartitionResult>;
    }

    /// An element of `partitions` in [`AlterReplicaLogDirTopicResult`].
    struct AlterReplicaLogDirPartitionResult {
        partition_index: i32;
        error_code: i16;
    }
}
