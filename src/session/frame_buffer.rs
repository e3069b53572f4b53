//! Cuts requests out of the bytes of a connection.

use super::limits::{READ_ROOM_FIRST, READ_ROOM_GROWTH};
use crate::wire::frame::{FrameError, LENGTH_BYTES, request_length};
use bytes::{Buf, Bytes, BytesMut};

/// The bytes that have come and are not yet handed on. Holds no memory while it is empty.
#[derive(Default)]
pub struct FrameBuffer {
    bytes: BytesMut,
}

/// What the buffer has.
#[derive(Debug, PartialEq, Eq)]
pub enum Cut {
    /// One request, without its length.
    Frame(Bytes),
    /// So many bytes are still missing, of a request that declares `declared` bytes (`None`: its
    /// length has not come yet).
    Missing { bytes: usize, declared: Option<usize> },
}

impl FrameBuffer {
    /// Cuts the next request off.
    ///
    /// # Errors
    /// What stands there is no request of at most `bytes_max`.
    pub fn cut(&mut self, bytes_max: usize) -> Result<Cut, FrameError> {
        let Some(length) = self.bytes.first_chunk::<LENGTH_BYTES>() else {
            let bytes = LENGTH_BYTES - self.bytes.len();
            return Ok(Cut::Missing { bytes, declared: None });
        };
        let length = request_length(*length, bytes_max)?;
        let whole = LENGTH_BYTES + length;
        if self.bytes.len() < whole {
            let bytes = whole - self.bytes.len();
            return Ok(Cut::Missing { bytes, declared: Some(length) });
        }
        let mut frame = self.bytes.split_to(whole);
        frame.advance(LENGTH_BYTES);
        if self.bytes.is_empty() {
            self.bytes = BytesMut::new();
        }
        Ok(Cut::Frame(frame.freeze()))
    }

    /// The buffer to read into, with room for some of the `missing` bytes: what was received
    /// decides how much, never what was declared. An empty buffer gets no room at all, so that an
    /// idle connection holds none.
    pub fn room(&mut self, missing: usize) -> &mut BytesMut {
        let spare = self.bytes.capacity() - self.bytes.len();
        if !self.bytes.is_empty() && spare < missing.min(READ_ROOM_FIRST) {
            let earned = (READ_ROOM_GROWTH - 1) * self.bytes.len();
            self.bytes.reserve(missing.min(earned.max(READ_ROOM_FIRST)));
        }
        &mut self.bytes
    }

    /// Whether nothing of a next request has come.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Bytes that have come and are not cut off.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(body: &[u8]) -> Vec<u8> {
        let mut frame = i32::try_from(body.len()).unwrap().to_be_bytes().to_vec();
        frame.extend_from_slice(body);
        frame
    }

    #[test]
    fn requests_are_cut_at_any_split_of_the_stream() {
        let stream = [framed(b"a"), framed(b"bcd"), framed(&[7; 300])].concat();
        for step in 1..stream.len() {
            let mut buffer = FrameBuffer::default();
            let mut frames = Vec::new();
            for part in stream.chunks(step) {
                buffer.room(1).extend_from_slice(part);
                while let Cut::Frame(frame) = buffer.cut(1000).unwrap() {
                    frames.push(frame);
                }
            }
            assert_eq!(frames.len(), 3, "step {step}");
            assert_eq!(frames[1], b"bcd"[..]);
            assert!(buffer.is_empty() && buffer.bytes.capacity() == 0);
        }
    }

    #[test]
    fn declared_length_reserves_nothing() {
        let mut buffer = FrameBuffer::default();
        buffer.room(1).extend_from_slice(&(100i32 << 20).to_be_bytes());
        let cut = buffer.cut(100 << 20).unwrap();
        assert_eq!(cut, Cut::Missing { bytes: 100 << 20, declared: Some(100 << 20) });
        let mut received = LENGTH_BYTES;
        while received < 2 << 20 {
            let room = buffer.room((100 << 20) + LENGTH_BYTES - received);
            let take = room.capacity() - room.len();
            let earned = READ_ROOM_GROWTH * received + 2 * READ_ROOM_FIRST;
            assert!(room.capacity() <= earned, "{} > {earned}", room.capacity());
            let part = vec![0; take.min(1000)];
            room.extend_from_slice(&part);
            received += part.len();
        }
    }

    #[test]
    fn too_long_and_negative_lengths_are_refused() {
        for bytes in [[0, 0, 0, 0], [0xff; 4], *b"GET ", [0, 0, 4, 0]] {
            let mut buffer = FrameBuffer::default();
            buffer.room(4).extend_from_slice(&bytes);
            assert!(buffer.cut(1000).is_err(), "{bytes:?}");
        }
    }
}
