//! SaslHandshake (key 17).

use crate::wire::declare::wire;

wire! {
    /// Chooses a SASL mechanism.
    request SaslHandshakeRequest<'a> for SaslHandshake, versions 0-1 {
        mechanism: &'a str;
    }

    /// Answer to [`SaslHandshakeRequest`].
    response SaslHandshakeResponse<'a> for SaslHandshake, versions 0-1 {
        error_code: i16;
        mechanisms: Vec<&'a str>;
    }
}
