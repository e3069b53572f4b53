//! The decompressed records of a batch as a stream of bytes.

use std::io::{self, BufRead, Read};

use super::RecordsError;
use crate::batch::Codec;
use crate::limits::{SNAPPY_BLOCK_BYTES_MAX, SNAPPY_RATIO_MAX, ZSTD_WINDOW_LOG_MAX};

/// Bytes behind a batch header, through the codec its attributes name.
pub(super) enum Source<'a> {
    Plain(&'a [u8]),
    Gzip(Box<flate2::bufread::MultiGzDecoder<&'a [u8]>>),
    Snappy(Snappy<'a>),
    Lz4(Box<lz4_flex::frame::FrameDecoder<&'a [u8]>>),
    Zstd(Box<zstd::stream::read::Decoder<'static, &'a [u8]>>),
}

impl<'a> Source<'a> {
    /// # Errors
    /// [`RecordsError::Compressed`] when the codec's own header is damaged.
    pub(super) fn open(codec: Codec, payload: &'a [u8]) -> Result<Source<'a>, RecordsError> {
        let damaged = |e: io::Error| RecordsError::Compressed { codec, reason: e.to_string() };
        Ok(match codec {
            Codec::None => Source::Plain(payload),
            Codec::Gzip => Source::Gzip(Box::new(flate2::bufread::MultiGzDecoder::new(payload))),
            Codec::Snappy => Source::Snappy(Snappy::open(payload)),
            Codec::Lz4 => Source::Lz4(Box::new(lz4_flex::frame::FrameDecoder::new(payload))),
            Codec::Zstd => {
                let decoder = zstd::stream::read::Decoder::with_buffer(payload);
                let mut decoder = decoder.map_err(damaged)?;
                decoder.window_log_max(ZSTD_WINDOW_LOG_MAX).map_err(damaged)?;
                Source::Zstd(Box::new(decoder))
            }
        })
    }
}

impl Read for Source<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Source::Plain(bytes) => bytes.read(buf),
            Source::Gzip(decoder) => decoder.read(buf),
            Source::Snappy(decoder) => decoder.read(buf),
            Source::Lz4(decoder) => {
                let got = decoder.read(buf)?;
                // The decoder takes an end in the middle of a frame for the end of the data.
                if got == 0 && !decoder.get_mut().fill_buf()?.is_empty() {
                    return Err(damaged("bytes stand behind the frame"));
                }
                Ok(got)
            }
            Source::Zstd(decoder) => decoder.read(buf),
        }
    }
}

/// Snappy data in either of its two dresses: one raw block (librdkafka, Go and C clients), or the
/// frames of the Java library: a magic, two versions, then blocks with their length in front.
pub(super) struct Snappy<'a> {
    rest: &'a [u8],
    framed: bool,
    block: Vec<u8>,
    at: usize,
}

const JAVA_MAGIC: &[u8] = b"\x82SNAPPY\0";
/// Magic, version, oldest compatible version.
const JAVA_HEADER_BYTES: usize = 16;

impl<'a> Snappy<'a> {
    fn open(payload: &'a [u8]) -> Snappy<'a> {
        let framed = payload.starts_with(JAVA_MAGIC) && payload.len() >= JAVA_HEADER_BYTES;
        let rest = if framed { &payload[JAVA_HEADER_BYTES..] } else { payload };
        Snappy { rest, framed, block: Vec::new(), at: 0 }
    }

    /// Decompresses the next block; false when there is none.
    fn next_block(&mut self) -> io::Result<bool> {
        if self.rest.is_empty() {
            return Ok(false);
        }
        let block = if self.framed {
            let Some((len, rest)) = self.rest.split_first_chunk::<4>() else {
                return Err(damaged("the length of a block is cut"));
            };
            let len = u32::from_be_bytes(*len) as usize;
            let Some((block, rest)) = rest.split_at_checked(len) else {
                return Err(damaged("a block is cut"));
            };
            self.rest = rest;
            block
        } else {
            std::mem::take(&mut self.rest)
        };
        let len = snap::raw::decompress_len(block).map_err(io::Error::other)?;
        if len > SNAPPY_BLOCK_BYTES_MAX || len / SNAPPY_RATIO_MAX > block.len() {
            return Err(damaged("a block says it is larger than it can be"));
        }
        self.block.resize(len, 0);
        let got = snap::raw::Decoder::new().decompress(block, &mut self.block);
        let got = got.map_err(io::Error::other)?;
        self.block.truncate(got);
        self.at = 0;
        Ok(true)
    }
}

impl Read for Snappy<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        while self.at == self.block.len() {
            if !self.next_block()? {
                return Ok(0);
            }
        }
        let got = (&self.block[self.at..]).read(buf)?;
        self.at += got;
        Ok(got)
    }
}

fn damaged(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
