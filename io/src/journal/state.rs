//! The small file beside the files of a journal: where a replay starts, and how far segments were
//! synced whose runs are in no journal file any more.
//!
//! It is written before a file is recycled and at a clean stop, as a blob (see
//! [`crate::checkpoint`]) named `state` with this payload:
//!
//! ```text
//!  at  bytes  field
//!   0    8    journal id
//!   8    8    first round to replay
//!  16    8    next file number, at least
//!  24    4    number of entries
//!  28    ..   entries: topic id 16, partition 4, end offset 8
//! ```

use std::path::{Path, PathBuf};

use crate::checkpoint::{BlobKind, StateError, read_blob, write_blob};
use crate::disk::Disk;
use crate::journal::frame::JournalId;
use crate::journal::ring::RecycleState;
use crate::units::{JournalSeq, Offset, PartitionIndex, RoundNumber, TopicId, TopicPartition};

/// The state file of a journal.
pub const STATE_KIND: BlobKind = BlobKind { magic: *b"MSJS", version: 1 };

const STATE_FILE: &str = "state";
const HEAD_BYTES: usize = 28;
const ENTRY_BYTES: usize = 28;

/// What the state file says.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct JournalState {
    /// The frames that count carry this.
    pub journal: JournalId,
    /// Rounds before this one are in synced segments.
    pub replay_from: RoundNumber,
    /// No file of this number or a higher one was used when this was written.
    pub next_seq: JournalSeq,
    /// Offsets up to which segments were synced, for partitions whose own checkpoint is older.
    pub floors: Vec<(TopicPartition, Offset)>,
}

impl JournalState {
    /// Reads the file of the journal in `dir`; `None` when there is none.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn read<D: Disk>(disk: &D, dir: &Path) -> Result<Option<JournalState>, StateError> {
        let path = path_in(dir);
        match read_blob(disk, &path, STATE_KIND)? {
            Some((_, payload)) => JournalState::decode(&path, &payload).map(Some),
            None => Ok(None),
        }
    }

    /// Replaces the file, durably.
    ///
    /// # Errors
    /// [`StateError`]; the old file is in force then.
    pub fn write<D: Disk>(&self, disk: &D, dir: &Path) -> Result<(), StateError> {
        write_blob(disk, &path_in(dir), STATE_KIND, &self.encode())
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD_BYTES + self.floors.len() * ENTRY_BYTES);
        out.extend_from_slice(&self.journal.get().to_be_bytes());
        out.extend_from_slice(&self.replay_from.get().to_be_bytes());
        out.extend_from_slice(&self.next_seq.get().to_be_bytes());
        let Ok(count) = u32::try_from(self.floors.len()) else {
            panic!("{} partitions on one core", self.floors.len());
        };
        out.extend_from_slice(&count.to_be_bytes());
        for (partition, end) in &self.floors {
            out.extend_from_slice(partition.topic.as_bytes());
            out.extend_from_slice(&partition.partition.get().to_be_bytes());
            out.extend_from_slice(&end.get().to_be_bytes());
        }
        out
    }

    pub(crate) fn decode(path: &Path, payload: &[u8]) -> Result<JournalState, StateError> {
        let damaged = || StateError::damaged(path, "its content makes no sense");
        let (head, rest) = payload.split_first_chunk::<HEAD_BYTES>().ok_or_else(damaged)?;
        let (entries, left) = rest.as_chunks::<ENTRY_BYTES>();
        let count = u32::from_be_bytes([head[24], head[25], head[26], head[27]]) as usize;
        if !left.is_empty() || entries.len() != count {
            return Err(damaged());
        }
        let floors: Option<Vec<_>> = entries.iter().map(decode_entry).collect();
        Ok(JournalState {
            journal: JournalId::new(u64::from_be_bytes(eight(head, 0))),
            replay_from: RoundNumber::new(u64::from_be_bytes(eight(head, 8))),
            next_seq: JournalSeq::new(u64::from_be_bytes(eight(head, 16))),
            floors: floors.ok_or_else(damaged)?,
        })
    }
}

impl From<RecycleState> for JournalState {
    fn from(state: RecycleState) -> JournalState {
        let RecycleState { journal, replay_from, next_seq, floors } = state;
        JournalState { journal, replay_from, next_seq, floors }
    }
}

/// Path of the state file of the journal in `dir`.
pub fn path_in(dir: &Path) -> PathBuf {
    dir.join(STATE_FILE)
}

fn decode_entry(entry: &[u8; ENTRY_BYTES]) -> Option<(TopicPartition, Offset)> {
    let mut topic = [0; 16];
    topic.copy_from_slice(&entry[..16]);
    let partition = i32::from_be_bytes([entry[16], entry[17], entry[18], entry[19]]);
    let partition = TopicPartition {
        topic: TopicId::from_bytes(topic),
        partition: PartitionIndex::new(partition)?,
    };
    Some((partition, Offset::new(i64::from_be_bytes(eight(entry, 20)))?))
}

fn eight(bytes: &[u8], at: usize) -> [u8; 8] {
    let mut out = [0; 8];
    out.copy_from_slice(&bytes[at..at + 8]);
    out
}
