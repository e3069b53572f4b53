//! DescribeGroups (key 15).

use crate::wire::declare::wire;

wire! {
    /// Describes classic groups with their members.
    request DescribeGroupsRequest<'a> for DescribeGroups, versions 0-6, flexible 5 {
        groups: Vec<&'a str>;
        include_authorized_operations: bool, in 3+;
    }

    /// Answer to [`DescribeGroupsRequest`].
    response DescribeGroupsResponse<'a> for DescribeGroups, versions 0-6, flexible 5 {
        throttle_time_ms: i32, in 1+, else ignored;
        groups: Vec<DescribedGroup<'a>>;
    }

    /// An element of `groups` in [`DescribeGroupsResponse`].
    struct DescribedGroup<'a> {
        error_code: i16;
        error_message: Option<&'a str> = None, in 6+;
        group_id: &'a str;
        group_state: &'a str;
        protocol_type: &'a str;
        protocol_data: &'a str;
        members: Vec<DescribedGroupMember<'a>>;
        authorized_operations: i32 = i32::MIN, in 3+;
    }

    /// An element of `members` in [`DescribedGroup`].
    struct DescribedGroupMember<'a> {
        member_id: &'a str;
        group_instance_id: Option<&'a str> = None, in 4+, else ignored;
        client_id: &'a str;
        client_host: &'a str;
        member_metadata: &'a [u8];
        member_assignment: &'a [u8];
    }
}
