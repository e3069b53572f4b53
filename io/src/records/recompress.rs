//! A batch with the same records under another codec, for topics that force one
//! (`compression.type`).

use std::io::{self, Read, Write};

use bytes::Bytes;

use super::RecordsError;
use super::source::Source;
use crate::batch::{Attributes, CheckedBatch, Codec, at, crc_of};
use crate::limits::{
    BATCH_BYTES_MAX, BATCH_HEADER_BYTES, RECORDS_INPUT_BYTES, RECORDS_OUTPUT_BYTES_MAX,
};
use crate::units::{TimestampMs, bytes_u64};

/// How batches are compressed anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compression {
    pub codec: Codec,
    /// How hard gzip (1 to 9) or zstd (up to 22) works; `None` is as their clients do it. The others
    /// have no choice.
    pub level: Option<i32>,
}

impl From<Codec> for Compression {
    fn from(codec: Codec) -> Compression {
        Compression { codec, level: None }
    }
}

/// The batch under another codec: same header but for codec, length, CRC and, when it is given, the
/// largest timestamp; same records, byte for byte. A batch that has the codec already comes back as
/// it is. Holds one batch of at most `bytes_max` bytes besides the one given.
///
/// # Errors
/// [`RecordsError`] when the records cannot be decompressed, or the batch would be larger than
/// `bytes_max`.
pub fn recompress(
    batch: &CheckedBatch,
    to: Compression,
    max_timestamp: Option<TimestampMs>,
    bytes_max: u64,
) -> Result<CheckedBatch, RecordsError> {
    let codec = to.codec;
    if batch.codec() == codec {
        return Ok(batch.clone());
    }
    let bytes_max = bytes_max.min(bytes_u64(BATCH_BYTES_MAX));
    let payload = &batch.bytes()[BATCH_HEADER_BYTES..];
    let mut source = Source::open(batch.codec(), payload)?;
    let mut out = batch.bytes()[..BATCH_HEADER_BYTES].to_vec();
    let damaged =
        |e: io::Error| RecordsError::Compressed { codec: batch.codec(), reason: e.to_string() };
    let mut sink = Sink::open_at(to, &mut out).map_err(damaged)?;
    let mut piece = vec![0; RECORDS_INPUT_BYTES];
    let mut produced = 0u64;
    loop {
        let got = source.read(&mut piece).map_err(damaged)?;
        if got == 0 {
            break;
        }
        produced += bytes_u64(got);
        if produced > RECORDS_OUTPUT_BYTES_MAX {
            return Err(RecordsError::TooLarge { limit: RECORDS_OUTPUT_BYTES_MAX });
        }
        sink.write(&piece[..got]).map_err(damaged)?;
        if sink.written() > bytes_max {
            return Err(RecordsError::TooLarge { limit: bytes_max });
        }
    }
    sink.finish().map_err(damaged)?;
    if bytes_u64(out.len()) > bytes_max {
        return Err(RecordsError::TooLarge { limit: bytes_max });
    }
    let bytes = finish_header(out, codec, max_timestamp);
    match CheckedBatch::parse(bytes, batch.origin()) {
        Ok(batch) => Ok(batch),
        // A count that cannot be in so few bytes hid behind the old codec.
        Err(error) => {
            Err(RecordsError::Compressed { codec: batch.codec(), reason: error.to_string() })
        }
    }
}

fn finish_header(mut out: Vec<u8>, codec: Codec, max_timestamp: Option<TimestampMs>) -> Bytes {
    let length = u32::try_from(out.len() - crate::batch::LENGTH_OVERHEAD).unwrap_or(u32::MAX);
    out[at::LENGTH..at::LEADER_EPOCH].copy_from_slice(&length.to_be_bytes());
    let attributes = u16::from_be_bytes([out[at::ATTRIBUTES], out[at::ATTRIBUTES + 1]]);
    let attributes = attributes & !Attributes::CODEC_MASK | u16::from(codec.bits());
    out[at::ATTRIBUTES..at::LAST_OFFSET_DELTA].copy_from_slice(&attributes.to_be_bytes());
    if let Some(time) = max_timestamp {
        out[at::MAX_TIMESTAMP..at::PRODUCER_ID].copy_from_slice(&time.get().to_be_bytes());
    }
    let crc = crc_of(&out);
    out[at::CRC..at::ATTRIBUTES].copy_from_slice(&crc.to_be_bytes());
    Bytes::from(out)
}

/// The way back: plain bytes in, compressed bytes behind a header out.
pub(super) enum Sink<'o> {
    Plain(&'o mut Vec<u8>),
    Gzip(flate2::write::GzEncoder<&'o mut Vec<u8>>),
    Snappy { out: &'o mut Vec<u8>, block: Vec<u8> },
    Lz4(Box<lz4_flex::frame::FrameEncoder<&'o mut Vec<u8>>>),
    Zstd(zstd::stream::write::Encoder<'static, &'o mut Vec<u8>>),
}

/// Blocks of the Java framing, as its library makes them.
const SNAPPY_BLOCK_BYTES: usize = 32 * 1024;
const SNAPPY_JAVA_HEADER: &[u8] = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01";

impl<'o> Sink<'o> {
    pub(super) fn open(codec: Codec, out: &'o mut Vec<u8>) -> io::Result<Sink<'o>> {
        Sink::open_at(codec.into(), out)
    }

    fn open_at(to: Compression, out: &'o mut Vec<u8>) -> io::Result<Sink<'o>> {
        Ok(match to.codec {
            Codec::None => Sink::Plain(out),
            Codec::Gzip => {
                let level = to.level.and_then(|level| u32::try_from(level).ok());
                let level = level.map_or(flate2::Compression::default(), flate2::Compression::new);
                Sink::Gzip(flate2::write::GzEncoder::new(out, level))
            }
            Codec::Snappy => {
                out.extend_from_slice(SNAPPY_JAVA_HEADER);
                Sink::Snappy { out, block: Vec::with_capacity(SNAPPY_BLOCK_BYTES) }
            }
            Codec::Lz4 => Sink::Lz4(Box::new(lz4_flex::frame::FrameEncoder::new(out))),
            Codec::Zstd => {
                let level = to.level.unwrap_or(ZSTD_LEVEL);
                Sink::Zstd(zstd::stream::write::Encoder::new(out, level)?)
            }
        })
    }

    /// Bytes that are out already.
    fn written(&self) -> u64 {
        bytes_u64(match self {
            Sink::Plain(out) | Sink::Snappy { out, .. } => out.len(),
            Sink::Gzip(encoder) => encoder.get_ref().len(),
            Sink::Lz4(encoder) => encoder.get_ref().len(),
            Sink::Zstd(encoder) => encoder.get_ref().len(),
        })
    }

    pub(super) fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        match self {
            Sink::Plain(out) => out.write_all(bytes),
            Sink::Gzip(encoder) => encoder.write_all(bytes),
            Sink::Snappy { out, block } => {
                while !bytes.is_empty() {
                    let step = bytes.len().min(SNAPPY_BLOCK_BYTES - block.len());
                    block.extend_from_slice(&bytes[..step]);
                    bytes = &bytes[step..];
                    if block.len() == SNAPPY_BLOCK_BYTES {
                        flush_snappy(block, out)?;
                    }
                }
                Ok(())
            }
            Sink::Lz4(encoder) => encoder.write_all(bytes),
            Sink::Zstd(encoder) => encoder.write_all(bytes),
        }
    }

    pub(super) fn finish(self) -> io::Result<()> {
        match self {
            Sink::Plain(_) => Ok(()),
            Sink::Gzip(encoder) => encoder.finish().map(|_| ()),
            Sink::Snappy { out, mut block } => flush_snappy(&mut block, out),
            Sink::Lz4(encoder) => encoder.finish().map(|_| ()).map_err(io::Error::other),
            Sink::Zstd(encoder) => encoder.finish().map(|_| ()),
        }
    }
}

fn flush_snappy(block: &mut Vec<u8>, out: &mut Vec<u8>) -> io::Result<()> {
    if !block.is_empty() {
        let packed = snap::raw::Encoder::new().compress_vec(block).map_err(io::Error::other)?;
        let len = u32::try_from(packed.len()).map_err(io::Error::other)?;
        out.extend_from_slice(&len.to_be_bytes());
        out.extend_from_slice(&packed);
        block.clear();
    }
    Ok(())
}

/// The level producers use when they are not told another.
const ZSTD_LEVEL: i32 = 3;
