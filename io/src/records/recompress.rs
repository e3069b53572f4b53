//! A batch with the same records under another codec, for topics that force one
//! (`compression.type`).

use std::io::{self, Read, Write};

use bytes::Bytes;

use super::RecordsError;
use super::source::Source;
use crate::batch::{Attributes, CheckedBatch, Codec, at, crc_of};
use crate::limits::{BATCH_HEADER_BYTES, RECORDS_INPUT_BYTES, RECORDS_OUTPUT_BYTES_MAX};
use crate::units::bytes_u64;

/// The batch under `codec`: same header but for codec, length and CRC; same records, byte for byte.
/// A batch that has the codec already comes back as it is.
///
/// The size is not that of the batch that was checked against a topic's limit: check it again.
///
/// # Errors
/// [`RecordsError`] when the records cannot be decompressed, or are too many bytes.
pub fn recompress(batch: &CheckedBatch, codec: Codec) -> Result<CheckedBatch, RecordsError> {
    if batch.codec() == codec {
        return Ok(batch.clone());
    }
    let payload = &batch.bytes()[BATCH_HEADER_BYTES..];
    let mut source = Source::open(batch.codec(), payload)?;
    let mut out = batch.bytes()[..BATCH_HEADER_BYTES].to_vec();
    let damaged =
        |e: io::Error| RecordsError::Compressed { codec: batch.codec(), reason: e.to_string() };
    let mut sink = Sink::open(codec, &mut out).map_err(damaged)?;
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
    }
    sink.finish().map_err(damaged)?;
    let bytes = finish_header(out, codec)?;
    match CheckedBatch::parse(bytes, batch.origin()) {
        Ok(batch) => Ok(batch),
        // A count that cannot be in so few bytes hid behind the old codec.
        Err(error) => {
            Err(RecordsError::Compressed { codec: batch.codec(), reason: error.to_string() })
        }
    }
}

fn finish_header(mut out: Vec<u8>, codec: Codec) -> Result<Bytes, RecordsError> {
    let limit = bytes_u64(crate::limits::BATCH_BYTES_MAX);
    if bytes_u64(out.len()) > limit {
        return Err(RecordsError::TooLarge { limit });
    }
    let length = u32::try_from(out.len() - crate::batch::LENGTH_OVERHEAD).unwrap_or(u32::MAX);
    out[at::LENGTH..at::LEADER_EPOCH].copy_from_slice(&length.to_be_bytes());
    let attributes = u16::from_be_bytes([out[at::ATTRIBUTES], out[at::ATTRIBUTES + 1]]);
    let attributes = attributes & !Attributes::CODEC_MASK | u16::from(codec.bits());
    out[at::ATTRIBUTES..at::LAST_OFFSET_DELTA].copy_from_slice(&attributes.to_be_bytes());
    let crc = crc_of(&out);
    out[at::CRC..at::ATTRIBUTES].copy_from_slice(&crc.to_be_bytes());
    Ok(Bytes::from(out))
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
        Ok(match codec {
            Codec::None => Sink::Plain(out),
            Codec::Gzip => {
                Sink::Gzip(flate2::write::GzEncoder::new(out, flate2::Compression::default()))
            }
            Codec::Snappy => {
                out.extend_from_slice(SNAPPY_JAVA_HEADER);
                Sink::Snappy { out, block: Vec::with_capacity(SNAPPY_BLOCK_BYTES) }
            }
            Codec::Lz4 => Sink::Lz4(Box::new(lz4_flex::frame::FrameEncoder::new(out))),
            Codec::Zstd => Sink::Zstd(zstd::stream::write::Encoder::new(out, ZSTD_LEVEL)?),
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
