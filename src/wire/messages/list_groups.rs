//! ListGroups (key 16).

use crate::wire::declare::wire;

wire! {
    /// Lists groups, by state (KIP-518) and type (KIP-848).
    request ListGroupsRequest<'a> for ListGroups, versions 0-5, flexible 3 {
        states_filter: Vec<&'a str>, in 4+;
        types_filter: Vec<&'a str>, in 5+;
    }

    /// Answer to [`ListGroupsRequest`].
    response ListGroupsResponse<'a> for ListGroups, versions 0-5, flexible 3 {
        throttle_time_ms: i32, in 1+, else ignored;
        error_code: i16;
        groups: Vec<ListedGroup<'a>>;
    }

    /// An element of `groups` in [`ListGroupsResponse`].
    struct ListedGroup<'a> {
        group_id: &'a str;
        protocol_type: &'a str;
        group_state: &'a str, in 4+, else ignored;
        group_type: &'a str, in 5+, else ignored;
    }
}
