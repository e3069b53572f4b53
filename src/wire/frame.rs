//! The frame around every request and response: an `i32` length, then that many bytes.

use std::fmt;

use super::codec_error::{DecodeError, EncodeError};
use super::header::{RequestHeader, ResponseHeader};
use super::reader::Reader;
use super::schema::{Request, Response};
use super::writer::Writer;

/// Bytes of the length that stands before every frame.
pub const LENGTH_BYTES: usize = 4;

/// Longest request that is read unless configured otherwise, in bytes (`socket.request.max.bytes`).
pub const REQUEST_BYTES_MAX_DEFAULT: usize = 100 << 20;

/// Reads the length of a request and judges it before anything is reserved.
///
/// # Errors
///
/// [`FrameError`], after which the connection must be closed: where the next request begins is
/// unknown.
pub fn request_length(bytes: [u8; LENGTH_BYTES], max: usize) -> Result<usize, FrameError> {
    let declared = i32::from_be_bytes(bytes);
    let looks_like = Stranger::of(bytes);
    match usize::try_from(declared) {
        Err(_) => Err(FrameError::Negative { declared, looks_like }),
        Ok(0) => Err(FrameError::Empty),
        Ok(length) if length > max => Err(FrameError::TooLong { length, max, looks_like }),
        Ok(length) => Ok(length),
    }
}

/// A whole response, ready to send: length, header, body.
///
/// # Errors
///
/// [`EncodeError`] when the body does not fit the version: a fault of the handler.
pub fn encode_response<'a, R: Response<'a>>(
    response: &R,
    version: i16,
    correlation_id: i32,
) -> Result<Vec<u8>, EncodeError> {
    append_response(response, version, correlation_id, Vec::new())
}

/// As [`encode_response`], behind what `buffer` already holds. The bytes are lost on an error.
pub fn append_response<'a, R: Response<'a>>(
    response: &R,
    version: i16,
    correlation_id: i32,
    buffer: Vec<u8>,
) -> Result<Vec<u8>, EncodeError> {
    let mut writer = Writer::append_to(buffer);
    let start = writer.len();
    write_response(&mut writer, response, version, correlation_id)?;
    let length = frame_length(writer.len() - start - LENGTH_BYTES)?;
    writer.patch_i32(start, length);
    Ok(writer.into_bytes())
}

/// A frame of these bytes and nothing else, as a SASL token that comes by itself.
///
/// # Errors
///
/// [`EncodeError`] when there are too many of them.
pub fn frame_of(bytes: &[u8]) -> Result<Vec<u8>, EncodeError> {
    let length = frame_length(bytes.len())?;
    Ok([&length.to_be_bytes()[..], bytes].concat())
}

/// A whole request, ready to send to another broker: length, header, body.
///
/// # Errors
///
/// [`EncodeError`] when the body does not fit the version.
pub fn encode_request<'a, R: Request<'a>>(
    request: &R,
    version: i16,
    correlation_id: i32,
    client_id: &str,
) -> Result<Vec<u8>, EncodeError> {
    let mut writer = Writer::new();
    writer.i32(0);
    let client_id = Some(client_id);
    let header = RequestHeader { api_key: R::KEY, api_version: version, correlation_id, client_id };
    header.encode(&mut writer)?;
    request.encode(&mut writer, version)?;
    let length = frame_length(writer.len() - LENGTH_BYTES)?;
    writer.patch_i32(0, length);
    Ok(writer.into_bytes())
}

/// Reads a response frame without its length: the correlation id and the body.
///
/// # Errors
///
/// [`DecodeError`], after which the connection to that broker is of no more use.
pub fn decode_response<'a, R: Response<'a>>(
    frame: &'a [u8],
    version: i16,
) -> Result<(i32, R), DecodeError> {
    let mut reader = Reader::new(frame);
    let header = ResponseHeader::decode(&mut reader, R::KEY, version)?;
    let body = R::decode(&mut reader, version)?;
    Ok((header.correlation_id, body))
}

/// Appends a response with a length of zero, which the caller patches.
pub(super) fn write_response<'a, R: Response<'a>>(
    writer: &mut Writer,
    response: &R,
    version: i16,
    correlation_id: i32,
) -> Result<(), EncodeError> {
    writer.i32(0);
    ResponseHeader { correlation_id }.encode(writer, R::KEY, version);
    response.encode(writer, version)
}

/// The length of a frame as the wire carries it.
pub(super) fn frame_length(length: usize) -> Result<i32, EncodeError> {
    let what = "a frame";
    let expected_max = i32::MAX as usize;
    i32::try_from(length).map_err(|_| EncodeError::TooLong { what, expected_max, got: length })
}

/// Why four bytes are no request length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    Negative { declared: i32, looks_like: Stranger },
    Empty,
    TooLong { length: usize, max: usize, looks_like: Stranger },
}

/// What the first bytes look like when they are no Kafka request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stranger {
    /// A TLS handshake record: the client expects TLS on this listener.
    TlsHello,
    /// An HTTP request, or the preface of HTTP/2.
    Http,
    /// An SSH client's banner.
    Ssh,
    /// Nothing known.
    Unknown,
}

impl Stranger {
    fn of(bytes: [u8; LENGTH_BYTES]) -> Self {
        match &bytes {
            [0x16, 0x03, 0x00..=0x04, _] => Stranger::TlsHello,
            b"GET " | b"HEAD" | b"POST" | b"PUT " | b"DELE" | b"OPTI" | b"PATC" | b"CONN"
            | b"PRI " => Stranger::Http,
            b"SSH-" => Stranger::Ssh,
            _ => Stranger::Unknown,
        }
    }
}

impl fmt::Display for Stranger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stranger::TlsHello => {
                "it looks like a TLS hello: this listener speaks plain text, use its TLS listener"
            }
            Stranger::Http => "it looks like HTTP: this listener speaks the Kafka protocol",
            Stranger::Ssh => "it looks like SSH: this listener speaks the Kafka protocol",
            Stranger::Unknown => "it does not look like the Kafka protocol",
        })
    }
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameError::Negative { declared, looks_like } => {
                write!(f, "a request of {declared} bytes; {looks_like}")
            }
            FrameError::Empty => f.write_str("a request of 0 bytes, shorter than any header"),
            FrameError::TooLong { length, max, looks_like: Stranger::Unknown } => write!(
                f,
                "a request of {length} bytes, allowed are {max}; \
                 raise socket.request.max.bytes if the client is honest"
            ),
            FrameError::TooLong { length, max, looks_like } => {
                write!(f, "a request of {length} bytes, allowed are {max}; {looks_like}")
            }
        }
    }
}

impl std::error::Error for FrameError {}

#[cfg(test)]
mod tests {
    use super::super::messages::{ApiVersionsResponse, HeartbeatRequest, HeartbeatResponse};
    use super::super::schema::Message;
    use super::*;

    const MAX: usize = REQUEST_BYTES_MAX_DEFAULT;

    #[test]
    fn lengths_from_one_to_the_limit_are_taken() {
        assert_eq!(request_length(1i32.to_be_bytes(), MAX), Ok(1));
        assert_eq!(request_length((MAX as i32).to_be_bytes(), MAX), Ok(MAX));
    }

    #[test]
    fn impossible_lengths_are_refused_before_anything_is_reserved() {
        let looks_like = Stranger::Unknown;
        assert_eq!(request_length([0; 4], MAX), Err(FrameError::Empty));
        assert_eq!(
            request_length((-1i32).to_be_bytes(), MAX),
            Err(FrameError::Negative { declared: -1, looks_like })
        );
        let length = MAX + 1;
        assert_eq!(
            request_length((length as i32).to_be_bytes(), MAX),
            Err(FrameError::TooLong { length, max: MAX, looks_like })
        );
    }

    #[test]
    fn strangers_are_recognised() {
        for (bytes, expected) in [
            (*b"GET ", Stranger::Http),
            ([0x16, 3, 1, 2], Stranger::TlsHello),
            (*b"SSH-", Stranger::Ssh),
            (*b"\x7fELF", Stranger::Unknown),
        ] {
            match request_length(bytes, MAX) {
                Err(FrameError::TooLong { looks_like, .. }) => assert_eq!(looks_like, expected),
                other => panic!("{bytes:?} gave {other:?}"),
            }
        }
    }

    #[test]
    fn response_frame_is_length_header_body() {
        let response = HeartbeatResponse { throttle_time_ms: 5, error_code: 27 };
        let flexible = encode_response(&response, 4, 7).unwrap();
        assert_eq!(flexible, [0, 0, 0, 12, 0, 0, 0, 7, 0, 0, 0, 0, 5, 0, 27, 0]);
        let older = append_response(&response, 1, 7, vec![0xee]).unwrap();
        assert_eq!(older, [0xee, 0, 0, 0, 10, 0, 0, 0, 7, 0, 0, 0, 5, 0, 27]);
    }

    #[test]
    fn broker_reads_what_a_broker_wrote() {
        let request = HeartbeatRequest { group_id: "g", member_id: "m", ..Default::default() };
        let frame = encode_request(&request, 4, 7, "broker-1").unwrap();
        let length = request_length(*frame.first_chunk().unwrap(), MAX).unwrap();
        assert_eq!(length, frame.len() - LENGTH_BYTES);
        let mut reader = Reader::new(&frame[LENGTH_BYTES..]);
        let header = RequestHeader::decode(&mut reader).unwrap();
        assert_eq!((header.correlation_id, header.client_id()), (7, "broker-1"));
        assert_eq!(HeartbeatRequest::decode(&mut reader, header.api_version), Ok(request));

        let response = HeartbeatResponse { throttle_time_ms: 5, error_code: 27 };
        let frame = encode_response(&response, 4, 7).unwrap();
        assert_eq!(decode_response(&frame[LENGTH_BYTES..], 4), Ok((7, response)));
    }

    #[test]
    fn api_versions_leaves_out_tagged_fields_at_their_default() {
        // Old clients (librdkafka before 2.2) read tagged fields wrongly: none may be sent in vain.
        let frame = encode_response(&ApiVersionsResponse::default(), 3, 7).unwrap();
        assert_eq!(frame, [0, 0, 0, 12, 0, 0, 0, 7, 0, 0, 1, 0, 0, 0, 0, 0]);
    }
}
