//! Reads primitives from one frame.
//!
//! # What a stranger can make a decode cost
//!
//! Nothing is reserved by a declared count. Three rules hold together:
//!
//! * A count larger than the bytes that remain is refused, as in Apache Kafka.
//! * An array grows as its elements arrive, from [`ARRAY_CHUNK_BYTES`] by doubling.
//! * All arrays of one frame share a budget: [`DECODED_BYTES_RATIO`] times the frame's length plus
//!   [`DECODED_BYTES_FLOOR`], and never more than [`DECODED_BYTES_MAX`].
//!
//! So decoded arrays hold at most 8 bytes a byte of frame (plus 64 KiB), and at most 64 MiB whatever
//! the frame's length; while an array moves to its next, larger home both live, so the peak is below
//! twice that. Without the budget one-byte elements (empty compact strings) would cost 16 bytes each
//! and small structs up to 40. Honest requests stay below a ratio of 4. Strings, bytes and records
//! are lent from the frame and cost nothing. The depth of nesting is fixed by the message types.

use super::codec_error::DecodeError;
use super::primitives::{STRING_BYTES_MAX, Uuid};

/// Most memory that all decoded arrays of one frame may hold, in bytes.
pub const DECODED_BYTES_MAX: usize = 64 << 20;

/// Memory that decoded arrays may hold for each byte of the frame.
pub const DECODED_BYTES_RATIO: usize = 8;

/// Memory that decoded arrays may hold however short the frame is, in bytes.
pub const DECODED_BYTES_FLOOR: usize = 64 << 10;

/// What an array reserves before its first element is read, in bytes.
pub const ARRAY_CHUNK_BYTES: usize = 1024;

/// Reads primitives from one frame, in order. Lends strings and bytes for the frame's lifetime.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    /// The frame up to where the current value may reach (a tagged field ends early).
    bytes: &'a [u8],
    at: usize,
    budget_bytes: usize,
    budget_left: usize,
}

impl<'a> Reader<'a> {
    /// Starts at the first byte of `frame`, with the budget its length buys.
    pub fn new(frame: &'a [u8]) -> Self {
        let earned = frame.len().saturating_mul(DECODED_BYTES_RATIO);
        let budget = earned.saturating_add(DECODED_BYTES_FLOOR).min(DECODED_BYTES_MAX);
        Self { bytes: frame, at: 0, budget_bytes: budget, budget_left: budget }
    }

    /// Bytes read so far.
    pub fn offset(&self) -> usize {
        self.at
    }

    /// Bytes that remain.
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Lends the next `len` bytes.
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        let rest = &self.bytes[self.at..];
        match rest.get(..len) {
            Some(taken) => {
                self.at += len;
                Ok(taken)
            }
            None => Err(DecodeError::Truncated { offset: self.at, expected: len, got: rest.len() }),
        }
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let rest = &self.bytes[self.at..];
        match rest.first_chunk::<N>() {
            Some(chunk) => {
                self.at += N;
                Ok(*chunk)
            }
            None => Err(DecodeError::Truncated { offset: self.at, expected: N, got: rest.len() }),
        }
    }

    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        Ok(u8::from_be_bytes(self.fixed()?))
    }

    pub fn i8(&mut self) -> Result<i8, DecodeError> {
        Ok(i8::from_be_bytes(self.fixed()?))
    }

    pub fn i16(&mut self) -> Result<i16, DecodeError> {
        Ok(i16::from_be_bytes(self.fixed()?))
    }

    pub fn u16(&mut self) -> Result<u16, DecodeError> {
        Ok(u16::from_be_bytes(self.fixed()?))
    }

    pub fn i32(&mut self) -> Result<i32, DecodeError> {
        Ok(i32::from_be_bytes(self.fixed()?))
    }

    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_be_bytes(self.fixed()?))
    }

    pub fn i64(&mut self) -> Result<i64, DecodeError> {
        Ok(i64::from_be_bytes(self.fixed()?))
    }

    pub fn f64(&mut self) -> Result<f64, DecodeError> {
        Ok(f64::from_be_bytes(self.fixed()?))
    }

    pub fn uuid(&mut self) -> Result<Uuid, DecodeError> {
        Ok(Uuid(self.fixed()?))
    }

    /// A boolean is one byte; every value but zero is true.
    pub fn bool(&mut self) -> Result<bool, DecodeError> {
        Ok(self.u8()? != 0)
    }

    /// An unsigned varint of at most five bytes. Bits beyond the 32nd are lost, as in Kafka.
    pub fn unsigned_varint(&mut self) -> Result<u32, DecodeError> {
        let start = self.at;
        let mut value = 0u32;
        for shift in [0, 7, 14, 21, 28] {
            let byte = self.u8()?;
            value |= u32::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(DecodeError::VarintTooLong { offset: start, expected_bytes_max: 5 })
    }

    /// A zig-zag varint, as in record bodies.
    pub fn varint(&mut self) -> Result<i32, DecodeError> {
        let raw = self.unsigned_varint()?;
        Ok((raw >> 1) as i32 ^ -((raw & 1) as i32))
    }

    /// A zig-zag varint of at most ten bytes, as in record bodies.
    pub fn varlong(&mut self) -> Result<i64, DecodeError> {
        let start = self.at;
        let mut raw = 0u64;
        for shift in (0..70).step_by(7) {
            let byte = self.u8()?;
            raw |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok((raw >> 1) as i64 ^ -((raw & 1) as i64));
            }
        }
        Err(DecodeError::VarintTooLong { offset: start, expected_bytes_max: 10 })
    }

    /// A string or, for a negative length, null.
    pub fn nullable_string(&mut self, flexible: bool) -> Result<Option<&'a str>, DecodeError> {
        let start = self.at;
        let len = if flexible { self.compact_len()? } else { i32::from(self.i16()?) };
        let Ok(len) = usize::try_from(len) else { return Ok(None) };
        if len > STRING_BYTES_MAX {
            let expected_max = STRING_BYTES_MAX;
            return Err(DecodeError::StringTooLong { offset: start, expected_max, got: len });
        }
        let start = self.at;
        let bytes = self.take(len)?;
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Some(text)),
            Err(error) => {
                let fault = error.valid_up_to();
                Err(DecodeError::NotUtf8 { offset: start + fault, got: bytes[fault] })
            }
        }
    }

    /// A string; null is an error.
    pub fn string(&mut self, flexible: bool) -> Result<&'a str, DecodeError> {
        let value = self.nullable_string(flexible)?;
        value.ok_or(DecodeError::UnexpectedNull { offset: self.at, expected: "a string" })
    }

    /// Bytes (or records) or, for a negative length, null.
    pub fn nullable_bytes(&mut self, flexible: bool) -> Result<Option<&'a [u8]>, DecodeError> {
        let len = if flexible { self.compact_len()? } else { self.i32()? };
        let Ok(len) = usize::try_from(len) else { return Ok(None) };
        Ok(Some(self.take(len)?))
    }

    /// Bytes (or records); null is an error.
    pub fn bytes(&mut self, flexible: bool) -> Result<&'a [u8], DecodeError> {
        let value = self.nullable_bytes(flexible)?;
        value.ok_or(DecodeError::UnexpectedNull { offset: self.at, expected: "bytes" })
    }

    /// The count of an array or, when it is negative, null. Never larger than [`Self::remaining`].
    pub fn count(&mut self, flexible: bool) -> Result<Option<usize>, DecodeError> {
        let start = self.at;
        let count = if flexible { self.compact_len()? } else { self.i32()? };
        let Ok(count) = usize::try_from(count) else { return Ok(None) };
        let remaining = self.remaining();
        if count > remaining {
            let expected_max = remaining;
            return Err(DecodeError::CountBeyondFrame { offset: start, expected_max, got: count });
        }
        Ok(Some(count))
    }

    /// Reads an array element by element, within the frame's budget; a negative count is null.
    pub fn nullable_array<T>(
        &mut self,
        flexible: bool,
        mut element: impl FnMut(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Option<Vec<T>>, DecodeError> {
        let Some(count) = self.count(flexible)? else { return Ok(None) };
        let mut array = Vec::new();
        for _ in 0..count {
            if array.len() == array.capacity() {
                self.grow(&mut array, count)?;
            }
            array.push(element(self)?);
        }
        Ok(Some(array))
    }

    /// Reads the tagged fields that end a flexible struct. `known` reads the value of a tag it
    /// knows and answers true; every other tag is skipped.
    pub fn tagged_fields(
        &mut self,
        mut known: impl FnMut(u32, &mut Self) -> Result<bool, DecodeError>,
    ) -> Result<(), DecodeError> {
        let count = self.unsigned_varint()?;
        for _ in 0..count {
            let tag = self.unsigned_varint()?;
            let len = self.unsigned_varint()? as usize;
            let start = self.at;
            let value = self.take(len)?;
            self.at = start;
            let outer = self.bytes;
            self.bytes = &outer[..start + value.len()];
            let is_known = known(tag, self)?;
            self.bytes = outer;
            if is_known && self.at != start + len {
                let got = self.at - start;
                let expected = len;
                return Err(DecodeError::TaggedFieldLength { offset: start, tag, expected, got });
            }
            self.at = start + len;
        }
        Ok(())
    }

    /// A compact length: an unsigned varint that is one larger than the length; 0 is null.
    fn compact_len(&mut self) -> Result<i32, DecodeError> {
        Ok((self.unsigned_varint()? as i32).wrapping_sub(1))
    }

    /// Doubles `array`, but not beyond `count`, and pays for it from the budget.
    fn grow<T>(&mut self, array: &mut Vec<T>, count: usize) -> Result<(), DecodeError> {
        let size = size_of::<T>().max(1);
        let first = (ARRAY_CHUNK_BYTES / size).max(1);
        let target = array.capacity().saturating_mul(2).max(first).min(count);
        let more = target - array.len();
        let cost = more.saturating_mul(size);
        let Some(left) = self.budget_left.checked_sub(cost) else {
            let got = (self.budget_bytes - self.budget_left).saturating_add(cost);
            let expected_max = self.budget_bytes;
            return Err(DecodeError::BudgetExhausted { offset: self.at, expected_max, got });
        };
        self.budget_left = left;
        array.reserve_exact(more);
        Ok(())
    }
}
