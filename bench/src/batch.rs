//! Version 2 record batches, built and read by the load generator's own code, so that a fault of
//! the broker's code cannot hide itself.
//!
//! ```text
//!  0  base offset i64        stamped by the broker
//!  8  length i32             of all that follows
//! 12  leader epoch i32       stamped by the broker
//! 16  magic i8 = 2
//! 17  CRC-32C u32            of all that follows
//! 21  attributes i16
//! 23  last offset delta i32
//! 27  base timestamp i64, max timestamp i64
//! 43  producer id i64, producer epoch i16, base sequence i32
//! 57  count i32
//! 61  records
//! ```

use anyhow::{Result, bail, ensure};

/// Compression, with the head of the records stored as it is.
pub mod codec;
/// What may come back, recognised by its checksum.
pub mod known;
/// Batches that are built once and stamped for each sending.
pub mod template;

/// Bytes of a batch before its first record.
pub const HEADER_BYTES: usize = 61;

const CRC_AT: usize = 17;
const CRC_FROM: usize = 21;

/// A batch ready to send.
#[derive(Clone, Debug)]
pub struct Batch {
    pub bytes: Vec<u8>,
    pub records: u32,
    /// CRC-32C over what the broker must not change: equal before and after.
    pub crc: u32,
}

impl Batch {
    /// One record a value, without keys, all at `timestamp_ms`.
    ///
    /// # Panics
    /// Without a value, or with more than an i32 can count.
    pub fn build<'a>(values: impl Iterator<Item = &'a [u8]>, timestamp_ms: i64) -> Batch {
        Batch::of(values.map(|value| (None, value)), timestamp_ms)
    }

    /// `records` values of `value_bytes` each under keys of eight bytes: the number `first_key` and
    /// those behind it.
    pub fn keyed(records: u32, first_key: u64, value_bytes: usize, timestamp_ms: i64) -> Batch {
        let filled = Batch::filled(records, value_bytes, first_key, timestamp_ms);
        let seen = Seen { base_offset: 0, records, crc: filled.crc, bytes: &filled.bytes };
        let keys: Vec<[u8; 8]> =
            (first_key..).take(records as usize).map(u64::to_be_bytes).collect();
        let values = seen.values().filter_map(Result::ok);
        let pairs = keys.iter().zip(values).map(|(key, value)| (Some(key.as_slice()), value));
        Batch::of(pairs, timestamp_ms)
    }

    fn of<'a>(
        pairs: impl Iterator<Item = (Option<&'a [u8]>, &'a [u8])>,
        timestamp_ms: i64,
    ) -> Batch {
        let mut bytes = vec![0; HEADER_BYTES];
        let mut records = 0i32;
        for (key, value) in pairs {
            put_record(&mut bytes, records, key, value);
            records += 1;
        }
        assert!(records > 0, "a batch holds at least one record, not {records}");
        let length = i32::try_from(bytes.len() - 12)
            .unwrap_or_else(|_| panic!("a batch of {} bytes does not fit the format", bytes.len()));
        bytes[8..12].copy_from_slice(&length.to_be_bytes());
        bytes[12..16].copy_from_slice(&(-1i32).to_be_bytes());
        bytes[16] = 2;
        bytes[23..27].copy_from_slice(&(records - 1).to_be_bytes());
        bytes[27..35].copy_from_slice(&timestamp_ms.to_be_bytes());
        bytes[35..43].copy_from_slice(&timestamp_ms.to_be_bytes());
        bytes[43..57].fill(0xff);
        bytes[57..61].copy_from_slice(&records.to_be_bytes());
        let crc = crc32c::crc32c(&bytes[CRC_FROM..]);
        bytes[CRC_AT..CRC_FROM].copy_from_slice(&crc.to_be_bytes());
        Batch { bytes, records: records.unsigned_abs(), crc }
    }

    /// `records` values of `value_bytes` each, filled from `seed` so that no two batches of
    /// different seeds are alike.
    pub fn filled(records: u32, value_bytes: usize, seed: u64, timestamp_ms: i64) -> Batch {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let values: Vec<Vec<u8>> = (0..records)
            .map(|_| {
                let mut value = Vec::with_capacity(value_bytes + 8);
                while value.len() < value_bytes {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    value.extend_from_slice(&state.to_le_bytes());
                }
                value.truncate(value_bytes);
                value
            })
            .collect();
        Batch::build(values.iter().map(Vec::as_slice), timestamp_ms)
    }
}

/// A batch that came back: whole, of magic 2, its checksum right.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    pub base_offset: i64,
    pub records: u32,
    pub crc: u32,
    bytes: &'a [u8],
}

impl<'a> Seen<'a> {
    /// The values of its records. Nothing is served for records that do not parse.
    pub fn values(&self) -> impl Iterator<Item = Result<&'a [u8]>> {
        let mut rest = &self.bytes[HEADER_BYTES..];
        (0..self.records).map(move |_| take_record(&mut rest))
    }
}

/// How much of a batch is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// All: the checksum is computed.
    Whole,
    /// Its header, with the checksum as it stands there. For loads that would else be as fast as the
    /// checksums of the client.
    Header,
}

/// Reads the batches that answer a Fetch from `next`, hands each to `visit`, and returns the offset
/// to fetch next. The first batch may begin before `next` (batches come whole); the end may be cut.
///
/// # Errors
/// When a whole batch is damaged, of another format, or does not follow the one before it.
pub fn walk<'a>(
    records: &'a [u8],
    next: i64,
    visit: impl FnMut(Seen<'a>) -> Result<()>,
) -> Result<i64> {
    walk_to(Depth::Whole, records, next, visit)
}

/// [`walk`], looking at so much of each batch.
pub fn walk_to<'a>(
    depth: Depth,
    mut records: &'a [u8],
    mut next: i64,
    mut visit: impl FnMut(Seen<'a>) -> Result<()>,
) -> Result<i64> {
    let mut first = true;
    while records.len() >= HEADER_BYTES {
        let length = usize::try_from(i32_at(records, 8)).unwrap_or(0) + 12;
        ensure!(length >= HEADER_BYTES, "a batch at offset {next} claims {length} bytes");
        if length > records.len() {
            break;
        }
        let (batch, rest) = records.split_at(length);
        let seen = check(batch, depth)?;
        let end = seen.base_offset + i64::from(seen.records);
        if first {
            ensure!(
                seen.base_offset <= next && next < end,
                "asked for offset {next}, got a batch of [{}, {end})",
                seen.base_offset
            );
        } else {
            ensure!(
                seen.base_offset == next,
                "offset {next} is followed by a batch that begins at {}",
                seen.base_offset
            );
        }
        visit(seen)?;
        (first, next, records) = (false, end, rest);
    }
    Ok(next)
}

fn check(batch: &[u8], depth: Depth) -> Result<Seen<'_>> {
    let base_offset = i64::from_be_bytes(array(batch, 0));
    ensure!(batch[16] == 2, "the batch at offset {base_offset} has magic {}", batch[16]);
    let stored = u32::from_be_bytes(array(batch, CRC_AT));
    if depth == Depth::Whole {
        let computed = crc32c::crc32c(&batch[CRC_FROM..]);
        ensure!(
            stored == computed,
            "the batch at offset {base_offset} says CRC {stored:08x} and has {computed:08x}"
        );
    }
    let records = i32_at(batch, 57);
    let delta = i32_at(batch, 23);
    ensure!(
        records > 0 && delta == records - 1,
        "the batch at offset {base_offset} counts {records} records, last delta {delta}"
    );
    Ok(Seen { base_offset, records: records.unsigned_abs(), crc: stored, bytes: batch })
}

fn put_record(out: &mut Vec<u8>, offset_delta: i32, key: Option<&[u8]>, value: &[u8]) {
    let mut body = Vec::with_capacity(value.len() + 32);
    body.push(0); // attributes
    put_varint(&mut body, 0); // timestamp delta
    put_varint(&mut body, i64::from(offset_delta));
    put_varint(&mut body, key.map_or(-1, |key| key.len() as i64));
    body.extend_from_slice(key.unwrap_or_default());
    put_varint(&mut body, value.len() as i64);
    body.extend_from_slice(value);
    put_varint(&mut body, 0); // no headers
    put_varint(out, body.len() as i64);
    out.extend_from_slice(&body);
}

fn take_record<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8]> {
    let length = usize::try_from(take_varint(rest)?)?;
    ensure!(length <= rest.len(), "a record of {length} bytes in the last {} bytes", rest.len());
    let (mut body, behind) = rest.split_at(length);
    *rest = behind;
    ensure!(!body.is_empty(), "an empty record");
    body = &body[1..];
    take_varint(&mut body)?;
    take_varint(&mut body)?;
    let key = take_varint(&mut body)?;
    if let Ok(key) = usize::try_from(key) {
        ensure!(key <= body.len(), "a key of {key} bytes in a record of {length}");
        body = &body[key..];
    }
    let value = usize::try_from(take_varint(&mut body)?)?;
    ensure!(value <= body.len(), "a value of {value} bytes in a record of {length}");
    Ok(&body[..value])
}

fn put_varint(out: &mut Vec<u8>, value: i64) {
    put_unsigned(out, ((value << 1) ^ (value >> 63)) as u64);
}

fn put_unsigned(out: &mut Vec<u8>, mut rest: u64) {
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

fn take_varint(rest: &mut &[u8]) -> Result<i64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let Some((&byte, behind)) = rest.split_first() else { bail!("a varint is cut off") };
        *rest = behind;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok((value >> 1) as i64 ^ -((value & 1) as i64));
        }
    }
    bail!("a varint of more than ten bytes")
}

fn i32_at(bytes: &[u8], at: usize) -> i32 {
    i32::from_be_bytes(array(bytes, at))
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_as_they_were_put_in() {
        let batch = Batch::filled(300, 100, 7, 1);
        let mut seen = Vec::new();
        let next = walk(&batch.bytes, 0, |view| {
            assert_eq!((view.records, view.crc), (300, batch.crc));
            seen = view.values().map(|value| value.unwrap().to_vec()).collect();
            Ok(())
        });
        assert_eq!(next.unwrap(), 300);
        assert_eq!(seen.len(), 300);
        assert!(seen.iter().all(|value| value.len() == 100));
        assert!(seen.windows(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn keys_are_numbered_and_values_are_those_of_the_same_seed() {
        let (keyed, plain) = (Batch::keyed(3, 41, 10, 1), Batch::filled(3, 10, 41, 1));
        let values = |batch: &Batch| {
            let mut all = Vec::new();
            let read = |seen: Seen<'_>| {
                all.extend(seen.values().map(|value| value.unwrap().to_vec()));
                Ok(())
            };
            walk(&batch.bytes, 0, read).unwrap();
            all
        };
        assert_eq!(values(&keyed), values(&plain));
        let at = |key: u64| keyed.bytes.windows(8).filter(|w| *w == key.to_be_bytes()).count();
        assert_eq!([40, 41, 43, 44].map(at), [0, 1, 1, 0]);
    }

    #[test]
    fn a_flipped_bit_a_gap_and_a_repeat_are_all_refused() {
        let one = Batch::filled(3, 10, 1, 1).bytes;
        let refused = |bytes: &[u8], next| walk(bytes, next, |_| Ok(())).is_err();
        for bit in 0..8 {
            let mut bad = one.clone();
            let last = bad.len() - 1;
            bad[last] ^= 1 << bit;
            assert!(refused(&bad, 0), "bit {bit}");
            assert!(walk_to(Depth::Header, &bad, 0, |_| Ok(())).is_ok(), "not looked at");
        }
        let mut gap = one.clone();
        let mut second = one.clone();
        second[..8].copy_from_slice(&4i64.to_be_bytes());
        gap.extend_from_slice(&second);
        assert!(refused(&gap, 0));
        assert!(refused(&one, 3), "a batch that ends before the asked offset");
        let mut follows = one.clone();
        second[..8].copy_from_slice(&3i64.to_be_bytes());
        follows.extend_from_slice(&second);
        assert_eq!(walk(&follows, 1, |_| Ok(())).unwrap(), 6);
        assert_eq!(walk(&follows[..follows.len() - 1], 1, |_| Ok(())).unwrap(), 3, "cut end");
    }
}
