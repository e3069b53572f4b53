//! Appends primitives to one buffer.

use super::codec_error::EncodeError;
use super::primitives::{STRING_BYTES_MAX, Uuid};

/// A place in the written bytes where bytes belong that are kept elsewhere (see [`Writer::cut`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Where in the written bytes the foreign bytes belong.
    pub at: usize,
    /// How many foreign bytes.
    pub len: usize,
}

/// Appends primitives to one buffer.
#[derive(Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
    cuts: Vec<Cut>,
}

impl Writer {
    /// Starts an empty buffer; it grows by need.
    pub fn new() -> Self {
        Self::default()
    }

    /// Goes on at the end of `bytes`, so that a connection can use one buffer again and again.
    pub fn append_to(bytes: Vec<u8>) -> Self {
        Self { bytes, cuts: Vec::new() }
    }

    /// Bytes written so far, without the foreign ones.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether nothing has been written.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Bytes left out so far (see [`Self::cut`]).
    pub fn cut_bytes(&self) -> usize {
        self.cuts.iter().map(|cut| cut.len).sum()
    }

    /// The written bytes.
    ///
    /// # Panics
    ///
    /// If bytes were cut out: whoever writes [`super::Records::Elsewhere`] must take the parts.
    pub fn into_bytes(self) -> Vec<u8> {
        assert!(self.cuts.is_empty(), "{} pieces of records are kept elsewhere", self.cuts.len());
        self.bytes
    }

    /// The written bytes and the places where foreign bytes belong, in order.
    pub fn into_parts(self) -> (Vec<u8>, Vec<Cut>) {
        (self.bytes, self.cuts)
    }

    #[inline]
    pub fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    #[inline]
    pub fn i8(&mut self, value: i8) {
        self.raw(&value.to_be_bytes());
    }

    #[inline]
    pub fn i16(&mut self, value: i16) {
        self.raw(&value.to_be_bytes());
    }

    #[inline]
    pub fn u16(&mut self, value: u16) {
        self.raw(&value.to_be_bytes());
    }

    #[inline]
    pub fn i32(&mut self, value: i32) {
        self.raw(&value.to_be_bytes());
    }

    #[inline]
    pub fn u32(&mut self, value: u32) {
        self.raw(&value.to_be_bytes());
    }

    #[inline]
    pub fn i64(&mut self, value: i64) {
        self.raw(&value.to_be_bytes());
    }

    #[inline]
    pub fn f64(&mut self, value: f64) {
        self.raw(&value.to_be_bytes());
    }

    #[inline]
    pub fn uuid(&mut self, value: Uuid) {
        self.raw(&value.0);
    }

    #[inline]
    pub fn bool(&mut self, value: bool) {
        self.u8(u8::from(value));
    }

    /// Appends bytes as they are, without a length.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Overwrites four bytes that were written before, such as a length known only at the end.
    ///
    /// # Panics
    ///
    /// If fewer than four bytes were written from `at` on.
    pub fn patch_i32(&mut self, at: usize, value: i32) {
        self.bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
    }

    #[inline]
    pub fn unsigned_varint(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.u8(value as u8 | 0x80);
            value >>= 7;
        }
        self.u8(value as u8);
    }

    /// A zig-zag varint, as in record bodies.
    pub fn varint(&mut self, value: i32) {
        self.unsigned_varint((value << 1 ^ value >> 31) as u32);
    }

    /// A zig-zag varint of 64 bits, as in record bodies.
    pub fn varlong(&mut self, value: i64) {
        let mut raw = (value << 1 ^ value >> 63) as u64;
        while raw >= 0x80 {
            self.u8(raw as u8 | 0x80);
            raw >>= 7;
        }
        self.u8(raw as u8);
    }

    pub fn nullable_string(
        &mut self,
        value: Option<&str>,
        flexible: bool,
    ) -> Result<(), EncodeError> {
        let Some(text) = value else {
            if flexible {
                self.u8(0);
            } else {
                self.i16(-1);
            }
            return Ok(());
        };
        let too_long = EncodeError::TooLong {
            what: "a string",
            expected_max: STRING_BYTES_MAX,
            got: text.len(),
        };
        let len = i16::try_from(text.len()).map_err(|_| too_long)?;
        if flexible {
            self.unsigned_varint(len as u32 + 1);
        } else {
            self.i16(len);
        }
        self.raw(text.as_bytes());
        Ok(())
    }

    pub fn nullable_bytes(
        &mut self,
        value: Option<&[u8]>,
        flexible: bool,
    ) -> Result<(), EncodeError> {
        self.length("bytes", value.map(<[u8]>::len), flexible)?;
        self.raw(value.unwrap_or_default());
        Ok(())
    }

    /// The length that stands before bytes, or the count that stands before an array.
    #[inline]
    pub fn length(
        &mut self,
        what: &'static str,
        len: Option<usize>,
        flexible: bool,
    ) -> Result<(), EncodeError> {
        let len = match len {
            None => -1,
            Some(len) => {
                let expected_max = LENGTH_MAX as usize;
                let too_long = EncodeError::TooLong { what, expected_max, got: len };
                i32::try_from(len).ok().filter(|len| *len <= LENGTH_MAX).ok_or(too_long)?
            }
        };
        if flexible {
            self.unsigned_varint((len + 1) as u32);
        } else {
            self.i32(len);
        }
        Ok(())
    }

    /// Leaves out `len` bytes that are kept elsewhere; whoever sends the frame puts them in here.
    #[inline]
    pub fn cut(&mut self, len: usize) {
        self.cuts.push(Cut { at: self.bytes.len(), len });
    }

    /// Writes one tagged field: tag, length, and what `value` appends.
    ///
    /// # Panics
    ///
    /// If `value` cuts bytes out: no tagged field of the protocol holds records.
    #[inline]
    pub fn tagged_field(
        &mut self,
        tag: u32,
        value: impl FnOnce(&mut Self) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        self.unsigned_varint(tag);
        let start = self.bytes.len();
        let cuts = self.cuts.len();
        value(self)?;
        assert_eq!(self.cuts.len(), cuts, "records inside tagged field {tag}");
        let expected_max = LENGTH_MAX as usize;
        let got = self.bytes.len() - start;
        let too_long = EncodeError::TooLong { what: "a tagged field", expected_max, got };
        let len = u32::try_from(got).map_err(|_| too_long)?;
        // The length comes first but is known last: write it behind the value and turn it round.
        self.unsigned_varint(len);
        let len_bytes = self.bytes.len() - start - got;
        self.bytes[start..].rotate_right(len_bytes);
        Ok(())
    }
}

/// Largest length that both forms can carry: the compact one is one larger on the wire.
const LENGTH_MAX: i32 = i32::MAX - 1;
