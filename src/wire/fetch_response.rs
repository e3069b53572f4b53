//! Frames a Fetch response without touching its records: heads from memory and records from
//! wherever they lie, in turn.
//!
//! ```text
//! | length, header, ... first partition | records | second partition | records | ... node endpoints |
//!   heads[..cut 0]                        piece 0   heads[cut 0..1]    piece 1       heads[cut n..]
//! ```
//!
//! The response is declared like every other message; a partition whose records are
//! [`Records::Elsewhere`](super::Records::Elsewhere) gets its length written and its bytes left out. So there is no second
//! description of the Fetch response that could drift, and the same works for ShareFetch.

use super::codec_error::EncodeError;
use super::frame::{LENGTH_BYTES, frame_length, write_response};
use super::schema::Response;
use super::writer::{Cut, Writer};

/// A response frame with the records left out. Lives on the core of the connection.
#[derive(Debug)]
pub struct FramedResponse {
    /// Everything but the records, in order.
    heads: Vec<u8>,
    cuts: Vec<Cut>,
    records_bytes: usize,
}

/// What to send next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'f> {
    /// These bytes.
    Head(&'f [u8]),
    /// The records of the `index`-th [`Records::Elsewhere`](super::Records::Elsewhere) of the
    /// response, counted from 0 in the order of its topics and partitions: exactly `len` bytes.
    Records { index: usize, len: usize },
}

/// Frames `response`; `buffer` is cleared and used for the heads, so that a connection can keep one.
///
/// The length in front covers the records too: whoever sends the frame must send exactly the
/// announced bytes of each piece, or close the connection.
///
/// # Errors
///
/// [`EncodeError`] when the response does not fit the version, or is longer than 2 GiB.
pub fn frame_in_pieces<'a, R: Response<'a>>(
    response: &R,
    version: i16,
    correlation_id: i32,
    mut buffer: Vec<u8>,
) -> Result<FramedResponse, EncodeError> {
    buffer.clear();
    let mut writer = Writer::append_to(buffer);
    write_response(&mut writer, response, version, correlation_id)?;
    let records_bytes = writer.cut_bytes();
    let length = frame_length(writer.len() - LENGTH_BYTES + records_bytes)?;
    writer.patch_i32(0, length);
    let (heads, cuts) = writer.into_parts();
    Ok(FramedResponse { heads, cuts, records_bytes })
}

impl FramedResponse {
    /// Length of the whole frame on the wire, in bytes.
    pub fn frame_bytes(&self) -> usize {
        self.heads.len() + self.records_bytes
    }

    /// Bytes of the frame that are records.
    pub fn records_bytes(&self) -> usize {
        self.records_bytes
    }

    /// The pieces in the order of the wire. None is empty.
    pub fn pieces(&self) -> impl Iterator<Item = Piece<'_>> {
        let mut start = 0;
        let records = self.cuts.iter().enumerate().flat_map(move |(index, cut)| {
            let head = &self.heads[start..cut.at];
            start = cut.at;
            [Piece::Head(head), Piece::Records { index, len: cut.len }]
        });
        let last = self.cuts.last().map_or(0, |cut| cut.at);
        let pieces = records.chain([Piece::Head(&self.heads[last..])]);
        pieces.filter(|piece| match piece {
            Piece::Head(head) => !head.is_empty(),
            Piece::Records { len, .. } => *len > 0,
        })
    }

    /// Gives the buffer of the heads back for the next response.
    pub fn into_buffer(self) -> Vec<u8> {
        self.heads
    }
}

#[cfg(test)]
#[path = "fetch_response_tests.rs"]
mod tests;
