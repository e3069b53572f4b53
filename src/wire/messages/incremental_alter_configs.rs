//! IncrementalAlterConfigs (key 44).

use crate::wire::declare::wire;

wire! {
    /// Sets, deletes, appends to or subtracts from single settings (KIP-339).
    request IncrementalAlterConfigsRequest<'a>
        for IncrementalAlterConfigs, versions 0-1, flexible 1
    {
        resources: Vec<AlterConfigsResource<'a>>;
        validate_only: bool;
    }

    /// An element of `resources` in [`IncrementalAlterConfigsRequest`].
    struct AlterConfigsResource<'a> {
        resource_type: i8;
        resource_name: &'a str;
        configs: Vec<AlterableConfig<'a>>;
    }

    /// An element of `configs` in [`AlterConfigsResource`].
    struct AlterableConfig<'a> {
        name: &'a str;
        config_operation: i8;
        value: Option<&'a str> = Some("");
    }

    /// Answer to [`IncrementalAlterConfigsRequest`].
    response IncrementalAlterConfigsResponse<'a>
        for IncrementalAlterConfigs, versions 0-1, flexible 1
    {
        throttle_time_ms: i32;
        responses: Vec<AlterConfigsResourceResponse<'a>>;
    }

    /// An element of `responses` in [`IncrementalAlterConfigsResponse`].
    struct AlterConfigsResourceResponse<'a> {
        error_code: i16;
        error_message: Option<&'a str> = Some("");
        resource_type: i8;
        resource_name: &'a str;
    }
}
