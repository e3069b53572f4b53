//! Names of the simulated file system: a tree in memory, a durable tree, and what lies between.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path};

use super::content::Content;
use super::crash::{CrashMode, Luck};
use crate::disk::{DiskErrorKind, EntryKind};

/// Place of a file or directory in the arena; never reused.
pub(super) type NodeId = usize;

pub(super) const ROOT: NodeId = 0;

#[derive(Debug, Default)]
pub(super) struct Directory {
    pub live: BTreeMap<String, NodeId>,
    durable: BTreeMap<String, NodeId>,
}

#[derive(Debug)]
pub(super) enum Node {
    File { content: Content, locked_by: Option<u64> },
    Directory(Directory),
}

/// One change of names that is not durable yet. All of it survives a power cut, or none.
#[derive(Debug)]
struct NameChange {
    /// Directory, name, and what stands there afterwards.
    sets: Vec<(NodeId, String, Option<NodeId>)>,
}

#[derive(Debug)]
pub(super) struct Names {
    pub nodes: Vec<Node>,
    unsynced: Vec<NameChange>,
}

/// A path resolved to the directory that holds it and the last name.
pub(super) struct Slot {
    pub dir: NodeId,
    pub name: String,
}

impl Names {
    pub(super) fn new() -> Names {
        Names { nodes: vec![Node::Directory(Directory::default())], unsynced: Vec::new() }
    }

    /// What stands at `path`.
    pub(super) fn find(&self, path: &Path) -> Result<NodeId, DiskErrorKind> {
        let mut node = ROOT;
        for name in parts(path)? {
            let dir = self.directory(node)?;
            node = *dir.live.get(&name).ok_or(DiskErrorKind::NotFound)?;
        }
        Ok(node)
    }

    /// Where `path` stands or would stand; its directory must exist.
    pub(super) fn slot(&self, path: &Path) -> Result<Slot, DiskErrorKind> {
        let mut names = parts(path)?;
        let name = names.pop().ok_or(DiskErrorKind::WrongKind)?;
        let mut dir = ROOT;
        for step in names {
            dir = *self.directory(dir)?.live.get(&step).ok_or(DiskErrorKind::NotFound)?;
        }
        self.directory(dir)?;
        Ok(Slot { dir, name })
    }

    pub(super) fn at(&self, slot: &Slot) -> Option<NodeId> {
        self.directory(slot.dir).ok()?.live.get(&slot.name).copied()
    }

    pub(super) fn directory(&self, node: NodeId) -> Result<&Directory, DiskErrorKind> {
        match &self.nodes[node] {
            Node::Directory(dir) => Ok(dir),
            Node::File { .. } => Err(DiskErrorKind::WrongKind),
        }
    }

    pub(super) fn kind(&self, node: NodeId) -> EntryKind {
        match &self.nodes[node] {
            Node::Directory(_) => EntryKind::Directory,
            Node::File { .. } => EntryKind::File,
        }
    }

    pub(super) fn create_file(&mut self, slot: Slot) -> NodeId {
        let node = Node::File { content: Content::default(), locked_by: None };
        self.create(slot, node)
    }

    pub(super) fn create_dir_all(&mut self, path: &Path) -> Result<(), DiskErrorKind> {
        let mut dir = ROOT;
        for name in parts(path)? {
            dir = match self.directory(dir)?.live.get(&name) {
                Some(next) => *next,
                None => self.create(Slot { dir, name }, Node::Directory(Directory::default())),
            };
        }
        self.directory(dir).map(|_| ())
    }

    pub(super) fn rename(&mut self, from: Slot, to: Slot) -> Result<(), DiskErrorKind> {
        let node = self.at(&from).ok_or(DiskErrorKind::NotFound)?;
        if let Some(over) = self.at(&to) {
            let same = self.kind(over) == self.kind(node);
            let empty = self.directory(over).map_or(true, |d| d.live.is_empty());
            if !same || !empty {
                return Err(DiskErrorKind::WrongKind);
            }
        }
        self.change(vec![(from.dir, from.name, None), (to.dir, to.name, Some(node))]);
        Ok(())
    }

    pub(super) fn remove(&mut self, slot: Slot) {
        self.change(vec![(slot.dir, slot.name, None)]);
    }

    /// Takes away all that is in a directory and then the directory, one name after the other.
    pub(super) fn remove_tree(&mut self, slot: Slot) {
        if let Some(node) = self.at(&slot) {
            let below: Vec<String> = match self.directory(node) {
                Ok(dir) => dir.live.keys().cloned().collect(),
                Err(_) => Vec::new(),
            };
            for name in below {
                self.remove_tree(Slot { dir: node, name });
            }
        }
        self.remove(slot);
    }

    /// Makes the names in `dir` durable, with the earlier changes they depend on.
    pub(super) fn sync_dir(&mut self, dir: NodeId) {
        let mut touched = BTreeSet::from([dir]);
        let mut due = vec![false; self.unsynced.len()];
        for (change, due) in self.unsynced.iter().zip(&mut due).rev() {
            if change.sets.iter().any(|(d, _, _)| touched.contains(d)) {
                *due = true;
                touched.extend(change.sets.iter().map(|(d, _, _)| *d));
            }
        }
        let mut left = Vec::new();
        for (change, due) in std::mem::take(&mut self.unsynced).into_iter().zip(due) {
            if due {
                self.make_durable(change);
            } else {
                left.push(change);
            }
        }
        self.unsynced = left;
    }

    pub(super) fn sync_all(&mut self) {
        for change in std::mem::take(&mut self.unsynced) {
            self.make_durable(change);
        }
    }

    /// The power went: of each directory's changes luck keeps the first so many.
    pub(super) fn crash(&mut self, luck: &mut Luck) {
        let mut stopped = BTreeSet::new();
        for change in std::mem::take(&mut self.unsynced) {
            let keeps = match luck.mode {
                CrashMode::LoseAll => false,
                CrashMode::KeepAll => true,
                CrashMode::Random | CrashMode::Torn => luck.rng.chance(60),
            };
            let open = change.sets.iter().all(|(d, _, _)| !stopped.contains(d));
            if keeps && open {
                self.make_durable(change);
            } else {
                stopped.extend(change.sets.iter().map(|(d, _, _)| *d));
            }
        }
        for node in &mut self.nodes {
            match node {
                Node::Directory(dir) => dir.live = dir.durable.clone(),
                Node::File { content, locked_by } => {
                    content.crash(luck);
                    *locked_by = None;
                }
            }
        }
    }

    fn create(&mut self, slot: Slot, node: Node) -> NodeId {
        let id = self.nodes.len();
        self.nodes.push(node);
        self.change(vec![(slot.dir, slot.name, Some(id))]);
        id
    }

    fn change(&mut self, sets: Vec<(NodeId, String, Option<NodeId>)>) {
        for (dir, name, node) in &sets {
            if let Node::Directory(dir) = &mut self.nodes[*dir] {
                set(&mut dir.live, name.clone(), *node);
            }
        }
        self.unsynced.push(NameChange { sets });
    }

    fn make_durable(&mut self, change: NameChange) {
        for (dir, name, node) in change.sets {
            if let Node::Directory(dir) = &mut self.nodes[dir] {
                set(&mut dir.durable, name, node);
            }
        }
    }
}

fn set(names: &mut BTreeMap<String, NodeId>, name: String, node: Option<NodeId>) {
    match node {
        Some(node) => names.insert(name, node),
        None => names.remove(&name),
    };
}

/// The names of a path from the root; relative paths start at the root too.
fn parts(path: &Path) -> Result<Vec<String>, DiskErrorKind> {
    let mut names = Vec::new();
    for part in path.components() {
        match part {
            Component::RootDir | Component::CurDir => {}
            Component::Normal(name) => {
                names.push(name.to_str().ok_or(DiskErrorKind::NotFound)?.to_owned());
            }
            Component::ParentDir | Component::Prefix(_) => return Err(DiskErrorKind::NotFound),
        }
    }
    Ok(names)
}
