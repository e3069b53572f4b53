//! DescribeUserScramCredentials (key 50).

use crate::wire::declare::wire;

wire! {
    /// Lists users with SCRAM credentials, never the credentials (KIP-554).
    request DescribeUserScramCredentialsRequest<'a>
        for DescribeUserScramCredentials, versions 0-0, flexible 0
    {
        users: Option<Vec<UserName<'a>>> = Some(Vec::new());
    }

    /// An element of `users` in [`DescribeUserScramCredentialsRequest`].
    struct UserName<'a> {
        name: &'a str;
    }

    /// Answer to [`DescribeUserScramCredentialsRequest`].
    response DescribeUserScramCredentialsResponse<'a>
        for DescribeUserScramCredentials, versions 0-0, flexible 0
    {
        throttle_time_ms: i32;
        error_code: i16;
        error_message: Option<&'a str> = Some("");
        results: Vec<DescribeUserScramCredentialsResult<'a>>;
    }

    /// An element of `results` in [`DescribeUserScramCredentialsResponse`].
    struct DescribeUserScramCredentialsResult<'a> {
        user: &'a str;
        error_code: i16;
        error_message: Option<&'a str> = Some("");
        credential_infos: Vec<CredentialInfo>;
    }

    /// An element of `credential_infos` in [`DescribeUserScramCredentialsResult`].
    struct CredentialInfo {
        mechanism: i8;
        iterations: i32;
    }
}
