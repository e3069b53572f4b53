//! The language of the wire: pure functions between bytes and messages. No message is decoded
//! anywhere else, and nothing here waits, logs or knows a socket.
//!
//! A door reads a length ([`frame::request_length`]), then the frame; [`RequestHeader::decode`]
//! says which API and version; [`apis::find`] says whether that is served; the handler does the
//! rest:
//!
//! ```
//! use millstream::wire::messages::heartbeat::{HeartbeatRequest, HeartbeatResponse};
//! use millstream::wire::{ErrorCode, Message, Reader, RequestHeader, frame};
//!
//! /// `frame` holds one request without its length.
//! fn answer(frame: &[u8]) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
//!     let mut reader = Reader::new(frame);
//!     let header = RequestHeader::decode(&mut reader)?;
//!     let request = HeartbeatRequest::decode(&mut reader, header.api_version)?;
//!     let known = request.group_id == "readers"; // strings are lent from the frame
//!     let code = if known { ErrorCode::None } else { ErrorCode::UnknownMemberId };
//!     let response = HeartbeatResponse { error_code: code.into(), ..Default::default() };
//!     Ok(frame::encode_response(&response, header.api_version, header.correlation_id)?)
//! }
//! # let mut writer = millstream::wire::Writer::new();
//! # RequestHeader {
//! #     api_key: millstream::wire::ApiKey::Heartbeat, api_version: 4, correlation_id: 1, client_id: None,
//! # }.encode(&mut writer).unwrap();
//! # HeartbeatRequest { group_id: "other", ..Default::default() }.encode(&mut writer, 4).unwrap();
//! # assert_eq!(answer(&writer.into_bytes()).unwrap(), [0, 0, 0, 12, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 25, 0]);
//! ```
//!
//! Responses borrow too: what a handler owns (a `String`, a host name of the configuration) it
//! keeps in a local and lends. Whatever is not set has the default of the schema. Setting a field
//! that the version cannot carry is an [`EncodeError`], unless the schema marks the field as
//! ignorable; so a handler sets such fields (`FetchResponse.session_id` before version 7) only at
//! versions that have them.
//!
//! What stands where: [`reader`], [`writer`] and [`primitives`] the alphabet and its bounds,
//! [`schema`] what a message is and [`declare`] how one is declared, [`messages`] the declarations,
//! [`ApiKey`] every known API, [`apis`] what is served; the others as named.

pub mod api_key;
pub mod apis;
pub mod codec_error;
pub mod declare;
pub mod error_code;
pub mod fetch_response;
pub mod frame;
pub mod fuzz;
pub mod header;
pub mod messages;
pub mod primitives;
pub mod reader;
pub mod schema;
pub mod writer;

pub use api_key::{AnyRequest, AnyResponse, ApiKey};
pub use codec_error::{DecodeError, EncodeError};
pub use error_code::ErrorCode;
pub use header::{RequestHeader, ResponseHeader};
pub use primitives::{Uuid, Version};
pub use reader::Reader;
pub use schema::{Message, Records, Request, Response, Versions};
pub use writer::Writer;
