//! A simulated disk: of the same shape as the real ones, and able to fail in every way they can.
//!
//! It keeps a live image (what readers see) and a durable image (what a power cut leaves). Bytes
//! become durable by a sync or an O_DSYNC write, names by a sync of their directory. At
//! [`SimDisk::crash`] everything between the two images is decided by the seed: each 512-byte
//! sector on its own is old, new, or any state between, so that writes are lost, torn and
//! reordered; each directory keeps the first so many of its changes. An un-synced write into
//! allocated space reads as zeros when it was lost. After EIO on a sync the lost pages are clean:
//! readers still see them, and a later sync does not write them.
//!
//! [`SimDisk`] implements [`Disk`] and [`CoreDisk`] over the same images. Core operations complete
//! at once, or, after [`SimDisk::stepped`], when the test says so and in the order it says.

mod content;
mod core;
mod crash;
mod faults;
mod names;
mod rng;
mod world;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use core::{SimBuf, SimCoreFile};
pub use crash::CrashMode;
pub use faults::{Fault, FaultWhen};
pub use rng::SimRng;

use self::core::Pending;
use self::crash::Luck;
use self::names::{Node, NodeId};
use self::world::World;
use crate::disk::{Disk, DiskError, DiskErrorKind, DiskFile, DiskOp, Entry, EntryKind, OpenHow};
use crate::limits::{BLOCK_BYTES, BLOCK_BYTES_U64};
use crate::units::FilePosition;

/// One simulated machine's disk. Clones share it.
#[derive(Clone)]
pub struct SimDisk {
    world: Arc<Mutex<World>>,
    pending: Arc<Mutex<Pending>>,
}

/// An open file of a [`SimDisk`]. Dead after a power cut.
pub struct SimFile {
    disk: SimDisk,
    node: NodeId,
    path: PathBuf,
    how: OpenHow,
    generation: u64,
    handle: u64,
}

impl SimDisk {
    /// An empty disk, with nothing going wrong, whose core operations complete at once.
    pub fn new() -> SimDisk {
        SimDisk {
            world: Arc::new(Mutex::new(World::new())),
            pending: Arc::new(Mutex::new(Pending::default())),
        }
    }

    /// Changing operations so far: creations, writes, syncs, renames, removals, ...
    pub fn ops(&self) -> u64 {
        self.world().ops
    }

    /// The power goes at the changing operation of number `n`: it takes effect at most as far as
    /// caches go, it and all behind it answer EIO until [`SimDisk::crash`].
    pub fn power_off_at(&self, n: u64) {
        self.world().faults.power_off_at = Some(n);
    }

    /// True until the power goes.
    pub fn is_powered(&self) -> bool {
        self.world().powered
    }

    /// Cuts the power now and starts the machine again: what was not synced meets the fate that
    /// the seed gives it, open files are dead, faults are over, locks are free.
    pub fn crash(&self, seed: u64) {
        self.pending().abandon(&self.world);
        self.world().crash(seed);
    }

    /// As [`SimDisk::crash`] with a fate of the test's choice.
    pub fn crash_as(&self, mode: CrashMode, seed: u64) {
        self.pending().abandon(&self.world);
        self.world().crash_with(Luck { mode, rng: SimRng::new(seed) });
    }

    /// Orders a refusal.
    pub fn fault(&self, fault: Fault) {
        self.world().faults.list.push(fault);
    }

    /// Takes all refusals back.
    pub fn clear_faults(&self) {
        self.world().faults.list.clear();
    }

    /// Bounds the bytes the disk holds; what does not fit is refused with ENOSPC.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.world().faults.capacity = bytes;
    }

    /// Seeds the chance used while the machine runs, as which pages a failing sync loses.
    pub fn seed(&self, seed: u64) {
        self.world().rng = SimRng::new(seed);
    }

    /// Flips bits of one byte of a file, live and durable: bit rot.
    ///
    /// # Errors
    /// When there is no such file.
    pub fn flip(&self, path: &Path, at: FilePosition, mask: u8) -> Result<(), DiskError> {
        let mut world = self.world();
        let node = world.names.find(path);
        let node = node.map_err(|kind| DiskError::new(kind, DiskOp::Open, path))?;
        world.content_mut(node).flip(at.get(), mask);
        Ok(())
    }

    /// Starts to keep a line for each changing operation.
    pub fn start_trace(&self) {
        self.world().trace = Some(Vec::new());
    }

    /// The lines kept since [`SimDisk::start_trace`].
    pub fn trace(&self) -> Vec<String> {
        self.world().trace.clone().unwrap_or_default()
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for SimDisk {
    fn default() -> SimDisk {
        SimDisk::new()
    }
}

impl Disk for SimDisk {
    type File = SimFile;

    fn open(&self, path: &Path, how: OpenHow) -> Result<SimFile, DiskError> {
        let mut world = self.world();
        let node = world.open(path, how)?;
        world.next_handle += 1;
        *world.handles.entry(node).or_default() += 1;
        Ok(SimFile {
            disk: self.clone(),
            node,
            path: path.to_path_buf(),
            how,
            generation: world.generation,
            handle: world.next_handle,
        })
    }

    fn list(&self, dir: &Path) -> Result<Vec<Entry>, DiskError> {
        let mut world = self.world();
        world.gate_simple(DiskOp::List, dir).1?;
        let refuse = |kind| DiskError::new(kind, DiskOp::List, dir);
        let node = world.names.find(dir).map_err(refuse)?;
        let names = &world.names.directory(node).map_err(refuse)?.live;
        let entry = |(name, node): (&String, &NodeId)| Entry {
            name: name.clone(),
            kind: world.names.kind(*node),
        };
        Ok(names.iter().map(entry).collect())
    }

    fn kind(&self, path: &Path) -> Result<Option<EntryKind>, DiskError> {
        let mut world = self.world();
        world.gate_simple(DiskOp::Len, path).1?;
        match world.names.find(path) {
            Ok(node) => Ok(Some(world.names.kind(node))),
            Err(DiskErrorKind::NotFound) => Ok(None),
            Err(kind) => Err(DiskError::new(kind, DiskOp::Len, path)),
        }
    }

    fn create_dir_all(&self, dir: &Path) -> Result<(), DiskError> {
        let mut world = self.world();
        let (act, answer) = world.gate_simple(DiskOp::CreateDir, dir);
        if act {
            let done = world.names.create_dir_all(dir);
            done.map_err(|kind| DiskError::new(kind, DiskOp::CreateDir, dir))?;
        }
        answer
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        let mut world = self.world();
        let (act, answer) = world.gate_simple(DiskOp::Rename, from);
        if act {
            let refuse = |kind| DiskError::new(kind, DiskOp::Rename, from);
            let (from, to) = (world.names.slot(from), world.names.slot(to));
            let (from, to) = (from.map_err(refuse)?, to.map_err(refuse)?);
            world.names.rename(from, to).map_err(refuse)?;
        }
        answer
    }

    fn remove_file(&self, path: &Path) -> Result<(), DiskError> {
        self.remove(path, EntryKind::File)
    }

    fn remove_dir_all(&self, dir: &Path) -> Result<(), DiskError> {
        self.remove(dir, EntryKind::Directory)
    }

    fn sync_dir(&self, dir: &Path) -> Result<(), DiskError> {
        let mut world = self.world();
        world.gate_simple(DiskOp::SyncDir, dir).1?;
        let node = world.names.find(dir);
        let node = node.map_err(|kind| DiskError::new(kind, DiskOp::SyncDir, dir))?;
        world.names.sync_dir(node);
        Ok(())
    }

    fn sync_fs(&self, path: &Path) -> Result<(), DiskError> {
        let mut world = self.world();
        world.gate_simple(DiskOp::SyncFs, path).1?;
        world.names.sync_all();
        for node in &mut world.names.nodes {
            if let Node::File { content, .. } = node {
                content.sync();
            }
        }
        Ok(())
    }

    fn free_bytes(&self, path: &Path) -> Result<u64, DiskError> {
        let mut world = self.world();
        world.gate_simple(DiskOp::FreeBytes, path).1?;
        Ok(world.free_bytes())
    }
}

impl SimDisk {
    fn remove(&self, path: &Path, kind: EntryKind) -> Result<(), DiskError> {
        let mut world = self.world();
        let (act, answer) = world.gate_simple(DiskOp::Remove, path);
        if act {
            let refuse = |kind| DiskError::new(kind, DiskOp::Remove, path);
            let slot = world.names.slot(path).map_err(refuse)?;
            let node = world.names.at(&slot).ok_or_else(|| refuse(DiskErrorKind::NotFound))?;
            if world.names.kind(node) != kind {
                return Err(refuse(DiskErrorKind::WrongKind));
            }
            world.names.remove_tree(slot);
        }
        answer
    }
}

impl DiskFile for SimFile {
    fn read_at(&self, buf: &mut [u8], at: FilePosition) -> Result<usize, DiskError> {
        self.check_direct(buf.len(), at);
        let mut world = self.alive(DiskOp::Read)?;
        world.gate_simple(DiskOp::Read, &self.path).1?;
        Ok(world.content(self.node).read(buf, at.get()))
    }

    fn write_at(&self, buf: &[u8], at: FilePosition) -> Result<(), DiskError> {
        self.check_direct(buf.len(), at);
        assert!(self.how.write, "write to {}, opened to read", self.path.display());
        let mut world = self.alive(DiskOp::Write)?;
        world.write(self.node, &self.path, buf, at.get(), self.how.durable)
    }

    fn sync_data(&self) -> Result<(), DiskError> {
        self.alive(DiskOp::Sync)?.sync(self.node, &self.path)
    }

    fn set_len(&self, len: u64) -> Result<(), DiskError> {
        let mut world = self.alive(DiskOp::SetLen)?;
        let (act, answer) = world.gate_simple(DiskOp::SetLen, &self.path);
        if act {
            world.content_mut(self.node).set_len(len);
        }
        answer
    }

    fn allocate(&self, len: u64) -> Result<(), DiskError> {
        self.alive(DiskOp::Allocate)?.allocate(self.node, &self.path, len)
    }

    fn blank_from(&self) -> Result<FilePosition, DiskError> {
        let mut world = self.alive(DiskOp::Len)?;
        world.gate_simple(DiskOp::Len, &self.path).1?;
        Ok(FilePosition::new(world.content(self.node).blank_from()))
    }

    fn len(&self) -> Result<u64, DiskError> {
        let mut world = self.alive(DiskOp::Len)?;
        world.gate_simple(DiskOp::Len, &self.path).1?;
        Ok(world.content(self.node).len())
    }

    fn is_shared(&self) -> Option<bool> {
        let world = self.disk.world();
        Some(world.handles.get(&self.node).is_some_and(|open| *open > 1))
    }

    fn lock(&self) -> Result<(), DiskError> {
        let mut world = self.alive(DiskOp::Lock)?;
        match &mut world.names.nodes[self.node] {
            Node::File { locked_by: Some(holder), .. } if *holder != self.handle => {
                Err(DiskError::new(DiskErrorKind::Locked, DiskOp::Lock, &self.path))
            }
            Node::File { locked_by, .. } => {
                *locked_by = Some(self.handle);
                Ok(())
            }
            Node::Directory(_) => {
                Err(DiskError::new(DiskErrorKind::WrongKind, DiskOp::Lock, &self.path))
            }
        }
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

impl SimFile {
    /// The world, if this file was opened since the last power cut.
    fn alive(&self, op: DiskOp) -> Result<MutexGuard<'_, World>, DiskError> {
        let world = self.disk.world();
        if world.generation == self.generation {
            Ok(world)
        } else {
            Err(DiskError::from_errno(libc::EIO, op, &self.path))
        }
    }

    #[track_caller]
    fn check_direct(&self, len: usize, at: FilePosition) {
        if self.how.direct {
            let whole = len.is_multiple_of(BLOCK_BYTES) && at.get().is_multiple_of(BLOCK_BYTES_U64);
            assert!(whole, "direct transfer of {len} bytes at {at} is not in blocks");
        }
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        let mut world = self.disk.world();
        if world.generation != self.generation {
            return;
        }
        if let Some(open) = world.handles.get_mut(&self.node) {
            *open -= 1;
        }
        if let Node::File { locked_by, .. } = &mut world.names.nodes[self.node]
            && *locked_by == Some(self.handle)
        {
            *locked_by = None;
        }
    }
}

#[cfg(test)]
#[path = "disk_sim/sim_tests.rs"]
mod tests;
