//! DeleteTopics (key 20).

use crate::wire::declare::wire;
use crate::wire::primitives::Uuid;

wire! {
    /// Deletes topics, from version 6 on also by id (KIP-516).
    request DeleteTopicsRequest<'a> for DeleteTopics, versions 1-6, flexible 4 {
        topics: Vec<DeleteTopicState<'a>>, in 6+;
        topic_names: Vec<&'a str>, in 1-5, else ignored;
        timeout_ms: i32;
    }

    /// An element of `topics` in [`DeleteTopicsRequest`].
    struct DeleteTopicState<'a> {
        name: Option<&'a str> = None;
        topic_id: Uuid;
    }

    /// Answer to [`DeleteTopicsRequest`].
    response DeleteTopicsResponse<'a> for DeleteTopics, versions 1-6, flexible 4 {
        throttle_time_ms: i32;
        responses: Vec<DeletableTopicResult<'a>>;
    }

    /// An element of `responses` in [`DeleteTopicsResponse`].
    struct DeletableTopicResult<'a> {
        name: Option<&'a str> = Some(""), nullable 6+;
        topic_id: Uuid, in 6+, else ignored;
        error_code: i16;
        error_message: Option<&'a str> = None, in 5+, else ignored;
    }
}
