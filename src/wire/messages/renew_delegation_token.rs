//! RenewDelegationToken (key 39).

use crate::wire::declare::wire;

wire! {
    /// Renews a delegation token.
    request RenewDelegationTokenRequest<'a> for RenewDelegationToken, versions 1-2, flexible 2 {
        hmac: &'a [u8];
        renew_period_ms: i64;
    }

    /// Answer to [`RenewDelegationTokenRequest`].
    response RenewDelegationTokenResponse for RenewDelegationToken, versions 1-2, flexible 2 {
        error_code: i16;
        expiry_timestamp_ms: i64;
        throttle_time_ms: i32;
    }
}
