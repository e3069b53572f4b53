//! The state files of one partition directory. Their envelope is drawn in [`crate::checkpoint`].

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::checkpoint::{BlobKind, State};
use crate::units::{
    FilePosition, LeaderEpoch, Offset, PartitionIndex, SegmentId, TopicId, TopicPartition,
};

/// `manifest.json`: whose directory this is, and where its log starts. The log decides where the
/// two differ.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    pub topic_id: TopicId,
    pub topic: String,
    pub partition: PartitionIndex,
    /// Epoch of the leader that wrote this.
    pub leader_epoch: LeaderEpoch,
    /// HighWatermark when this was written: the true one is this or later.
    pub high_watermark: Offset,
    /// First offset that is not deleted. Written before the segments in front of it are removed.
    pub log_start_offset: Offset,
}

impl State for Manifest {
    const FILE: &'static str = "manifest.json";
    const VERSION: u32 = 1;
}

impl Manifest {
    pub fn topic_partition(&self) -> TopicPartition {
        TopicPartition { topic: self.topic_id, partition: self.partition }
    }
}

/// `recovery-checkpoint.json`: up to where the log is synced and its indexes are written. A hint:
/// recovery does without when it is missing or does not fit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecoveryCheckpoint {
    /// The segment in which the synced part ends.
    pub segment_epoch: LeaderEpoch,
    pub segment_base: Offset,
    /// Bytes of that segment that are synced, up to a batch boundary.
    pub byte_pos: u64,
    /// Offset behind the last record in them. It was acknowledged: a log that ends before lost
    /// something.
    pub offset: Offset,
    /// A second copy of the manifest's, for when that is lost.
    pub log_start_offset: Offset,
    /// The log ends there: a clean stop or a finished recovery.
    pub clean: bool,
}

impl State for RecoveryCheckpoint {
    const FILE: &'static str = "recovery-checkpoint.json";
    const VERSION: u32 = 1;
}

impl RecoveryCheckpoint {
    pub fn segment(&self) -> SegmentId {
        SegmentId::new(self.segment_epoch, self.segment_base)
    }

    pub fn position(&self) -> FilePosition {
        FilePosition::new(self.byte_pos)
    }
}

/// `cleaner-checkpoint.json`: up to where the log is compacted. A hint: without it the next cleaning
/// notes the keys of the whole log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CleanerCheckpoint {
    /// No record in front of this is replaced by another in front of it.
    pub first_dirty_offset: Offset,
}

impl State for CleanerCheckpoint {
    const FILE: &'static str = "cleaner-checkpoint.json";
    const VERSION: u32 = 1;
}

/// `producer-state.snapshot`: a blob whose payload belongs to the floor above.
pub const PRODUCER_SNAPSHOT: BlobKind = BlobKind { magic: *b"MSPS", version: 2 };

/// Path of the producer snapshot in a partition directory.
pub fn producer_snapshot_in(dir: &Path) -> std::path::PathBuf {
    dir.join("producer-state.snapshot")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::{read_state, write_state};
    use crate::disk::Disk;
    use crate::disk_sim::SimDisk;

    #[test]
    fn manifest_is_readable_by_people_and_by_us() {
        let disk = SimDisk::new();
        let dir = Path::new("/p");
        disk.create_dir_all(dir).unwrap();
        let manifest = Manifest {
            topic_id: TopicId::METADATA,
            topic: "orders".to_owned(),
            partition: PartitionIndex::at(2),
            leader_epoch: LeaderEpoch::at(3),
            high_watermark: Offset::at(40),
            log_start_offset: Offset::at(5),
        };
        write_state(&disk, dir, &manifest).unwrap();
        let text = disk.read_all(&dir.join("manifest.json"), 1000).unwrap();
        let text = String::from_utf8(text).unwrap();
        let body = "{\"topicId\":\"AAAAAAAAAAAAAAAAAAAAAQ\",\"topic\":\"orders\",\"partition\":2,\
                    \"leaderEpoch\":3,\"highWatermark\":40,\"logStartOffset\":5}";
        assert!(text.contains(body), "{text}");
        assert_eq!(read_state(&disk, dir), Ok(Some(manifest)));
    }
}
