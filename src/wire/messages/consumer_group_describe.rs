//! ConsumerGroupDescribe (key 69).

use crate::wire::declare::wire;
use crate::wire::primitives::Uuid;

wire! {
    /// Describes consumer groups of the new protocol (KIP-848).
    request ConsumerGroupDescribeRequest<'a>
        for ConsumerGroupDescribe, versions 0-1, flexible 0
    {
        group_ids: Vec<&'a str>;
        include_authorized_operations: bool;
    }

    /// Answer to [`ConsumerGroupDescribeRequest`].
    response ConsumerGroupDescribeResponse<'a>
        for ConsumerGroupDescribe, versions 0-1, flexible 0
    {
        throttle_time_ms: i32;
        groups: Vec<DescribedGroup<'a>>;
    }

    /// An element of `groups` in [`ConsumerGroupDescribeResponse`].
    struct DescribedGroup<'a> {
        error_code: i16;
        error_message: Option<&'a str> = None;
        group_id: &'a str;
        group_state: &'a str;
        group_epoch: i32;
        assignment_epoch: i32;
        assignor_name: &'a str;
        members: Vec<Member<'a>>;
        authorized_operations: i32 = i32::MIN;
    }

    /// An element of `members` in [`DescribedGroup`].
    struct Member<'a> {
        member_id: &'a str;
        instance_id: Option<&'a str> = None;
        rack_id: Option<&'a str> = None;
        member_epoch: i32;
        client_id: &'a str;
        client_host: &'a str;
        subscribed_topic_names: Vec<&'a str>;
        subscribed_topic_regex: Option<&'a str> = None;
        assignment: Assignment<'a>;
        target_assignment: Assignment<'a>;
        member_type: i8 = -1, in 1+, else ignored;
    }

    /// The `assignment` of [`Member`].
    struct Assignment<'a> {
        topic_partitions: Vec<TopicPartitions<'a>>;
    }

    /// An element of `topic_partitions` in [`Assignment`].
    struct TopicPartitions<'a> {
        topic_id: Uuid;
        topic_name: &'a str;
        partitions: Vec<i32>;
    }
}
