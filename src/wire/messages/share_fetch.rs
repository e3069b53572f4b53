//! ShareFetch (key 78).

use crate::wire::declare::wire;
use crate::wire::primitives::Uuid;
use crate::wire::schema::Records;

wire! {
    /// Acquires records for a share group, and acknowledges others on the way (KIP-932).
    request ShareFetchRequest<'a> for ShareFetch, versions 1-1, flexible 0 {
        group_id: Option<&'a str> = None;
        member_id: Option<&'a str> = Some("");
        share_session_epoch: i32;
        max_wait_ms: i32;
        min_bytes: i32;
        max_bytes: i32 = i32::MAX;
        max_records: i32;
        batch_size: i32;
        topics: Vec<FetchTopic>;
        forgotten_topics_data: Vec<ForgottenTopic>;
    }

    /// An element of `topics` in [`ShareFetchRequest`].
    struct FetchTopic {
        topic_id: Uuid;
        partitions: Vec<FetchPartition>;
    }

    /// An element of `partitions` in [`FetchTopic`].
    struct FetchPartition {
        partition_index: i32;
        acknowledgement_batches: Vec<AcknowledgementBatch>;
    }

    /// An element of `acknowledgement_batches` in [`FetchPartition`].
    struct AcknowledgementBatch {
        first_offset: i64;
        last_offset: i64;
        acknowledge_types: Vec<i8>;
    }

    /// An element of `forgotten_topics_data` in [`ShareFetchRequest`].
    struct ForgottenTopic {
        topic_id: Uuid;
        partitions: Vec<i32>;
    }

    /// Answer to [`ShareFetchRequest`].
    response ShareFetchResponse<'a> for ShareFetch, versions 1-1, flexible 0 {
        throttle_time_ms: i32;
        error_code: i16;
        error_message: Option<&'a str> = None;
        acquisition_lock_timeout_ms: i32;
        responses: Vec<ShareFetchableTopicResponse<'a>>;
        node_endpoints: Vec<NodeEndpoint<'a>>;
    }

    /// An element of `responses` in [`ShareFetchResponse`].
    struct ShareFetchableTopicResponse<'a> {
        topic_id: Uuid;
        partitions: Vec<PartitionData<'a>>;
    }

    /// An element of `partitions` in [`ShareFetchableTopicResponse`].
    struct PartitionData<'a> {
        partition_index: i32;
        error_code: i16;
        error_message: Option<&'a str> = None;
        acknowledge_error_code: i16;
        acknowledge_error_message: Option<&'a str> = None;
        current_leader: LeaderIdAndEpoch;
        records: Records<'a> = Records::EMPTY;
        acquired_records: Vec<AcquiredRecords>;
    }

    /// The `current_leader` of [`PartitionData`].
    struct LeaderIdAndEpoch {
        leader_id: i32;
        leader_epoch: i32;
    }

    /// An element of `acquired_records` in [`PartitionData`].
    struct AcquiredRecords {
        first_offset: i64;
        last_offset: i64;
        delivery_count: i16;
    }

    /// An element of `node_endpoints` in [`ShareFetchResponse`].
    struct NodeEndpoint<'a> {
        node_id: i32;
        host: &'a str;
        port: i32;
        rack: Option<&'a str> = None;
    }
}
