//! Fetch (key 1).

use crate::wire::declare::wire;
use crate::wire::primitives::Uuid;
use crate::wire::schema::Records;

wire! {
    /// Reads record batches: consumers, followers (`replica_state`) and sessions (KIP-227).
    request FetchRequest<'a> for Fetch, versions 4-18, flexible 12 {
        cluster_id: Option<&'a str> = None, in 12+, tag 0, else ignored;
        /// -1 for consumers, else the follower's broker id.
        replica_id: i32 = -1, in 4-14;
        replica_state: ReplicaState, in 15+, tag 1;
        max_wait_ms: i32;
        min_bytes: i32;
        /// Not a hard limit: the first batch is sent whole, however large (KIP-74).
        max_bytes: i32 = i32::MAX;
        /// 0: up to the HighWatermark; 1: up to the LastStableOffset.
        isolation_level: i8;
        session_id: i32, in 7+, else ignored;
        /// 0 asks for a new session, -1 for none, else the next epoch (KIP-227).
        session_epoch: i32 = -1, in 7+, else ignored;
        topics: Vec<FetchTopic<'a>>;
        /// Partitions that leave an incremental session.
        forgotten_topics_data: Vec<ForgottenTopic<'a>>, in 7+;
        rack_id: &'a str, in 11+, else ignored;
    }

    /// The `replica_state` of [`FetchRequest`].
    struct ReplicaState {
        replica_id: i32 = -1;
        replica_epoch: i64 = -1;
    }

    /// An element of `topics` in [`FetchRequest`].
    struct FetchTopic<'a> {
        topic: &'a str, in 4-12, else ignored;
        topic_id: Uuid, in 13+, else ignored;
        partitions: Vec<FetchPartition>;
    }

    /// An element of `partitions` in [`FetchTopic`].
    struct FetchPartition {
        partition: i32;
        /// -1: the client does not know it, and it is not compared (KIP-320).
        current_leader_epoch: i32 = -1, in 9+, else ignored;
        fetch_offset: i64;
        /// -1 for consumers; a follower asks with it whether logs diverge.
        last_fetched_epoch: i32 = -1, in 12+;
        log_start_offset: i64 = -1, in 5+, else ignored;
        partition_max_bytes: i32;
        /// Only of followers with directory ids (KIP-853).
        replica_directory_id: Uuid, in 17+, tag 0, else ignored;
        high_watermark: i64 = i64::MAX, in 18+, tag 1, else ignored;
    }

    /// An element of `forgotten_topics_data` in [`FetchRequest`].
    struct ForgottenTopic<'a> {
        topic: &'a str, in 7-12, else ignored;
        topic_id: Uuid, in 13+, else ignored;
        partitions: Vec<i32>;
    }

    /// Answer to [`FetchRequest`].
    response FetchResponse<'a> for Fetch, versions 4-18, flexible 12 {
        throttle_time_ms: i32;
        error_code: i16, in 7+, else ignored;
        session_id: i32, in 7+;
        responses: Vec<FetchableTopicResponse<'a>>;
        node_endpoints: Vec<NodeEndpoint<'a>>, in 16+, tag 0;
    }

    /// An element of `responses` in [`FetchResponse`].
    struct FetchableTopicResponse<'a> {
        topic: &'a str, in 4-12, else ignored;
        topic_id: Uuid, in 13+, else ignored;
        partitions: Vec<PartitionData<'a>>;
    }

    /// An element of `partitions` in [`FetchableTopicResponse`].
    struct PartitionData<'a> {
        partition_index: i32;
        error_code: i16;
        high_watermark: i64;
        last_stable_offset: i64 = -1;
        log_start_offset: i64 = -1, in 5+, else ignored;
        diverging_epoch: EpochEndOffset, in 12+, tag 0;
        current_leader: LeaderIdAndEpoch, in 12+, tag 1;
        snapshot_id: SnapshotId, in 12+, tag 2;
        /// Null under isolation 0, else sorted by first offset.
        aborted_transactions: Option<Vec<AbortedTransaction>> = Some(Vec::new());
        /// -1: read from this broker (KIP-392).
        preferred_read_replica: i32 = -1, in 11+;
        records: Records<'a> = Records::EMPTY;
    }

    /// The `diverging_epoch` of [`PartitionData`].
    struct EpochEndOffset {
        epoch: i32 = -1;
        end_offset: i64 = -1;
    }

    /// The `current_leader` of [`PartitionData`].
    struct LeaderIdAndEpoch {
        leader_id: i32 = -1;
        leader_epoch: i32 = -1;
    }

    /// The `snapshot_id` of [`PartitionData`].
    struct SnapshotId {
        end_offset: i64 = -1;
        epoch: i32 = -1;
    }

    /// An element of `aborted_transactions` in [`PartitionData`].
    struct AbortedTransaction {
        producer_id: i64;
        first_offset: i64;
    }

    /// An element of `node_endpoints` in [`FetchResponse`].
    struct NodeEndpoint<'a> {
        node_id: i32;
        host: &'a str;
        port: i32;
        rack: Option<&'a str> = None;
    }
}
