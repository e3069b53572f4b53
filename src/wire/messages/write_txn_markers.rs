//! WriteTxnMarkers (key 27).

use crate::wire::declare::wire;

wire! {
    /// Tells a partition's leader that transactions ended. Sent by coordinators.
    request WriteTxnMarkersRequest<'a> for WriteTxnMarkers, versions 1-2, flexible 1 {
        markers: Vec<WritableTxnMarker<'a>>;
    }

    /// An element of `markers` in [`WriteTxnMarkersRequest`].
    struct WritableTxnMarker<'a> {
        producer_id: i64;
        producer_epoch: i16;
        transaction_result: bool;
        topics: Vec<WritableTxnMarkerTopic<'a>>;
        coordinator_epoch: i32;
        /// 2 for transactions whose end bumps the epoch (KIP-1228).
        transaction_version: i8, in 2+, else ignored;
    }

    /// An element of `topics` in [`WritableTxnMarker`].
    struct WritableTxnMarkerTopic<'a> {
        name: &'a str;
        partition_indexes: Vec<i32>;
    }

    /// Answer to [`WriteTxnMarkersRequest`].
    response WriteTxnMarkersResponse<'a> for WriteTxnMarkers, versions 1-2, flexible 1 {
        markers: Vec<WritableTxnMarkerResult<'a>>;
    }

    /// An element of `markers` in [`WriteTxnMarkersResponse`].
    struct WritableTxnMarkerResult<'a> {
        producer_id: i64;
        topics: Vec<WritableTxnMarkerTopicResult<'a>>;
    }

    /// An element of `topics` in [`WritableTxnMarkerResult`].
    struct WritableTxnMarkerTopicResult<'a> {
        name: &'a str;
        partitions: Vec<WritableTxnMarkerPartitionResult>;
    }

    /// An element of `partitions` in [`WritableTxnMarkerTopicResult`].
    struct WritableTxnMarkerPartitionResult {
        partition_index: i32;
        error_code: i16;
    }
}
