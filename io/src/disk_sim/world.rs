//! The one simulated machine that all clones of a `SimDisk` share.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::content::Content;
use super::crash::Luck;
use super::faults::{Faults, is_change};
use super::names::{Names, Node, NodeId};
use super::rng::SimRng;
use crate::disk::{DiskError, DiskErrorKind, DiskOp, OpenHow};
use crate::limits::BLOCK_BYTES_U64;
use crate::units::bytes_u64;

#[derive(Debug)]
pub(super) struct World {
    pub names: Names,
    pub faults: Faults,
    /// Changing operations so far.
    pub ops: u64,
    /// False from the power cut until the next start.
    pub powered: bool,
    /// Rises at each power cut: files opened before are dead.
    pub generation: u64,
    pub next_handle: u64,
    /// Open files of each node since the last power cut.
    pub handles: BTreeMap<NodeId, usize>,
    /// The last operations, for the message of a failing test; `None` when not wanted.
    pub trace: Option<Vec<String>>,
    /// Chance used while the machine runs, as which pages a failing sync loses.
    pub rng: SimRng,
}

/// What the gate says to an operation.
pub(super) enum Gate {
    Pass,
    /// Take effect as far as a cache would, then answer with this: the power goes now.
    LastAct(DiskError),
    /// Answer with this.
    Refuse(DiskError),
}

impl World {
    pub(super) fn new() -> World {
        World {
            names: Names::new(),
            faults: Faults::default(),
            ops: 0,
            powered: true,
            generation: 0,
            next_handle: 0,
            handles: BTreeMap::new(),
            trace: None,
            rng: SimRng::new(0),
        }
    }

    /// Every operation passes here first. Counts it, and decides whether it fails.
    pub(super) fn gate(&mut self, op: DiskOp, path: &Path) -> Gate {
        if !self.powered {
            return Gate::Refuse(DiskError::from_errno(libc::EIO, op, path));
        }
        if is_change(op) {
            self.ops += 1;
            let line = format!("{}: {op} {}", self.ops, path.display());
            if let Some(trace) = &mut self.trace {
                trace.push(line);
            }
            if self.faults.power_off_at.is_some_and(|n| self.ops >= n) {
                self.powered = false;
                return Gate::LastAct(DiskError::from_errno(libc::EIO, op, path));
            }
        }
        match self.faults.strike(self.ops, op, path) {
            Some(errno) => Gate::Refuse(DiskError::from_errno(errno, op, path)),
            None => Gate::Pass,
        }
    }

    /// For operations that do nothing when refused: true = act, then return the answer.
    pub(super) fn gate_simple(&mut self, op: DiskOp, path: &Path) -> (bool, Result<(), DiskError>) {
        match self.gate(op, path) {
            Gate::Pass => (true, Ok(())),
            Gate::LastAct(error) => (true, Err(error)),
            Gate::Refuse(error) => (false, Err(error)),
        }
    }

    pub(super) fn content(&self, node: NodeId) -> &Content {
        match &self.names.nodes[node] {
            Node::File { content, .. } => content,
            Node::Directory(_) => panic!("node {node} is a directory"),
        }
    }

    pub(super) fn content_mut(&mut self, node: NodeId) -> &mut Content {
        match &mut self.names.nodes[node] {
            Node::File { content, .. } => content,
            Node::Directory(_) => panic!("node {node} is a directory"),
        }
    }

    pub(super) fn open(&mut self, path: &Path, how: OpenHow) -> Result<NodeId, DiskError> {
        let refuse = |kind| DiskError::new(kind, DiskOp::Open, path);
        if let Gate::LastAct(error) | Gate::Refuse(error) = self.gate(DiskOp::Open, path) {
            return Err(error);
        }
        let slot = self.names.slot(path).map_err(refuse)?;
        match self.names.at(&slot) {
            Some(_) if how.create && how.exclusive => Err(refuse(DiskErrorKind::Exists)),
            Some(node) => match &self.names.nodes[node] {
                Node::File { .. } => Ok(node),
                Node::Directory(_) => Err(refuse(DiskErrorKind::WrongKind)),
            },
            None if how.create => {
                let (act, answer) = self.gate_simple(DiskOp::Create, path);
                if !act {
                    return Err(answer.err().unwrap_or_else(|| refuse(DiskErrorKind::NotFound)));
                }
                let node = self.names.create_file(slot);
                answer.map(|()| node)
            }
            None => Err(refuse(DiskErrorKind::NotFound)),
        }
    }

    pub(super) fn write(
        &mut self,
        node: NodeId,
        path: &Path,
        bytes: &[u8],
        at: u64,
        durable: bool,
    ) -> Result<(), DiskError> {
        let gate = self.gate(DiskOp::Write, path);
        if let Gate::Refuse(error) = gate {
            if error.is_final() {
                // Nobody knows how much of a failed write arrived.
                let part = self.rng.index(bytes.len() + 1);
                self.content_mut(node).write(&bytes[..part], at);
            }
            return Err(error);
        }
        let end = at + bytes_u64(bytes.len());
        let grows = end.saturating_sub(self.content(node).space());
        if self.is_full_for(grows) {
            return Err(DiskError::new(DiskErrorKind::Full, DiskOp::Write, path));
        }
        self.content_mut(node).write(bytes, at);
        match gate {
            Gate::LastAct(error) | Gate::Refuse(error) => Err(error),
            Gate::Pass => {
                if durable {
                    self.content_mut(node).sync_range(at, bytes.len());
                }
                Ok(())
            }
        }
    }

    pub(super) fn sync(&mut self, node: NodeId, path: &Path) -> Result<(), DiskError> {
        match self.gate(DiskOp::Sync, path) {
            Gate::Pass => {
                self.content_mut(node).sync();
                Ok(())
            }
            Gate::LastAct(error) => Err(error),
            Gate::Refuse(error) => {
                let mut luck = Luck::of_seed(self.rng.next_u64());
                if self.powered && error.is_final() {
                    self.content_mut(node).fail_sync(&mut luck);
                }
                Err(error)
            }
        }
    }

    pub(super) fn allocate(
        &mut self,
        node: NodeId,
        path: &Path,
        len: u64,
    ) -> Result<(), DiskError> {
        let (act, answer) = self.gate_simple(DiskOp::Allocate, path);
        if act {
            if self.is_full_for(len.saturating_sub(self.content(node).space())) {
                return Err(DiskError::new(DiskErrorKind::Full, DiskOp::Allocate, path));
            }
            self.content_mut(node).allocate(len);
        }
        answer
    }

    pub(super) fn free_bytes(&self) -> u64 {
        match self.faults.capacity {
            Some(capacity) => capacity.saturating_sub(self.used()),
            None => u64::MAX / 2,
        }
    }

    pub(super) fn crash(&mut self, seed: u64) {
        self.crash_with(Luck::of_seed(seed));
    }

    pub(super) fn crash_with(&mut self, mut luck: Luck) {
        self.handles.clear();
        self.names.crash(&mut luck);
        self.generation += 1;
        self.powered = true;
        self.faults.power_off_at = None;
        self.faults.list.clear();
    }

    fn is_full_for(&self, grows: u64) -> bool {
        self.faults.capacity.is_some_and(|capacity| grows > 0 && self.used() + grows > capacity)
    }

    /// Space of all files that have a name. (On a real disk an open file without one counts too.)
    fn used(&self) -> u64 {
        let mut named = BTreeSet::new();
        for node in &self.names.nodes {
            if let Node::Directory(dir) = node {
                named.extend(dir.live.values().copied());
            }
        }
        let space = |node: NodeId| match &self.names.nodes[node] {
            Node::File { content, .. } => content.space().next_multiple_of(BLOCK_BYTES_U64),
            Node::Directory(_) => 0,
        };
        named.into_iter().map(space).sum()
    }
}
