//! The header before every body: which API, which version, and which answer belongs to what.
//!
//! | header | fields |
//! |---|---|
//! | request v0 | key `i16`, version `i16`, correlation id `i32` (ControlledShutdown v0 only, which Kafka 4 dropped) |
//! | request v1 | the same, then client id: nullable string with an `i16` length |
//! | request v2 | the same, then tagged fields; the client id keeps its `i16` length |
//! | response v0 | correlation id `i32` |
//! | response v1 | the same, then tagged fields |
//!
//! Flexible versions of an API have request header v2 and response header v1, others v1 and v0. One
//! exception: every ApiVersions response has header v0, so that a client can read the refusal of a
//! version (KIP-511).

use super::ApiKey;
use super::codec_error::{DecodeError, EncodeError};
use super::reader::Reader;
use super::writer::Writer;

/// The header of a request. `api_version` is what the client sent, served or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHeader<'a> {
    pub api_key: ApiKey,
    pub api_version: i16,
    pub correlation_id: i32,
    /// What the client calls itself; null and "" mean the same to the broker.
    pub client_id: Option<&'a str>,
}

impl<'a> RequestHeader<'a> {
    /// Reads the header; the reader then stands at the body.
    ///
    /// # Errors
    ///
    /// [`DecodeError::UnknownApiKey`] before anything else is read, and what a malformed client id
    /// or tagged field causes. Apache Kafka closes the connection on all of them. Whether the
    /// version is served is not judged here: ApiVersions must answer also when it is not.
    pub fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let key = reader.i16()?;
        let api_key = ApiKey::from_number(key).ok_or(DecodeError::UnknownApiKey { key })?;
        let api_version = reader.i16()?;
        let correlation_id = reader.i32()?;
        let client_id = reader.nullable_string(false)?;
        if request_header_version(api_key, api_version) >= 2 {
            reader.tagged_fields(|_, _| Ok(false))?;
        }
        Ok(Self { api_key, api_version, correlation_id, client_id })
    }

    /// Appends the header.
    pub fn encode(&self, writer: &mut Writer) -> Result<(), EncodeError> {
        writer.i16(self.api_key.number());
        writer.i16(self.api_version);
        writer.i32(self.correlation_id);
        writer.nullable_string(self.client_id, false)?;
        if request_header_version(self.api_key, self.api_version) >= 2 {
            writer.unsigned_varint(0);
        }
        Ok(())
    }

    /// The client id, "" if there is none.
    pub fn client_id(&self) -> &'a str {
        self.client_id.unwrap_or_default()
    }
}

/// The header of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseHeader {
    /// The correlation id of the request.
    pub correlation_id: i32,
}

impl ResponseHeader {
    /// Reads the header of a response to `key` at `version`.
    pub fn decode(reader: &mut Reader<'_>, key: ApiKey, version: i16) -> Result<Self, DecodeError> {
        let correlation_id = reader.i32()?;
        if response_header_version(key, version) >= 1 {
            reader.tagged_fields(|_, _| Ok(false))?;
        }
        Ok(Self { correlation_id })
    }

    /// Appends the header of a response to `key` at `version`.
    pub fn encode(&self, writer: &mut Writer, key: ApiKey, version: i16) {
        writer.i32(self.correlation_id);
        if response_header_version(key, version) >= 1 {
            writer.unsigned_varint(0);
        }
    }
}

/// The version of the request header. Defined for unknown versions too: those above the known
/// ones are taken for flexible, as in Kafka, so that the header of an ApiVersions request of
/// tomorrow can be read.
pub const fn request_header_version(key: ApiKey, version: i16) -> i16 {
    if key.flexible_versions().contains(version) { 2 } else { 1 }
}

/// The version of the response header.
pub const fn response_header_version(key: ApiKey, version: i16) -> i16 {
    if matches!(key, ApiKey::ApiVersions) {
        return 0;
    }
    if key.flexible_versions().contains(version) { 1 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(bytes: &[u8]) -> Result<(RequestHeader<'_>, usize), DecodeError> {
        let mut reader = Reader::new(bytes);
        RequestHeader::decode(&mut reader).map(|header| (header, reader.offset()))
    }

    #[test]
    fn client_id_keeps_its_short_length_in_flexible_headers() {
        let bytes = [0, 18, 0, 3, 0, 0, 0, 7, 0, 2, b'm', b's', 0];
        let (header, read) = decoded(&bytes).unwrap();
        assert_eq!(header.api_key, ApiKey::ApiVersions);
        assert_eq!((header.api_version, header.correlation_id), (3, 7));
        assert_eq!((header.client_id(), read), ("ms", bytes.len()));

        let mut writer = Writer::new();
        header.encode(&mut writer).unwrap();
        assert_eq!(writer.into_bytes(), bytes);
    }

    #[test]
    fn null_client_id_reads_as_empty() {
        let (header, _) = decoded(&[0, 3, 0, 1, 0, 0, 0, 7, 0xff, 0xff]).unwrap();
        assert_eq!((header.client_id, header.client_id()), (None, ""));
    }

    #[test]
    fn unknown_tags_of_the_header_are_skipped() {
        let bytes = [0, 18, 0, 4, 0, 0, 0, 7, 0, 0, 1, 99, 2, 0xaa, 0xbb];
        let (_, read) = decoded(&bytes).unwrap();
        assert_eq!(read, bytes.len());
    }

    #[test]
    fn unknown_and_dropped_keys_are_refused_by_number() {
        for key in [-1i16, 4, 5, 6, 7, 27_000] {
            let [high, low] = key.to_be_bytes();
            let bytes = [high, low, 0, 0, 0, 0, 0, 7, 0, 0];
            assert_eq!(decoded(&bytes), Err(DecodeError::UnknownApiKey { key }));
        }
    }

    #[test]
    fn api_versions_answers_never_have_a_flexible_header() {
        for version in 0..=9 {
            assert_eq!(response_header_version(ApiKey::ApiVersions, version), 0);
        }
        assert_eq!(request_header_version(ApiKey::ApiVersions, 99), 2);
        assert_eq!(request_header_version(ApiKey::ApiVersions, -1), 1);
    }

    #[test]
    fn header_versions_change_where_an_api_becomes_flexible() {
        let at = |key, version| {
            (request_header_version(key, version), response_header_version(key, version))
        };
        assert_eq!(at(ApiKey::Produce, 8), (1, 0));
        assert_eq!(at(ApiKey::Produce, 9), (2, 1));
        assert_eq!(at(ApiKey::SaslHandshake, 1), (1, 0));
        assert_eq!(at(ApiKey::OffsetDelete, 0), (1, 0));
        assert_eq!(at(ApiKey::ConsumerGroupHeartbeat, 0), (2, 1));
    }
}
