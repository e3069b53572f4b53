//! ApiVersions (key 18).

use crate::wire::declare::wire;

wire! {
    /// Asks which APIs and versions are served (KIP-511); the first request of most clients.
    request ApiVersionsRequest<'a> for ApiVersions, versions 0-4, flexible 3 {
        client_software_name: &'a str, in 3+, else ignored;
        client_software_version: &'a str, in 3+, else ignored;
    }

    /// Answer to [`ApiVersionsRequest`].
    response ApiVersionsResponse<'a> for ApiVersions, versions 0-4, flexible 3 {
        error_code: i16;
        api_keys: Vec<ApiVersion>;
        throttle_time_ms: i32, in 1+, else ignored;
        supported_features: Vec<SupportedFeatureKey<'a>>, in 3+, tag 0, else ignored;
        /// -1 when unknown.
        finalized_features_epoch: i64 = -1, in 3+, tag 1, else ignored;
        finalized_features: Vec<FinalizedFeatureKey<'a>>, in 3+, tag 2, else ignored;
        zk_migration_ready: bool, in 3+, tag 3, else ignored;
    }

    /// An element of `api_keys` in [`ApiVersionsResponse`].
    struct ApiVersion {
        api_key: i16;
        min_version: i16;
        max_version: i16;
    }

    /// An element of `supported_features` in [`ApiVersionsResponse`].
    struct SupportedFeatureKey<'a> {
        name: &'a str;
        min_version: i16;
        max_version: i16;
    }

    /// An element of `finalized_features` in [`ApiVersionsResponse`].
    struct FinalizedFeatureKey<'a> {
        name: &'a str;
        max_version_level: i16;
        min_version_level: i16;
    }
}
