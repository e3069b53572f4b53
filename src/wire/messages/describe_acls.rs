//! DescribeAcls (key 29).

use crate::wire::declare::wire;

wire! {
    /// Lists access rules that match a filter.
    request DescribeAclsRequest<'a> for DescribeAcls, versions 1-3, flexible 2 {
        resource_type_filter: i8;
        resource_name_filter: Option<&'a str> = Some("");
        pattern_type_filter: i8 = 3;
        principal_filter: Option<&'a str> = Some("");
        host_filter: Option<&'a str> = Some("");
        operation: i8;
        permission_type: i8;
    }

    /// Answer to [`DescribeAclsRequest`].
    response DescribeAclsResponse<'a> for DescribeAcls, versions 1-3, flexible 2 {
        throttle_time_ms: i32;
        error_code: i16;
        error_message: Option<&'a str> = Some("");
        resources: Vec<DescribeAclsResource<'a>>;
    }

    /// An element of `resources` in [`DescribeAclsResponse`].
    struct DescribeAclsResource<'a> {
        resource_type: i8;
        resource_name: &'a str;
        pattern_type: i8 = 3;
        acls: Vec<AclDescription<'a>>;
    }

    /// An element of `acls` in [`DescribeAclsResource`].
    struct AclDescription<'a> {
        principal: &'a str;
        host: &'a str;
        operation: i8;
        permission_type: i8;
    }
}
