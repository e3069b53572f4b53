//! The data directory: who owns it, what format it has, and where everything stands in it.
//!
//! ```text
//! <data>/
//!   .lock                          held (flock) by the broker that uses the directory
//!   meta.properties                node id, cluster id, format version, shard count at format
//!   reserve                        takes space until a deletion needs it on a full disk
//!   journal/<shard>/               commit journal of one core
//!   topics/<topic>/<partition>/    segments and state files of one partition
//!   __cluster/                     embedded metadata store
//!   __deleted/<topic id>/          topics whose files are being removed
//!   __orphaned/<n>/                directories that nobody claims, moved aside, never adopted
//! ```
//! Topics have a directory of their own because every other name here is a legal topic name.
//!
//! `meta.properties` is text, one `key=value` a line; its last line is a checksum over those before:
//!
//! ```text
//! version=1
//! cluster.id=AAAAAAAAAAAAAAAAAAAAAQ
//! node.id=1
//! shard.count=4
//! crc32c=0a1b2c3d
//! ```

use std::fmt;
use std::path::{Path, PathBuf};

use crate::checkpoint::{StateError, write_atomically};
use crate::disk::{Disk, DiskError, DiskErrorKind, DiskFile, EntryKind, OpenHow};
use crate::units::{FilePosition, NodeId, PartitionIndex, ShardId, TopicId};

/// The newest format of a data directory this program knows.
pub const FORMAT_VERSION: u32 = 1;

const LOCK_FILE: &str = ".lock";
const META_FILE: &str = "meta.properties";
const META_BYTES_MAX: usize = 64 * 1024;

/// Where everything stands in a data directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    root: PathBuf,
}

impl Layout {
    pub fn new(root: impl Into<PathBuf>) -> Layout {
        Layout { root: root.into() }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Holds one directory a shard that ever was.
    pub fn journals(&self) -> PathBuf {
        self.root.join("journal")
    }

    pub fn journal(&self, shard: ShardId) -> PathBuf {
        self.journals().join(shard.to_string())
    }

    /// Holds one directory a topic.
    pub fn topics(&self) -> PathBuf {
        self.root.join("topics")
    }

    /// `topic` must be a legal topic name, which has no `/` and is neither `.` nor `..`.
    pub fn topic(&self, topic: &str) -> PathBuf {
        self.topics().join(topic)
    }

    pub fn partition(&self, topic: &str, partition: PartitionIndex) -> PathBuf {
        self.topic(topic).join(partition.to_string())
    }

    /// The embedded metadata store.
    pub fn cluster(&self) -> PathBuf {
        self.root.join("__cluster")
    }

    /// Topics whose files are being removed, by topic id.
    pub fn deleted(&self) -> PathBuf {
        self.root.join("__deleted")
    }

    pub fn deleted_topic(&self, topic: TopicId) -> PathBuf {
        self.deleted().join(topic.to_string())
    }

    /// Takes space until a deletion needs it on a full disk ([`crate::reserve`]).
    pub fn reserve(&self) -> PathBuf {
        self.root.join("reserve")
    }

    /// Directories that nobody claims.
    pub fn orphaned(&self) -> PathBuf {
        self.root.join("__orphaned")
    }
}

/// What `meta.properties` says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MetaProperties {
    pub cluster_id: String,
    pub node_id: NodeId,
    /// Shards at the time of formatting. The count may change later: partitions are placed anew.
    pub shard_count: u16,
}

/// Who wants the directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claim {
    pub node_id: NodeId,
    /// `None` takes the id that is there, or a new random one when the directory is formatted.
    pub cluster_id: Option<String>,
    pub shard_count: u16,
}

/// A data directory that this process owns until it is dropped.
pub struct DataDir<D: Disk> {
    layout: Layout,
    meta: MetaProperties,
    formatted_now: bool,
    _lock: D::File,
}

/// Why a data directory cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DataDirError {
    Disk(DiskError),
    /// Another process uses it.
    InUse {
        root: PathBuf,
    },
    /// `meta.properties` is damaged.
    Damaged {
        path: PathBuf,
        reason: String,
    },
    /// Formatted by a newer version of the program.
    Newer {
        path: PathBuf,
        found: u32,
        known: u32,
    },
    /// There is data, but no `meta.properties` to say whose.
    Unmarked {
        root: PathBuf,
    },
    /// It belongs to another node.
    OtherNode {
        path: PathBuf,
        found: NodeId,
        claimed: NodeId,
    },
    /// It belongs to another cluster.
    OtherCluster {
        path: PathBuf,
        found: String,
        claimed: String,
    },
    /// The kernel gave no random bytes for a cluster id.
    NoRandom {
        reason: String,
    },
}

impl<D: Disk> DataDir<D> {
    /// Takes the directory: creates it when missing, locks it, formats it when it is empty, and
    /// checks that it is this node's.
    ///
    /// # Errors
    /// [`DataDirError`]. Nothing was changed then but an empty lock file.
    pub fn open(disk: &D, root: &Path, claim: &Claim) -> Result<DataDir<D>, DataDirError> {
        let layout = Layout::new(root);
        disk.create_dir_all(root)?;
        let lock = disk.open(&root.join(LOCK_FILE), OpenHow::CREATE)?;
        match lock.lock() {
            Ok(()) => {}
            Err(error) if error.kind == DiskErrorKind::Locked => {
                return Err(DataDirError::InUse { root: root.to_path_buf() });
            }
            Err(error) => return Err(error.into()),
        }
        let found = MetaProperties::read(disk, root)?;
        let formatted_now = found.is_none();
        let meta = match found {
            Some(meta) => {
                meta.check(claim, &root.join(META_FILE))?;
                meta
            }
            None => format(disk, &layout, claim)?,
        };
        // Which process holds it, for those who look; the lock alone decides.
        let holder = format!("{}\n", std::process::id());
        lock.set_len(0)?;
        lock.write_at(holder.as_bytes(), FilePosition::ZERO)?;
        Ok(DataDir { layout, meta, formatted_now, _lock: lock })
    }

    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    pub fn meta(&self) -> &MetaProperties {
        &self.meta
    }

    /// True when this start formatted the directory.
    pub fn formatted_now(&self) -> bool {
        self.formatted_now
    }
}

/// Shards that have a journal here, this start's or an earlier one's: all must be replayed.
///
/// # Errors
/// As [`Disk::list`]; a missing directory has no journals.
pub fn journal_shards<D: Disk>(disk: &D, layout: &Layout) -> Result<Vec<ShardId>, DiskError> {
    let entries = match disk.list(&layout.journals()) {
        Ok(entries) => entries,
        Err(error) if error.is_not_found() => Vec::new(),
        Err(error) => return Err(error),
    };
    let shard = |name: &str| {
        let id = name.parse::<u16>().ok().map(ShardId::new)?;
        (id.to_string() == name).then_some(id)
    };
    let directories = entries.iter().filter(|e| e.kind == EntryKind::Directory);
    let mut shards: Vec<ShardId> = directories.filter_map(|e| shard(&e.name)).collect();
    shards.sort();
    Ok(shards)
}

/// Moves a directory that nobody claims aside, under `__orphaned/`, durably. Says where it is now.
///
/// # Errors
/// [`DiskError`].
pub fn set_aside<D: Disk>(disk: &D, layout: &Layout, dir: &Path) -> Result<PathBuf, DiskError> {
    let orphaned = layout.orphaned();
    disk.create_dir_all(&orphaned)?;
    let taken = disk.list(&orphaned)?;
    let name = (0u64..).map(|n| n.to_string()).find(|n| taken.iter().all(|e| e.name != *n));
    let to = orphaned.join(name.unwrap_or_default());
    disk.rename(dir, &to)?;
    disk.sync_dir(&orphaned)?;
    disk.sync_dir(&crate::disk::parent_of(dir))?;
    disk.sync_dir(layout.root())?;
    Ok(to)
}

fn format<D: Disk>(
    disk: &D,
    layout: &Layout,
    claim: &Claim,
) -> Result<MetaProperties, DataDirError> {
    for ours in [layout.journals(), layout.topics(), layout.cluster()] {
        if disk.kind(&ours)?.is_some() {
            return Err(DataDirError::Unmarked { root: layout.root().to_path_buf() });
        }
    }
    let cluster_id = match &claim.cluster_id {
        Some(id) => id.clone(),
        None => {
            let id = TopicId::random();
            id.map_err(|e| DataDirError::NoRandom { reason: e.to_string() })?.to_string()
        }
    };
    let (node_id, shard_count) = (claim.node_id, claim.shard_count);
    let meta = MetaProperties { cluster_id, node_id, shard_count };
    write_atomically(disk, &layout.root().join(META_FILE), meta.encode().as_bytes())?;
    disk.sync_dir(&crate::disk::parent_of(layout.root()))?;
    Ok(meta)
}

impl MetaProperties {
    /// Reads the file of a data directory; `None` when there is none.
    ///
    /// # Errors
    /// [`DataDirError`].
    pub fn read<D: Disk>(disk: &D, root: &Path) -> Result<Option<MetaProperties>, DataDirError> {
        let path = root.join(META_FILE);
        match disk.read_all(&path, META_BYTES_MAX) {
            Ok(bytes) => MetaProperties::decode(&path, &bytes).map(Some),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn encode(&self) -> String {
        let body = format!(
            "version={FORMAT_VERSION}\ncluster.id={}\nnode.id={}\nshard.count={}\n",
            self.cluster_id, self.node_id, self.shard_count
        );
        format!("{body}crc32c={:08x}\n", crc32c::crc32c(body.as_bytes()))
    }

    pub(crate) fn decode(path: &Path, bytes: &[u8]) -> Result<MetaProperties, DataDirError> {
        let damaged = |reason: &str| DataDirError::Damaged {
            path: path.to_path_buf(),
            reason: reason.to_owned(),
        };
        let text = std::str::from_utf8(bytes).map_err(|_| damaged("it is not text"))?;
        let value = |key: &str| {
            let of = |line| str::strip_prefix(line, key).and_then(|rest| rest.strip_prefix('='));
            text.lines().find_map(of).ok_or_else(|| damaged(&format!("{key} is missing")))
        };
        let found = value("version")?.parse::<u32>();
        let found = found.map_err(|_| damaged("version is not a number"))?;
        if found > FORMAT_VERSION {
            let path = path.to_path_buf();
            return Err(DataDirError::Newer { path, found, known: FORMAT_VERSION });
        }
        let body = text.split_once("crc32c=").map_or(text, |(body, _)| body);
        if value("crc32c")? != format!("{:08x}", crc32c::crc32c(body.as_bytes())) {
            return Err(damaged("the checksum does not hold"));
        }
        let node = value("node.id")?.parse::<i32>().ok().and_then(NodeId::new);
        let shards = value("shard.count")?.parse::<u16>();
        Ok(MetaProperties {
            cluster_id: value("cluster.id")?.to_owned(),
            node_id: node.ok_or_else(|| damaged("node.id is not a node id"))?,
            shard_count: shards.map_err(|_| damaged("shard.count is not a count"))?,
        })
    }

    fn check(&self, claim: &Claim, path: &Path) -> Result<(), DataDirError> {
        if self.node_id != claim.node_id {
            let (path, found, claimed) = (path.to_path_buf(), self.node_id, claim.node_id);
            return Err(DataDirError::OtherNode { path, found, claimed });
        }
        match &claim.cluster_id {
            Some(claimed) if *claimed != self.cluster_id => Err(DataDirError::OtherCluster {
                path: path.to_path_buf(),
                found: self.cluster_id.clone(),
                claimed: claimed.clone(),
            }),
            _ => Ok(()),
        }
    }
}

impl From<DiskError> for DataDirError {
    fn from(error: DiskError) -> DataDirError {
        DataDirError::Disk(error)
    }
}

impl From<DataDirError> for StateError {
    fn from(error: DataDirError) -> StateError {
        match error {
            DataDirError::Disk(error) => StateError::Disk(error),
            DataDirError::Newer { path, found, known } => StateError::Newer { path, found, known },
            DataDirError::Damaged { path, reason } => StateError::Damaged { path, reason },
            other => StateError::damaged(Path::new(META_FILE), other),
        }
    }
}

impl fmt::Display for DataDirError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DataDirError::Disk(error) => error.fmt(f),
            DataDirError::InUse { root } => write!(
                f,
                "the data directory {} is used by another process; stop that one first, or give \
                 this one a directory of its own",
                root.display()
            ),
            DataDirError::Damaged { path, reason } => write!(
                f,
                "{} is damaged: {reason}; restore it from a backup, nothing was touched",
                path.display()
            ),
            DataDirError::Newer { path, found, known } => write!(
                f,
                "{} has format version {found} and this program knows versions up to {known}; \
                 start a newer version of the program, nothing was touched",
                path.display()
            ),
            DataDirError::Unmarked { root } => write!(
                f,
                "{} holds data but no {META_FILE}; restore that file from a backup, or choose an \
                 empty directory",
                root.display()
            ),
            DataDirError::OtherNode { path, found, claimed } => write!(
                f,
                "{} says node.id={found} and the configuration says node.id={claimed}; correct the \
                 configuration, or choose this node's own data directory",
                path.display()
            ),
            DataDirError::OtherCluster { path, found, claimed } => write!(
                f,
                "{} says cluster.id={found} and the configuration says cluster.id={claimed}; \
                 correct the configuration, or choose this cluster's data directory",
                path.display()
            ),
            DataDirError::NoRandom { reason } => {
                write!(f, "no random bytes for a cluster id: {reason}; set cluster.id")
            }
        }
    }
}

impl std::error::Error for DataDirError {}

#[cfg(test)]
#[path = "data_dir_tests.rs"]
mod tests;
