//! ShareGroupHeartbeat (key 76).

use crate::wire::declare::{wire, wire_nullable};
use crate::wire::primitives::Uuid;

wire! {
    /// Joins, keeps and leaves a share group (KIP-932).
    request ShareGroupHeartbeatRequest<'a> for ShareGroupHeartbeat, versions 1-1, flexible 0 {
        group_id: &'a str;
        member_id: &'a str;
        member_epoch: i32;
        rack_id: Option<&'a str> = None;
        subscribed_topic_names: Option<Vec<&'a str>> = None;
    }

    /// Answer to [`ShareGroupHeartbeatRequest`].
    response ShareGroupHeartbeatResponse<'a> for ShareGroupHeartbeat, versions 1-1, flexible 0 {
        throttle_time_ms: i32;
        error_code: i16;
        error_message: Option<&'a str> = None;
        member_id: Option<&'a str> = None;
        member_epoch: i32;
        heartbeat_interval_ms: i32;
        assignment: Option<Assignment> = None;
    }

    /// The `assignment` of [`ShareGroupHeartbeatResponse`].
    struct Assignment {
        topic_partitions: Vec<TopicPartitions>;
    }

    /// An element of `topic_partitions` in [`Assignment`].
    struct TopicPartitions {
        topic_id: Uuid;
        partitions: Vec<i32>;
    }
}

wire_nullable!(Assignment);
