//! ConsumerGroupHeartbeat (key 68).

use crate::wire::declare::{wire, wire_nullable};
use crate::wire::primitives::Uuid;

wire! {
    /// Joins, keeps and leaves a new consumer group (KIP-848). Null means unchanged.
    request ConsumerGroupHeartbeatRequest<'a>
        for ConsumerGroupHeartbeat, versions 0-1, flexible 0
    {
        group_id: &'a str;
        member_id: &'a str;
        member_epoch: i32;
        instance_id: Option<&'a str> = None;
        rack_id: Option<&'a str> = None;
        rebalance_timeout_ms: i32 = -1;
        subscribed_topic_names: Option<Vec<&'a str>> = None;
        subscribed_topic_regex: Option<&'a str> = None, in 1+;
        server_assignor: Option<&'a str> = None;
        topic_partitions: Option<Vec<TopicPartitions>> = None;
    }

    /// An element of `topic_partitions` in [`ConsumerGroupHeartbeatRequest`].
    struct TopicPartitions {
        topic_id: Uuid;
        partitions: Vec<i32>;
    }

    /// Answer to [`ConsumerGroupHeartbeatRequest`].
    response ConsumerGroupHeartbeatResponse<'a>
        for ConsumerGroupHeartbeat, versions 0-1, flexible 0
    {
        throttle_time_ms: i32;
        error_code: i16;
        error_message: Option<&'a str> = None;
        member_id: Option<&'a str> = None;
        member_epoch: i32;
        heartbeat_interval_ms: i32;
        assignment: Option<Assignment> = None;
    }

    /// The `assignment` of [`ConsumerGroupHeartbeatResponse`].
    struct Assignment {
        topic_partitions: Vec<TopicPartitions>;
    }
}

wire_nullable!(Assignment);
