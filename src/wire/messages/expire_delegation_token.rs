//! ExpireDelegationToken (key 40).

use crate::wire::declare::wire;

wire! {
    /// Changes when a delegation token expires.
    request ExpireDelegationTokenRequest<'a>
        for ExpireDelegationToken, versions 1-2, flexible 2
    {
        hmac: &'a [u8];
        expiry_time_period_ms: i64;
    }

    /// Answer to [`ExpireDelegationTokenRequest`].
    response ExpireDelegationTokenResponse for ExpireDelegationToken, versions 1-2, flexible 2 {
        error_code: i16;
        expiry_timestamp_ms: i64;
        throttle_time_ms: i32;
    }
}
