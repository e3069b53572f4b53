//! CreateDelegationToken (key 38).

use crate::wire::declare::wire;

wire! {
    /// Creates a delegation token (KIP-48).
    request CreateDelegationTokenRequest<'a>
        for CreateDelegationToken, versions 1-3, flexible 2
    {
        owner_principal_type: Option<&'a str> = Some(""), in 3+;
        owner_principal_name: Option<&'a str> = Some(""), in 3+;
        renewers: Vec<CreatableRenewers<'a>>;
        max_lifetime_ms: i64;
    }

    /// An element of `renewers` in [`CreateDelegationTokenRequest`].
    struct CreatableRenewers<'a> {
        principal_type: &'a str;
        principal_name: &'a str;
    }

    /// Answer to [`CreateDelegationTokenRequest`].
    response CreateDelegationTokenResponse<'a>
        for CreateDelegationToken, versions 1-3, flexible 2
    {
        error_code: i16;
        principal_type: &'a str;
        principal_name: &'a str;
        token_requester_principal_type: &'a str, in 3+;
        token_requester_principal_name: &'a str, in 3+;
        issue_timestamp_ms: i64;
        expiry_timestamp_ms: i64;
        max_timestamp_ms: i64;
        token_id: &'a str;
        hmac: &'a [u8];
        throttle_time_ms: i32;
    }
}
