//! DescribeDelegationToken (key 41).

use crate::wire::declare::wire;

wire! {
    /// Lists delegation tokens by owner; null means all.
    request DescribeDelegationTokenRequest<'a>
        for DescribeDelegationToken, versions 1-3, flexible 2
    {
        owners: Option<Vec<DescribeDelegationTokenOwner<'a>>> = Some(Vec::new());
    }

    /// An element of `owners` in [`DescribeDelegationTokenRequest`].
    struct DescribeDelegationTokenOwner<'a> {
        principal_type: &'a str;
        principal_name: &'a str;
    }

    /// Answer to [`DescribeDelegationTokenRequest`].
    response DescribeDelegationTokenResponse<'a>
        for DescribeDelegationToken, versions 1-3, flexible 2
    {
        error_code: i16;
        tokens: Vec<DescribedDelegationToken<'a>>;
        throttle_time_ms: i32;
    }

    /// An element of `tokens` in [`DescribeDelegationTokenResponse`].
    struct DescribedDelegationToken<'a> {
        principal_type: &'a str;
        principal_name: &'a str;
        token_requester_principal_type: &'a str, in 3+;
        token_requester_principal_name: &'a str, in 3+;
        issue_timestamp: i64;
        expiry_timestamp: i64;
        max_timestamp: i64;
        token_id: &'a str;
        hmac: &'a [u8];
        renewers: Vec<DescribedDelegationTokenRenewer<'a>>;
    }

    /// An element of `renewers` in [`DescribedDelegationToken`].
    struct DescribedDelegationTokenRenewer<'a> {
        principal_type: &'a str;
        principal_name: &'a str;
    }
}
