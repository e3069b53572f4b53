//! UpdateFeatures (key 57).

use crate::wire::declare::wire;

wire! {
    /// Changes finalized feature levels (KIP-584).
    request UpdateFeaturesRequest<'a> for UpdateFeatures, versions 0-2, flexible 0 {
        timeout_ms: i32 = 60000;
        feature_updates: Vec<FeatureUpdateKey<'a>>;
        validate_only: bool, in 1+;
    }

    /// An element of `feature_updates` in [`UpdateFeaturesRequest`].
    struct FeatureUpdateKey<'a> {
        feature: &'a str;
        max_version_level: i16;
        allow_downgrade: bool, in 0-0;
        upgrade_type: i8 = 1, in 1+;
    }

    /// Answer to [`UpdateFeaturesRequest`].
    response UpdateFeaturesResponse<'a> for UpdateFeatures, versions 0-2, flexible 0 {
        throttle_time_ms: i32;
        error_code: i16;
        error_message: Option<&'a str> = Some("");
        results: Vec<UpdatableFeatureResult<'a>>, in 0-1, else ignored;
    }

    /// An element of `results` in [`UpdateFeaturesResponse`].
    struct UpdatableFeatureResult<'a> {
        feature: &'a str;
        error_code: i16;
        error_message: Option<&'a str> = Some("");
    }
}
