//! The commit journal of one core: one durable write for all partitions of a commit round.
//!
//! A journal is a ring of preallocated files, `journal/<shard>/<seq:016x>.wal`. Each commit round
//! appends one *frame*: a header, then one *run* for each partition written in the round. A run says
//! where its bytes belong in the log of its partition. Once the segments are synced past every run
//! of the oldest file, that file is renamed to the next number and written again, without being
//! cleared: file number and round number in each frame tell new from old.
//!
//! ```text
//! frame, at a block boundary, padded with zeros to the next
//!  at  bytes  field
//!   0    4    magic "MSJF"
//!   4    2    version = 1
//!   6    2    shard
//!   8    8    journal id: random, new at each start of the broker
//!  16    8    file number, the one in the file's name
//!  24    8    round number
//!  32    4    length: header and runs, without padding
//!  36    4    number of runs
//!  40    4    CRC-32C over bytes 0 to 39 and 44 to the length
//!  44    4    zero
//!  48    ..   runs
//!
//! run, padded with zeros to 8 bytes
//!   0   16    topic id
//!  16    4    partition
//!  20    4    leader epoch of the segment
//!  24    8    base offset of the segment
//!  32    8    position of the first byte in the segment's log
//!  40    8    end offset of the log behind this round
//!  48    4    bytes
//!  52    4    flags: bit 0 = more bytes of this round go straight to the segment
//!  56    ..   bytes of the log
//! ```
//!
//! The journal id keeps what a producer sends from being taken for a frame: record bytes stand in
//! runs as they came, and a reader that looks for frames behind damage meets them.
//!
//! [`frame`] encodes and decodes, [`ring`] decides which file and place comes next, [`files`] does
//! the blocking work on the files, [`state`] is the small file beside them, [`scan`] reads a journal
//! back after a crash. How its runs get into segments is [`crate::recovery`]'s business.

pub mod files;
pub mod frame;
pub mod ring;
pub mod scan;
pub mod state;

pub use frame::{Frame, FrameError, FrameId, FrameWriter, JournalId, Run};
pub use ring::{JournalRing, Placement, Prepare, RingLimits, RingStart, Slot};
pub use scan::{JournalDamage, ScanReport};
pub use state::JournalState;

#[cfg(test)]
#[path = "journal/journal_tests.rs"]
mod tests;
