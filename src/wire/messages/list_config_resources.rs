//! ListConfigResources (key 74).

use crate::wire::declare::wire;

wire! {
    /// Lists resources that have settings (KIP-1142; version 0 client metrics only).
    request ListConfigResourcesRequest for ListConfigResources, versions 0-1, flexible 0 {
        resource_types: Vec<i8>, in 1+;
    }

    /// Answer to [`ListConfigResourcesRequest`].
    response ListConfigResourcesResponse<'a> for ListConfigResources, versions 0-1, flexible 0 {
        throttle_time_ms: i32;
        error_code: i16;
        config_resources: Vec<ConfigResource<'a>>;
    }

    /// An element of `config_resources` in [`ListConfigResourcesResponse`].
    struct ConfigResource<'a> {
        resource_name: &'a str;
        resource_type: i8 = 16, in 1+, else ignored;
    }
}
