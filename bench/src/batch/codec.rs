//! The codecs of Kafka, each so that the first bytes of the records stay as they are: a stored block,
//! chunk or frame of their own in front of the compressed rest. Every format allows that, and it lets a
//! finished batch be stamped anew for each sending without compressing it again.

use std::io::Write;
use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};
use flate2::write::GzEncoder;
use flate2::{Compression, Crc};

/// A codec by its number in the attributes of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Codec {
    #[default]
    None = 0,
    Gzip = 1,
    Snappy = 2,
    Lz4 = 3,
    Zstd = 4,
}

impl Codec {
    /// All of them.
    pub const ALL: [Codec; 5] = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];

    /// Kafka's word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Codec::None => "none",
            Codec::Gzip => "gzip",
            Codec::Snappy => "snappy",
            Codec::Lz4 => "lz4",
            Codec::Zstd => "zstd",
        }
    }

    /// Bytes that follow the stored head and depend on it.
    pub const fn trailer_bytes(self) -> usize {
        match self {
            Codec::Gzip => 4,
            Codec::None | Codec::Snappy | Codec::Lz4 | Codec::Zstd => 0,
        }
    }

    /// What [`Codec::trailer_bytes`] must hold for this head.
    pub fn trailer(self, head: &[&[u8]]) -> [u8; 4] {
        let mut crc = Crc::new();
        for part in head {
            crc.update(part);
        }
        crc.sum().to_le_bytes()
    }
}

impl FromStr for Codec {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Codec> {
        match Codec::ALL.into_iter().find(|codec| codec.name() == text) {
            Some(codec) => Ok(codec),
            None => bail!("`{text}` is no codec: none, gzip, snappy, lz4, zstd"),
        }
    }
}

/// Longest head: what one byte can count, in every format.
const HEAD_BYTES_MAX: usize = 255;
/// Snappy chunks hold so much, as Kafka's clients make them.
const SNAPPY_CHUNK_BYTES: usize = 32 * 1024;

/// Packs `head` as it is and `rest` compressed; says where the head begins.
///
/// # Errors
/// When the head is longer than 255 bytes, and what the compressors say.
pub fn pack(codec: Codec, head: &[u8], rest: &[u8]) -> Result<(Vec<u8>, usize)> {
    ensure!(head.len() <= HEAD_BYTES_MAX, "a stored head of {} bytes", head.len());
    let short = u8::try_from(head.len())?;
    let mut out = Vec::with_capacity(head.len() + rest.len() + 64);
    match codec {
        Codec::None => {}
        Codec::Gzip => {
            // A member with one stored block: RFC 1952, RFC 1951 3.2.4.
            out.extend_from_slice(&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff]);
            out.extend_from_slice(&[1, short, 0, !short, 0xff]);
        }
        Codec::Snappy => {
            // The framing of xerial's SnappyOutputStream, and a chunk that is one literal.
            out.extend_from_slice(b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01");
            let mut chunk = Vec::new();
            super::put_unsigned(&mut chunk, u64::from(short));
            match short {
                0..=60 => chunk.push(short.saturating_sub(1) << 2),
                _ => chunk.extend_from_slice(&[60 << 2, short - 1]),
            }
            out.extend_from_slice(&u32::try_from(chunk.len() + head.len())?.to_be_bytes());
            out.extend_from_slice(&chunk);
        }
        Codec::Lz4 => {
            let frame = lz4(rest)?;
            // The frame's own descriptor, then an uncompressed block before its others.
            out.extend_from_slice(&frame[..LZ4_DESCRIPTOR_BYTES]);
            out.extend_from_slice(&(u32::from(short) | 1 << 31).to_le_bytes());
            out.extend_from_slice(head);
            out.extend_from_slice(&frame[LZ4_DESCRIPTOR_BYTES..]);
            return Ok((out, LZ4_DESCRIPTOR_BYTES + 4));
        }
        Codec::Zstd => {
            // A frame of a single segment with one raw block: RFC 8878, 3.1.1.
            out.extend_from_slice(&[0x28, 0xb5, 0x2f, 0xfd, 0x20, short]);
            let block = u32::from(short) << 3 | 1;
            out.extend_from_slice(&block.to_le_bytes()[..3]);
        }
    }
    let at = out.len();
    out.extend_from_slice(head);
    match codec {
        Codec::None => out.extend_from_slice(rest),
        Codec::Gzip => {
            out.extend_from_slice(&codec.trailer(&[head]));
            out.extend_from_slice(&u32::from(short).to_le_bytes());
            let mut encoder = GzEncoder::new(&mut out, Compression::default());
            encoder.write_all(rest)?;
            encoder.finish()?;
        }
        Codec::Snappy => {
            for chunk in rest.chunks(SNAPPY_CHUNK_BYTES) {
                let packed = snap::raw::Encoder::new().compress_vec(chunk)?;
                out.extend_from_slice(&u32::try_from(packed.len())?.to_be_bytes());
                out.extend_from_slice(&packed);
            }
        }
        Codec::Zstd => out.extend_from_slice(&zstd::bulk::compress(rest, 3)?),
        Codec::Lz4 => unreachable!("it is packed above"),
    }
    Ok((out, at))
}

/// Magic, flags, block size and checksum of a descriptor without content size.
const LZ4_DESCRIPTOR_BYTES: usize = 7;

fn lz4(rest: &[u8]) -> Result<Vec<u8>> {
    use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
    let info = FrameInfo::new().block_mode(BlockMode::Independent).block_size(BlockSize::Max64KB);
    let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
    encoder.write_all(rest)?;
    let frame = encoder.finish().context("an lz4 frame")?;
    ensure!(frame[4] & 0b1100 == 0, "an lz4 frame with a content size or checksum");
    Ok(frame)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn unpack(codec: Codec, packed: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        match codec {
            Codec::None => out.extend_from_slice(packed),
            Codec::Gzip => {
                flate2::read::MultiGzDecoder::new(packed).read_to_end(&mut out).unwrap();
            }
            Codec::Snappy => {
                let mut rest = &packed[16..];
                while let Some((length, behind)) = rest.split_first_chunk::<4>() {
                    let (chunk, behind) = behind.split_at(u32::from_be_bytes(*length) as usize);
                    out.extend(snap::raw::Decoder::new().decompress_vec(chunk).unwrap());
                    rest = behind;
                }
            }
            Codec::Lz4 => {
                lz4_flex::frame::FrameDecoder::new(packed).read_to_end(&mut out).unwrap();
            }
            Codec::Zstd => {
                zstd::stream::read::Decoder::new(packed).unwrap().read_to_end(&mut out).unwrap();
            }
        }
        out
    }

    #[test]
    fn every_codec_stores_the_head_in_sight_and_gives_all_back() {
        for codec in Codec::ALL {
            for head in [&b"short head"[..], &[7; 61], &[9; 200]] {
                for rest in [&[0u8][..], &[3; 100_000]] {
                    let (packed, at) = pack(codec, head, rest).unwrap();
                    assert_eq!(&packed[at..at + head.len()], head, "{codec:?}");
                    assert_eq!(unpack(codec, &packed), [head, rest].concat(), "{codec:?}");
                    if codec != Codec::None && rest.len() > 1 {
                        assert!(packed.len() < 10_000, "{codec:?} packs to {}", packed.len());
                    }
                }
            }
        }
        assert!(pack(Codec::Zstd, &[0; 256], &[0]).is_err());
        assert!("brotli".parse::<Codec>().is_err());
    }
}
