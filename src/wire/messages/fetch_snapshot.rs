//! FetchSnapshot (key 59).

use crate::wire::declare::wire;
use crate::wire::primitives::Uuid;

wire! {
    /// Reads a piece of a metadata snapshot (KIP-630).
    request FetchSnapshotRequest<'a> for FetchSnapshot, versions 0-1, flexible 0 {
        cluster_id: Option<&'a str> = None, tag 0;
        replica_id: i32 = -1;
        max_bytes: i32 = i32::MAX;
        topics: Vec<RequestTopicSnapshot<'a>>;
    }

    /// An element of `topics` in [`FetchSnapshotRequest`].
    struct RequestTopicSnapshot<'a> {
        name: &'a str;
        partitions: Vec<RequestPartitionSnapshot>;
    }

    /// An element of `partitions` in [`RequestTopicSnapshot`].
    struct RequestPartitionSnapshot {
        partition: i32;
        current_leader_epoch: i32;
        snapshot_id: SnapshotId;
        position: i64;
        replica_directory_id: Uuid, in 1+, tag 0, else ignored;
    }

    /// The `snapshot_id` of [`RequestPartitionSnapshot`].
    struct SnapshotId {
        end_offset: i64;
        epoch: i32;
    }

    /// Answer to [`FetchSnapshotRequest`].
    response FetchSnapshotResponse<'a> for FetchSnapshot, versions 0-1, flexible 0 {
        throttle_time_ms: i32;
        error_code: i16;
        topics: Vec<ResponseTopicSnapshot<'a>>;
        node_endpoints: Vec<NodeEndpoint<'a>>, in 1+, tag 0;
    }

    /// An element of `topics` in [`FetchSnapshotResponse`].
    struct ResponseTopicSnapshot<'a> {
        name: &'a str;
        partitions: Vec<ResponsePartitionSnapshot<'a>>;
    }

    /// An element of `partitions` in [`ResponseTopicSnapshot`].
    struct ResponsePartitionSnapshot<'a> {
        index: i32;
        error_code: i16;
        snapshot_id: SnapshotId;
        current_leader: LeaderIdAndEpoch, tag 0;
        size: i64;
        position: i64;
        unaligned_records: &'a [u8];
    }

    /// The `current_leader` of [`ResponsePartitionSnapshot`].
    struct LeaderIdAndEpoch {
        leader_id: i32;
        leader_epoch: i32;
    }

    /// An element of `node_endpoints` in [`FetchSnapshotResponse`].
    struct NodeEndpoint<'a> {
        node_id: i32;
        host: &'a str;
        port: u16;
    }
}
