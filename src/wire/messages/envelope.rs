//! Envelope (key 58).

use crate::wire::declare::wire;

wire! {
    /// Forwards a request of a client to the controller (KIP-590).
    request EnvelopeRequest<'a> for Envelope, versions 0-0, flexible 0 {
        request_data: &'a [u8];
        request_principal: Option<&'a [u8]> = Some(&[]);
        client_host_address: &'a [u8];
    }

    /// Answer to [`EnvelopeRequest`].
    response EnvelopeResponse<'a> for Envelope, versions 0-0, flexible 0 {
        response_data: Option<&'a [u8]> = None;
        error_code: i16;
    }
}
