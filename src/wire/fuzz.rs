//! Entries for fuzzers: bytes of a stranger go in, and a broken promise of the codec is a panic.

use super::api_key::{AnyRequest, AnyResponse, ApiKey};
use super::codec_error::EncodeError;
use super::frame;
use super::header::RequestHeader;
use super::reader::Reader;
use super::writer::Writer;

/// Reads `data` as one request frame without its length: header, then body.
///
/// # Panics
///
/// When a request that was read cannot be written again, or reads back as another one.
pub fn fuzz_request(data: &[u8]) {
    let mut reader = Reader::new(data);
    let Ok(header) = RequestHeader::decode(&mut reader) else { return };
    let (key, version) = (header.api_key, header.api_version);
    let Ok(request) = AnyRequest::decode(key, &mut reader, version) else { return };
    let place = (key.name(), version);
    let once = written(place, |writer| request.encode(writer, version));
    let again = AnyRequest::decode(key, &mut Reader::new(&once), version);
    match again {
        Ok(again) => {
            let twice = written(place, |writer| again.encode(writer, version));
            assert_eq!(once, twice, "{place:?} reads back as another request");
        }
        Err(error) => panic!("{place:?} was written as {once:02x?}, which is refused: {error}"),
    }
}

/// Reads `data` as key (one byte), version (one byte) and the body of a response.
///
/// # Panics
///
/// As [`fuzz_request`].
pub fn fuzz_response(data: &[u8]) {
    let [key, version, body @ ..] = data else { return };
    let Some(key) = ApiKey::from_number(i16::from(*key)) else { return };
    let version = i16::from(*version);
    let Ok(response) = AnyResponse::decode(key, &mut Reader::new(body), version) else { return };
    let place = (key.name(), version);
    let once = written(place, |writer| response.encode(writer, version));
    let again = AnyResponse::decode(key, &mut Reader::new(&once), version);
    match again {
        Ok(again) => {
            let twice = written(place, |writer| again.encode(writer, version));
            assert_eq!(once, twice, "{place:?} reads back as another response");
        }
        Err(error) => panic!("{place:?} was written as {once:02x?}, which is refused: {error}"),
    }
}

/// Reads the first four bytes of `data` as the length of a frame.
///
/// # Panics
///
/// When a length is taken that the limit forbids.
pub fn fuzz_frame_length(data: &[u8]) {
    let Some(length) = data.first_chunk() else { return };
    let max = frame::REQUEST_BYTES_MAX_DEFAULT;
    match frame::request_length(*length, max) {
        Ok(length) => assert!(0 < length && length <= max, "{length} was taken"),
        Err(error) => assert!(!error.to_string().is_empty(), "{error:?} says nothing"),
    }
}

/// What was read can be written: the version carries every field that it was read from.
fn written(
    place: (&str, i16),
    write: impl FnOnce(&mut Writer) -> Result<(), EncodeError>,
) -> Vec<u8> {
    let mut writer = Writer::new();
    match write(&mut writer) {
        Ok(()) => writer.into_bytes(),
        Err(error) => panic!("{place:?} was read and cannot be written: {error}"),
    }
}
