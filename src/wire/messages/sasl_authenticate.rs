//! SaslAuthenticate (key 36).

use crate::wire::declare::wire;

wire! {
    /// Carries the client's bytes of a SASL exchange (KIP-152, KIP-368).
    request SaslAuthenticateRequest<'a> for SaslAuthenticate, versions 0-2, flexible 2 {
        auth_bytes: &'a [u8];
    }

    /// Answer to [`SaslAuthenticateRequest`].
    response SaslAuthenticateResponse<'a> for SaslAuthenticate, versions 0-2, flexible 2 {
        error_code: i16;
        error_message: Option<&'a str> = Some("");
        auth_bytes: &'a [u8];
        session_lifetime_ms: i64, in 1+, else ignored;
    }
}
