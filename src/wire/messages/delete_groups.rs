//! DeleteGroups (key 42).

use crate::wire::declare::wire;

wire! {
    /// Deletes empty groups.
    request DeleteGroupsRequest<'a> for DeleteGroups, versions 0-2, flexible 2 {
        groups_names: Vec<&'a str>;
    }

    /// Answer to [`DeleteGroupsRequest`].
    response DeleteGroupsResponse<'a> for DeleteGroups, versions 0-2, flexible 2 {
        throttle_time_ms: i32;
        results: Vec<DeletableGroupResult<'a>>;
    }

    /// An element of `results` in [`DeleteGroupsResponse`].
    struct DeletableGroupResult<'a> {
        group_id: &'a str;
        error_code: i16;
    }
}
