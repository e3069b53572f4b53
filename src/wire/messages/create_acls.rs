//! CreateAcls (key 30).

use crate::wire::declare::wire;

wire! {
    /// Adds access rules.
    request CreateAclsRequest<'a> for CreateAcls, versions 1-3, flexible 2 {
        creations: Vec<AclCreation<'a>>;
    }

    /// An element of `creations` in [`CreateAclsRequest`].
    struct AclCreation<'a> {
        resource_type: i8;
        resource_name: &'a str;
        resource_pattern_type: i8 = 3;
        principal: &'a str;
        host: &'a str;
        operation: i8;
        permission_type: i8;
    }

    /// Answer to [`CreateAclsRequest`].
    response CreateAclsResponse<'a> for CreateAcls, versions 1-3, flexible 2 {
        throttle_time_ms: i32;
        results: Vec<AclCreationResult<'a>>;
    }

    /// An element of `results` in [`CreateAclsResponse`].
    struct AclCreationResult<'a> {
        error_code: i16;
        error_message: Option<&'a str> = Some("");
    }
}
