//! AlterConfigs (key 33).

use crate::wire::declare::wire;

wire! {
    /// Replaces all settings of resources; `IncrementalAlterConfigs` is the better way.
    request AlterConfigsRequest<'a> for AlterConfigs, versions 0-2, flexible 2 {
        resources: Vec<AlterConfigsResource<'a>>;
        validate_only: bool;
    }

    /// An element of `resources` in [`AlterConfigsRequest`].
    struct AlterConfigsResource<'a> {
        resource_type: i8;
        resource_name: &'a str;
        configs: Vec<AlterableConfig<'a>>;
    }

    /// An element of `configs` in [`AlterConfigsResource`].
    struct AlterableConfig<'a> {
        name: &'a str;
        value: Option<&'a str> = Some("");
    }

    /// Answer to [`AlterConfigsRequest`].
    response AlterConfigsResponse<'a> for AlterConfigs, versions 0-2, flexible 2 {
        throttle_time_ms: i32;
        responses: Vec<AlterConfigsResourceResponse<'a>>;
    }

    /// An element of `responses` in [`AlterConfigsResponse`].
    struct AlterConfigsResourceResponse<'a> {
        error_code: i16;
        error_message: Option<&'a str> = Some("");
        resource_type: i8;
        resource_name: &'a str;
    }
}
