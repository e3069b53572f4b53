//! DeleteAcls (key 31).

use crate::wire::declare::wire;

wire! {
    /// Deletes the access rules that match filters.
    request DeleteAclsRequest<'a> for DeleteAcls, versions 1-3, flexible 2 {
        filters: Vec<DeleteAclsFilter<'a>>;
    }

    /// An element of `filters` in [`DeleteAclsRequest`].
    struct DeleteAclsFilter<'a> {
        resource_type_filter: i8;
        resource_name_filter: Option<&'a str> = Some("");
        pattern_type_filter: i8 = 3;
        principal_filter: Option<&'a str> = Some("");
        host_filter: Option<&'a str> = Some("");
        operation: i8;
        permission_type: i8;
    }

    /// Answer to [`DeleteAclsRequest`].
    response DeleteAclsResponse<'a> for DeleteAcls, versions 1-3, flexible 2 {
        throttle_time_ms: i32;
        filter_results: Vec<DeleteAclsFilterResult<'a>>;
    }

    /// An element of `filter_results` in [`DeleteAclsResponse`].
    struct DeleteAclsFilterResult<'a> {
        error_code: i16;
        error_message: Option<&'a str> = Some("");
        matching_acls: Vec<DeleteAclsMatchingAcl<'a>>;
    }

    /// An element of `matching_acls` in [`DeleteAclsFilterResult`].
    struct DeleteAclsMatchingAcl<'a> {
        error_code: i16;
        error_message: Option<&'a str> = Some("");
        resource_type: i8;
        resource_name: &'a str;
        pattern_type: i8 = 3;
        principal: &'a str;
        host: &'a str;
        operation: i8;
        permission_type: i8;
    }
}
