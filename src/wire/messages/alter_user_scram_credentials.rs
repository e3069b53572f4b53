//! AlterUserScramCredentials (key 51).

use crate::wire::declare::wire;

wire! {
    /// Sets or deletes SCRAM credentials of users (KIP-554).
    request AlterUserScramCredentialsRequest<'a>
        for AlterUserScramCredentials, versions 0-0, flexible 0
    {
        deletions: Vec<ScramCredentialDeletion<'a>>;
        upsertions: Vec<ScramCredentialUpsertion<'a>>;
    }

    /// An element of `deletions` in [`AlterUserScramCredentialsRequest`].
    struct ScramCredentialDeletion<'a> {
        name: &'a str;
        mechanism: i8;
    }

    /// An element of `upsertions` in [`AlterUserScramCredentialsRequest`].
    struct ScramCredentialUpsertion<'a> {
        name: &'a str;
        mechanism: i8;
        iterations: i32;
        salt: &'a [u8];
        salted_password: &'a [u8];
    }

    /// Answer to [`AlterUserScramCredentialsRequest`].
    response AlterUserScramCredentialsResponse<'a>
        for AlterUserScramCredentials, versions 0-0, flexible 0
    {
        throttle_time_ms: i32;
        results: Vec<AlterUserScramCredentialsResult<'a>>;
    }

    /// An element of `results` in [`AlterUserScramCredentialsResponse`].
    struct AlterUserScramCredentialsResult<'a> {
        user: &'a str;
        error_code: i16;
        error_message: Option<&'a str> = Some("");
    }
}
