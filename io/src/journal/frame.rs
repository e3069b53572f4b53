//! One frame of the journal as bytes. The layout is drawn in [`crate::journal`].

use std::fmt;

use crate::limits::{BLOCK_BYTES, JOURNAL_FRAME_BYTES_MAX};
use crate::units::{
    FilePosition, JournalSeq, LeaderEpoch, Offset, PartitionIndex, RoundNumber, SegmentId, ShardId,
    TopicId, TopicPartition,
};

pub const FRAME_MAGIC: [u8; 4] = *b"MSJF";
/// The newest frame this program knows.
pub const FRAME_VERSION: u16 = 1;
pub const FRAME_HEADER_BYTES: usize = 48;
pub const RUN_HEADER_BYTES: usize = 56;

const CRC_AT: usize = 40;
const RUN_ALIGN: usize = 8;
const DIRECT: u32 = 1;

/// A random number that every frame of one start of the broker carries, and no producer knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct JournalId(u64);

impl JournalId {
    pub const fn new(value: u64) -> JournalId {
        JournalId(value)
    }

    pub const fn get(self) -> u64 {
        self.0
    }

    /// A new id from the system's generator.
    ///
    /// # Errors
    /// When the kernel refuses random bytes.
    pub fn random() -> std::io::Result<JournalId> {
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
        Ok(JournalId(u64::from_be_bytes(bytes)))
    }
}

/// Which frame: of which journal, in which file, of which round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameId {
    pub shard: ShardId,
    pub journal: JournalId,
    pub seq: JournalSeq,
    pub round: RoundNumber,
}

/// Where the bytes of a run belong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    pub partition: TopicPartition,
    pub segment: SegmentId,
    /// Position of the first byte in the log of the segment.
    pub at: FilePosition,
    /// End offset of the partition's log behind this round.
    pub end: Offset,
    /// More bytes of this round, in front of `at`, go straight to the segment at the same time. The
    /// run may then have no bytes of its own. Such bytes are known to be durable only when a later
    /// round exists.
    pub direct: bool,
}

/// Bytes a run of `len` log bytes takes in a frame.
#[inline]
pub const fn run_bytes(len: usize) -> usize {
    RUN_HEADER_BYTES + len.next_multiple_of(RUN_ALIGN)
}

/// Bytes of a whole frame, padding included, whose runs take `runs` bytes (see [`run_bytes`]).
#[inline]
pub const fn frame_bytes(runs: usize) -> usize {
    (FRAME_HEADER_BYTES + runs).next_multiple_of(BLOCK_BYTES)
}

/// Writes one frame into a buffer of exactly [`frame_bytes`], whose content may be rubbish before.
pub struct FrameWriter<'b> {
    out: &'b mut [u8],
    at: usize,
    runs: u32,
}

impl<'b> FrameWriter<'b> {
    /// # Panics
    /// When the buffer is not a whole number of blocks, or longer than a frame may be.
    pub fn new(out: &'b mut [u8]) -> FrameWriter<'b> {
        let len = out.len();
        assert!(len.is_multiple_of(BLOCK_BYTES) && len > 0, "a frame of {len} bytes");
        assert!(len <= JOURNAL_FRAME_BYTES_MAX, "{len} > {JOURNAL_FRAME_BYTES_MAX}");
        FrameWriter { out, at: FRAME_HEADER_BYTES, runs: 0 }
    }

    /// Adds a run whose bytes are `chunks`, in order.
    ///
    /// # Panics
    /// When it does not fit: the buffer was measured for these runs.
    pub fn push<'c>(&mut self, run: &Run, chunks: impl IntoIterator<Item = &'c [u8]>) {
        let header = self.at;
        let mut at = header + RUN_HEADER_BYTES;
        for chunk in chunks {
            self.out[at..at + chunk.len()].copy_from_slice(chunk);
            at += chunk.len();
        }
        let Ok(bytes) = u32::try_from(at - header - RUN_HEADER_BYTES) else {
            panic!("{}: a run of {} bytes", run.partition, at - header);
        };
        let end = at.next_multiple_of(RUN_ALIGN);
        self.out[at..end].fill(0);
        encode_run(run, bytes, &mut self.out[header..header + RUN_HEADER_BYTES]);
        self.at = end;
        self.runs += 1;
    }

    /// Runs so far.
    pub fn runs(&self) -> u32 {
        self.runs
    }

    /// Writes the header, the checksum and the padding.
    ///
    /// # Panics
    /// When more than one block of the buffer is padding: it was measured for other runs.
    pub fn finish(self, id: FrameId) {
        let length = self.at;
        assert_eq!(frame_bytes(length - FRAME_HEADER_BYTES), self.out.len(), "measured wrongly");
        let Ok(length_field) = u32::try_from(length) else { panic!("a frame of {length} bytes") };
        self.out[length..].fill(0);
        let header = &mut self.out[..FRAME_HEADER_BYTES];
        header[0..4].copy_from_slice(&FRAME_MAGIC);
        header[4..6].copy_from_slice(&FRAME_VERSION.to_be_bytes());
        header[6..8].copy_from_slice(&id.shard.get().to_be_bytes());
        header[8..16].copy_from_slice(&id.journal.get().to_be_bytes());
        header[16..24].copy_from_slice(&id.seq.get().to_be_bytes());
        header[24..32].copy_from_slice(&id.round.get().to_be_bytes());
        header[32..36].copy_from_slice(&length_field.to_be_bytes());
        header[36..40].copy_from_slice(&self.runs.to_be_bytes());
        header[44..48].fill(0);
        let crc = checksum(&self.out[..length]);
        self.out[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_be_bytes());
    }
}

/// A frame that was checked as a whole: its checksum holds and its runs fill it exactly.
#[derive(Clone, Copy)]
pub struct Frame<'a> {
    pub id: FrameId,
    runs: &'a [u8],
    count: u32,
    bytes: usize,
}

/// Why some bytes are not a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameError {
    /// Fewer bytes than a header, or than the header says.
    Short { needed: usize, got: usize },
    /// Not the start of a frame.
    Magic,
    /// Written by a newer version of the program.
    Newer { found: u16, known: u16 },
    /// The length is none a frame can have.
    Length { length: u32 },
    /// The bytes are not those that were written.
    Checksum,
    /// The checksum holds, and the runs make no sense: a fault of the writer.
    Runs,
}

/// What the first bytes of a frame say about it, before its checksum is known to hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameHead {
    pub id: FrameId,
    /// Header and runs, without padding.
    pub length: usize,
    pub runs: u32,
}

impl FrameHead {
    /// # Errors
    /// [`FrameError`], but never for the checksum.
    pub fn read(bytes: &[u8]) -> Result<FrameHead, FrameError> {
        let Some(header) = bytes.first_chunk::<FRAME_HEADER_BYTES>() else {
            return Err(FrameError::Short { needed: FRAME_HEADER_BYTES, got: bytes.len() });
        };
        if header[0..4] != FRAME_MAGIC {
            return Err(FrameError::Magic);
        }
        let found = u16::from_be_bytes(field(header, 4));
        if found > FRAME_VERSION {
            return Err(FrameError::Newer { found, known: FRAME_VERSION });
        }
        let length_field = u32::from_be_bytes(field(header, 32));
        let length = length_field as usize;
        if !(FRAME_HEADER_BYTES..=JOURNAL_FRAME_BYTES_MAX).contains(&length) {
            return Err(FrameError::Length { length: length_field });
        }
        let id = FrameId {
            shard: ShardId::new(u16::from_be_bytes(field(header, 6))),
            journal: JournalId::new(u64::from_be_bytes(field(header, 8))),
            seq: JournalSeq::new(u64::from_be_bytes(field(header, 16))),
            round: RoundNumber::new(u64::from_be_bytes(field(header, 24))),
        };
        Ok(FrameHead { id, length, runs: u32::from_be_bytes(field(header, 36)) })
    }

    /// Bytes of the frame with its padding.
    pub fn padded(&self) -> usize {
        self.length.next_multiple_of(BLOCK_BYTES)
    }
}

impl<'a> Frame<'a> {
    /// Reads and checks the frame at the start of `bytes`.
    ///
    /// # Errors
    /// [`FrameError`]
    pub fn parse(bytes: &'a [u8]) -> Result<Frame<'a>, FrameError> {
        let head = FrameHead::read(bytes)?;
        let Some(whole) = bytes.get(..head.length) else {
            return Err(FrameError::Short { needed: head.length, got: bytes.len() });
        };
        if checksum(whole) != u32::from_be_bytes(field(whole, CRC_AT)) {
            return Err(FrameError::Checksum);
        }
        let runs = &whole[FRAME_HEADER_BYTES..];
        let frame = Frame { id: head.id, runs, count: head.runs, bytes: head.padded() };
        let mut rest = runs;
        for _ in 0..head.runs {
            let (_, _, behind) = decode_run(rest).ok_or(FrameError::Runs)?;
            rest = behind;
        }
        if rest.is_empty() { Ok(frame) } else { Err(FrameError::Runs) }
    }

    /// Number of runs.
    pub fn run_count(&self) -> u32 {
        self.count
    }

    /// Bytes of the frame in its file, padding included.
    pub fn padded(&self) -> usize {
        self.bytes
    }

    /// The runs with their bytes, in the order in which they were written.
    pub fn runs(&self) -> impl Iterator<Item = (Run, &'a [u8])> + use<'a> {
        let mut rest = self.runs;
        std::iter::from_fn(move || {
            let (run, bytes, behind) = decode_run(rest)?;
            rest = behind;
            Some((run, bytes))
        })
    }
}

fn checksum(frame: &[u8]) -> u32 {
    let head = crc32c::crc32c(&frame[..CRC_AT]);
    crc32c::crc32c_append(head, &frame[CRC_AT + 4..])
}

fn encode_run(run: &Run, bytes: u32, out: &mut [u8]) {
    out[0..16].copy_from_slice(run.partition.topic.as_bytes());
    out[16..20].copy_from_slice(&run.partition.partition.get().to_be_bytes());
    out[20..24].copy_from_slice(&run.segment.epoch.get().to_be_bytes());
    out[24..32].copy_from_slice(&run.segment.base.get().to_be_bytes());
    out[32..40].copy_from_slice(&run.at.get().to_be_bytes());
    out[40..48].copy_from_slice(&run.end.get().to_be_bytes());
    out[48..52].copy_from_slice(&bytes.to_be_bytes());
    let flags = if run.direct { DIRECT } else { 0 };
    out[52..56].copy_from_slice(&flags.to_be_bytes());
}

/// One run off the front: what it says, its bytes, and what is behind it.
fn decode_run(runs: &[u8]) -> Option<(Run, &[u8], &[u8])> {
    let (header, rest) = runs.split_first_chunk::<RUN_HEADER_BYTES>()?;
    let bytes = u32::from_be_bytes(field(header, 48)) as usize;
    let at = u64::from_be_bytes(field(header, 32));
    let run = Run {
        partition: TopicPartition {
            topic: TopicId::from_bytes(field(header, 0)),
            partition: PartitionIndex::new(i32::from_be_bytes(field(header, 16)))?,
        },
        segment: SegmentId::new(
            LeaderEpoch::new(i32::from_be_bytes(field(header, 20)))?,
            Offset::new(i64::from_be_bytes(field(header, 24)))?,
        ),
        at: FilePosition::ZERO.checked_add(at)?,
        end: Offset::new(i64::from_be_bytes(field(header, 40)))?,
        direct: u32::from_be_bytes(field(header, 52)) & DIRECT != 0,
    };
    let payload = rest.get(..bytes)?;
    let behind = rest.get(bytes.next_multiple_of(RUN_ALIGN)..)?;
    Some((run, payload, behind))
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            FrameError::Short { needed, got } => write!(f, "{needed} bytes needed, {got} are left"),
            FrameError::Magic => f.write_str("not the start of a frame"),
            FrameError::Newer { found, known } => write!(
                f,
                "frame version {found} is newer than {known}; start a newer version of the program"
            ),
            FrameError::Length { length } => write!(f, "length {length} is impossible"),
            FrameError::Checksum => f.write_str("the checksum does not hold"),
            FrameError::Runs => f.write_str("its runs make no sense"),
        }
    }
}

impl std::error::Error for FrameError {}

const _: () = assert!(FRAME_HEADER_BYTES.is_multiple_of(RUN_ALIGN));
const _: () = assert!(RUN_HEADER_BYTES.is_multiple_of(RUN_ALIGN));
