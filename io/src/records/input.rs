//! The numbers and bytes of records, read off a stream through one buffer.

use std::io::{self, Read};

use super::RecordsError;
use super::source::Source;
use crate::batch::Codec;
use crate::limits::{RECORDS_INPUT_BYTES, RECORDS_OUTPUT_BYTES_MAX};
use crate::units::bytes_u64;

/// A buffered stream that knows which record it is in and how much of it is left.
pub(super) struct Input<'a> {
    source: Source<'a>,
    codec: Codec,
    buf: Vec<u8>,
    at: usize,
    /// Bytes the source gave so far.
    produced: u64,
    index: u32,
    /// Bytes of the record at hand that are not read yet; `None` in front of its length.
    left: Option<u32>,
}

impl<'a> Input<'a> {
    pub(super) fn new(source: Source<'a>, codec: Codec) -> Input<'a> {
        Input { source, codec, buf: Vec::new(), at: 0, produced: 0, index: 0, left: None }
    }

    /// Starts record `index`.
    pub(super) fn begin(&mut self, index: u32) {
        self.index = index;
        self.left = None;
    }

    /// The record at hand has so many bytes from here on.
    pub(super) fn enclose(&mut self, bytes: u32) {
        self.left = Some(bytes);
    }

    pub(super) fn left(&self) -> u32 {
        self.left.unwrap_or(0)
    }

    /// True when the stream has no byte more.
    pub(super) fn is_at_end(&mut self) -> Result<bool, RecordsError> {
        Ok(self.at == self.buf.len() && !self.fill()?)
    }

    /// A signed number of 32 bits.
    pub(super) fn varint(&mut self) -> Result<i64, RecordsError> {
        let value = self.unsigned(5)?;
        let value = u32::try_from(value).map_err(|_| RecordsError::Varint { index: self.index })?;
        Ok(zigzag(u64::from(value)))
    }

    /// A signed number of 64 bits.
    pub(super) fn varlong(&mut self) -> Result<i64, RecordsError> {
        Ok(zigzag(self.unsigned(10)?))
    }

    /// The length of a field; `None` when it says that there is no field.
    pub(super) fn nullable_len(&mut self) -> Result<Option<u32>, RecordsError> {
        let wrong = RecordsError::Field { index: self.index };
        match self.varint()? {
            -1 => Ok(None),
            len => match u32::try_from(len) {
                Ok(len) if len <= self.left() => Ok(Some(len)),
                _ => Err(wrong),
            },
        }
    }

    pub(super) fn skip(&mut self, bytes: u32) -> Result<(), RecordsError> {
        self.pass(bytes, |_| {})
    }

    /// Appends the next bytes to `out`, as they come: nothing is reserved by their number.
    pub(super) fn take(&mut self, bytes: u32, out: &mut Vec<u8>) -> Result<(), RecordsError> {
        self.pass(bytes, |piece| out.extend_from_slice(piece))
    }

    fn pass(&mut self, bytes: u32, mut each: impl FnMut(&[u8])) -> Result<(), RecordsError> {
        self.count(bytes)?;
        let mut rest = bytes as usize;
        while rest > 0 {
            if self.at == self.buf.len() && !self.fill()? {
                return Err(RecordsError::Ends { index: self.index });
            }
            let step = rest.min(self.buf.len() - self.at);
            each(&self.buf[self.at..self.at + step]);
            self.at += step;
            rest -= step;
        }
        Ok(())
    }

    fn unsigned(&mut self, bytes_max: u32) -> Result<u64, RecordsError> {
        let mut value = 0u64;
        for i in 0..bytes_max {
            let byte = self.byte()?;
            // The tenth byte has room for one bit.
            if i == 9 && byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7f) << (7 * i);
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(RecordsError::Varint { index: self.index })
    }

    #[inline]
    fn byte(&mut self) -> Result<u8, RecordsError> {
        self.count(1)?;
        if self.at == self.buf.len() && !self.fill()? {
            return Err(RecordsError::Ends { index: self.index });
        }
        let byte = self.buf[self.at];
        self.at += 1;
        Ok(byte)
    }

    /// Takes `bytes` off what is left of the record.
    #[inline]
    fn count(&mut self, bytes: u32) -> Result<(), RecordsError> {
        if let Some(left) = self.left {
            let rest = left.checked_sub(bytes);
            self.left = Some(rest.ok_or(RecordsError::Field { index: self.index })?);
        }
        Ok(())
    }

    /// Reads the next piece of the stream; false at its end.
    fn fill(&mut self) -> Result<bool, RecordsError> {
        self.buf.resize(RECORDS_INPUT_BYTES, 0);
        self.at = 0;
        let got = loop {
            match self.source.read(&mut self.buf) {
                Ok(got) => break got,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.buf.clear();
                    let (codec, reason) = (self.codec, error.to_string());
                    return Err(RecordsError::Compressed { codec, reason });
                }
            }
        };
        self.buf.truncate(got);
        self.produced += bytes_u64(got);
        if self.produced > RECORDS_OUTPUT_BYTES_MAX {
            return Err(RecordsError::TooLarge { limit: RECORDS_OUTPUT_BYTES_MAX });
        }
        Ok(got > 0)
    }
}

/// A signed number of 32 bits at the start of `bytes`, and how many bytes it takes.
pub(super) fn varint_of(bytes: &[u8]) -> Option<(i64, usize)> {
    let mut value = 0u64;
    for (i, byte) in bytes.iter().take(5).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * i);
        if *byte < 0x80 {
            let value = u32::try_from(value).ok()?;
            return Some((zigzag(u64::from(value)), i + 1));
        }
    }
    None
}

const fn zigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -((value & 1).cast_signed())
}
