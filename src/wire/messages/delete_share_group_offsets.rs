//! DeleteShareGroupOffsets (key 92).

use crate::wire::declare::wire;
use crate::wire::primitives::Uuid;

wire! {
    /// Deletes start offsets of share groups (KIP-932).
    request DeleteShareGroupOffsetsRequest<'a>
        for DeleteShareGroupOffsets, versions 0-0, flexible 0
    {
        group_id: &'a str;
        topics: Vec<DeleteShareGroupOffsetsRequestTopic<'a>>;
    }

    /// An element of `topics` in [`DeleteShareGroupOffsetsRequest`].
    struct DeleteShareGroupOffsetsRequestTopic<'a> {
        topic_name: &'a str;
    }

    /// Answer to [`DeleteShareGroupOffsetsRequest`].
    response DeleteShareGroupOffsetsResponse<'a>
        for DeleteShareGroupOffsets, versions 0-0, flexible 0
    {
        throttle_time_ms: i32;
        error_code: i16;
        error_message: Option<&'a str> = None;
        responses: Vec<DeleteShareGroupOffsetsResponseTopic<'a>>;
    }

    /// An element of `responses` in [`DeleteShareGroupOffsetsResponse`].
    struct DeleteShareGroupOffsetsResponseTopic<'a> {
        topic_name: &'a str;
        topic_id: Uuid;
        error_code: i16;
        error_message: Option<&'a str> = None;
    }
}
