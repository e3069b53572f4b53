//! The 48 bytes at the end of every `.index` and `.timeindex` file.
//!
//! ```text
//!  at  bytes  field
//!   0    4    magic: "MSIX" for .index, "MSTX" for .timeindex
//!   4    2    version = 2
//!   6    2    flags: bit 0 = sealed, the segment will not grow any more
//!   8    4    leader epoch of the segment
//!  12    8    base offset of the segment
//!  20    4    covered: bytes of log that the entries describe
//!  24    4    next offset behind the covered bytes, relative to the base
//!  28    8    largest timestamp in the covered bytes, -1 when there is none
//!  36    4    number of entries in front of the footer
//!  40    4    CRC-32C of everything in front of the footer
//!  44    4    CRC-32C of bytes 0 to 43
//! ```
//! In the `.index` of a sealed segment a copy of the log's last unfinished block stands between the
//! entries and the footer: the covered bytes behind the last multiple of 4096. It is durable before
//! the log is cut to its length, which writes that block once more, and no journal may have its bytes
//! any more: a disk that tears the block, and leaves neither what it held nor what it was to hold,
//! takes nothing ([`crate::sealing`]).
//!
//! 48 is a whole number of entries of both kinds. The footer ties an index to its segment, so that
//! one that is missing, cut, damaged, grown, older than the log or swapped with another's is known
//! for what it is without a look at the log. An index is derived: it is never evidence about the log.

use std::fmt;

use crate::limits::SEGMENT_BYTES_MAX;
use crate::units::{FilePosition, LeaderEpoch, Offset, SegmentId, TimestampMs, bytes_u64};

/// Bytes of a footer.
pub const FOOTER_BYTES: usize = 48;
/// The newest footer this program knows.
pub const FOOTER_VERSION: u16 = 2;

const SEALED: u16 = 1;

/// Which of the two indexes of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IndexKind {
    /// `.index`: offset to position.
    Sparse,
    /// `.timeindex`: timestamp to offset.
    Time,
}

/// What an index says about the part of the log it was made from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Coverage {
    /// Bytes of log, from the start of the segment.
    pub log_bytes: FilePosition,
    /// Offset behind the last record in them; the base offset when there is none.
    pub next: Offset,
    /// Largest timestamp in them; [`TimestampMs::NONE`] when there is none.
    pub max_timestamp: TimestampMs,
    /// The segment was complete and synced when this was written, and does not grow any more.
    pub sealed: bool,
}

impl Coverage {
    /// Bytes of the unfinished block that the `.index` of a sealed segment keeps a copy of.
    pub fn copied(&self) -> usize {
        if self.sealed { self.log_bytes.block_offset() } else { 0 }
    }
}

/// The footer of one index file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IndexFooter {
    pub segment: SegmentId,
    pub coverage: Coverage,
    pub entries: u32,
    pub entries_crc: u32,
}

/// Why an index file is not to be used. All but `Newer` are cured by building it again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IndexDamage {
    /// There is no such file.
    Missing,
    /// The length is not that of entries and a footer.
    Length { bytes: u64 },
    /// The last bytes are no footer, or not one of this kind.
    NoFooter,
    /// Written by a newer version of the program.
    Newer { found: u16, known: u16 },
    /// The footer or the entries changed since they were written.
    Checksum,
    /// It belongs to another segment.
    Foreign { segment: SegmentId },
    /// It describes more log than there is.
    BeyondLog { covered: u64, log: u64 },
    /// Entries do not rise, or lie outside of what the footer covers.
    Disorder { entry: usize },
}

impl IndexKind {
    const fn magic(self) -> [u8; 4] {
        match self {
            IndexKind::Sparse => *b"MSIX",
            IndexKind::Time => *b"MSTX",
        }
    }

    /// Bytes of the log that a file of this kind keeps a copy of.
    pub(crate) fn copied(self, coverage: &Coverage) -> usize {
        match self {
            IndexKind::Sparse => coverage.copied(),
            IndexKind::Time => 0,
        }
    }
}

impl IndexFooter {
    /// Bytes that must stand in front of it.
    pub(crate) fn bytes_in_front(&self, kind: IndexKind, entry_bytes: usize) -> u64 {
        let (entry, copied) = (bytes_u64(entry_bytes), bytes_u64(kind.copied(&self.coverage)));
        u64::from(self.entries) * entry + copied
    }

    /// The footer as bytes.
    ///
    /// # Panics
    /// When the covered part is larger than a segment may be: we never cover more.
    pub fn encode(&self, kind: IndexKind) -> [u8; FOOTER_BYTES] {
        let coverage = &self.coverage;
        let (Some(covered), Some(next)) =
            (coverage.log_bytes.to_u32(), coverage.next.relative_to(self.segment.base))
        else {
            panic!("{}: an index cannot cover {coverage:?}", self.segment);
        };
        let flags = if coverage.sealed { SEALED } else { 0 };
        let mut out = [0; FOOTER_BYTES];
        out[0..4].copy_from_slice(&kind.magic());
        out[4..6].copy_from_slice(&FOOTER_VERSION.to_be_bytes());
        out[6..8].copy_from_slice(&flags.to_be_bytes());
        out[8..12].copy_from_slice(&self.segment.epoch.get().to_be_bytes());
        out[12..20].copy_from_slice(&self.segment.base.get().to_be_bytes());
        out[20..24].copy_from_slice(&covered.to_be_bytes());
        out[24..28].copy_from_slice(&next.to_be_bytes());
        out[28..36].copy_from_slice(&coverage.max_timestamp.get().to_be_bytes());
        out[36..40].copy_from_slice(&self.entries.to_be_bytes());
        out[40..44].copy_from_slice(&self.entries_crc.to_be_bytes());
        let crc = crc32c::crc32c(&out[..44]);
        out[44..48].copy_from_slice(&crc.to_be_bytes());
        out
    }

    /// Reads and checks the footer of the index of `segment`.
    ///
    /// # Errors
    /// [`IndexDamage`]: the first thing wrong with it.
    pub fn decode(
        bytes: &[u8; FOOTER_BYTES],
        kind: IndexKind,
        segment: SegmentId,
    ) -> Result<IndexFooter, IndexDamage> {
        let field =
            |at: usize| -> [u8; 4] { [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]] };
        let wide = |at: usize| -> i64 {
            let (high, low) = (u32::from_be_bytes(field(at)), u32::from_be_bytes(field(at + 4)));
            (u64::from(high) << 32 | u64::from(low)).cast_signed()
        };
        if field(0) != kind.magic() {
            return Err(IndexDamage::NoFooter);
        }
        let found = u16::from_be_bytes([bytes[4], bytes[5]]);
        if found > FOOTER_VERSION {
            return Err(IndexDamage::Newer { found, known: FOOTER_VERSION });
        }
        if crc32c::crc32c(&bytes[..44]) != u32::from_be_bytes(field(44)) {
            return Err(IndexDamage::Checksum);
        }
        let epoch = LeaderEpoch::new(u32::from_be_bytes(field(8)).cast_signed());
        let (Some(epoch), Some(base)) = (epoch, Offset::new(wide(12))) else {
            return Err(IndexDamage::Checksum);
        };
        let found = SegmentId::new(epoch, base);
        // The name of a cleaned segment says more, and no other has its indexes.
        if found != SegmentId::new(segment.epoch, segment.base) {
            return Err(IndexDamage::Foreign { segment: found });
        }
        let next = base.checked_add(u64::from(u32::from_be_bytes(field(24))));
        let coverage = Coverage {
            log_bytes: FilePosition::from(u32::from_be_bytes(field(20))),
            next: next.ok_or(IndexDamage::Checksum)?,
            max_timestamp: TimestampMs::new(wide(28)),
            sealed: u16::from_be_bytes([bytes[6], bytes[7]]) & SEALED != 0,
        };
        Ok(IndexFooter {
            segment,
            coverage,
            entries: u32::from_be_bytes(field(36)),
            entries_crc: u32::from_be_bytes(field(40)),
        })
    }
}

/// A whole index file: entries, what is copied of the log, and the footer over both.
pub(crate) fn seal_entries(
    entries: Vec<u8>,
    entry_bytes: usize,
    kind: IndexKind,
    segment: SegmentId,
    (coverage, copy): (Coverage, &[u8]),
) -> Vec<u8> {
    let Ok(count) = u32::try_from(entries.len() / entry_bytes) else {
        panic!("{segment}: {} bytes of index entries", entries.len());
    };
    let mut out = entries;
    out.extend_from_slice(copy);
    let entries_crc = crc32c::crc32c(&out);
    let footer = IndexFooter { segment, coverage, entries: count, entries_crc };
    out.extend_from_slice(&footer.encode(kind));
    out
}

/// Takes a whole index file apart: footer, entry bytes and what is copied of the log, all checked,
/// entries not yet looked at.
pub(crate) fn split_entries(
    bytes: &[u8],
    entry_bytes: usize,
    kind: IndexKind,
    segment: SegmentId,
    log_bytes: FilePosition,
) -> Result<(IndexFooter, &[u8], &[u8]), IndexDamage> {
    let length = IndexDamage::Length { bytes: bytes_u64(bytes.len()) };
    let (entries, footer) = bytes.split_last_chunk::<FOOTER_BYTES>().ok_or(length)?;
    let footer = IndexFooter::decode(footer, kind, segment)?;
    if bytes_u64(entries.len()) != footer.bytes_in_front(kind, entry_bytes) {
        return Err(length);
    }
    if crc32c::crc32c(entries) != footer.entries_crc {
        return Err(IndexDamage::Checksum);
    }
    let covered = footer.coverage.log_bytes;
    if covered > log_bytes {
        return Err(IndexDamage::BeyondLog { covered: covered.get(), log: log_bytes.get() });
    }
    let copied = kind.copied(&footer.coverage);
    let (entries, copy) = entries.split_at(entries.len() - copied);
    Ok((footer, entries, copy))
}

impl fmt::Display for IndexDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            IndexDamage::Missing => f.write_str("the file is missing"),
            IndexDamage::Length { bytes } => {
                write!(f, "{bytes} bytes are not entries and a footer")
            }
            IndexDamage::NoFooter => f.write_str("the footer is missing"),
            IndexDamage::Newer { found, known } => {
                write!(f, "format version {found} is newer than {known}; upgrade the broker")
            }
            IndexDamage::Checksum => f.write_str("the checksum does not hold"),
            IndexDamage::Foreign { segment } => write!(f, "it belongs to segment {segment}"),
            IndexDamage::BeyondLog { covered, log } => {
                write!(f, "it describes {covered} bytes of log, and there are {log}")
            }
            IndexDamage::Disorder { entry } => write!(f, "entry {entry} is out of order"),
        }
    }
}

impl std::error::Error for IndexDamage {}

const _: () = assert!(SEGMENT_BYTES_MAX <= u32::MAX as u64, "`covered` is 32 bits");
const _: () = assert!(FOOTER_BYTES.is_multiple_of(crate::limits::INDEX_ENTRY_BYTES));
const _: () = assert!(FOOTER_BYTES.is_multiple_of(crate::limits::TIME_INDEX_ENTRY_BYTES));
