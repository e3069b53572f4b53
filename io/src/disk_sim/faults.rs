//! When the simulated disk refuses, and how.

use std::path::Path;

use crate::disk::DiskOp;

/// A refusal to come.
#[derive(Clone, Debug)]
pub struct Fault {
    pub when: FaultWhen,
    /// The errno to answer with: `libc::EIO`, `libc::ENOSPC`, ...
    pub errno: i32,
    /// How many operations it hits before it is over; `u64::MAX` for ever.
    pub times: u64,
}

/// Which operations a [`Fault`] hits.
#[derive(Clone, Debug)]
pub enum FaultWhen {
    /// The changing operation of this number (the first is 1), and those behind it.
    FromOp(u64),
    /// Operations of one kind on paths that contain this text.
    Path { contains: String, op: DiskOp },
}

impl Fault {
    /// The `n`-th changing operation, once.
    pub fn at_op(n: u64, errno: i32) -> Fault {
        Fault { when: FaultWhen::FromOp(n), errno, times: 1 }
    }

    /// Every operation of one kind on matching paths.
    pub fn on_path(contains: &str, op: DiskOp, errno: i32) -> Fault {
        let when = FaultWhen::Path { contains: contains.to_owned(), op };
        Fault { when, errno, times: u64::MAX }
    }
}

/// Everything that may go wrong, as the tests ordered it.
#[derive(Debug, Default)]
pub(super) struct Faults {
    pub list: Vec<Fault>,
    /// The power goes at the changing operation of this number.
    pub power_off_at: Option<u64>,
    /// Bytes the disk holds at most.
    pub capacity: Option<u64>,
}

impl Faults {
    /// The errno that this operation is to fail with, if any; counts the fault down.
    pub(super) fn strike(&mut self, number: u64, op: DiskOp, path: &Path) -> Option<i32> {
        let changing = is_change(op);
        let hit = self.list.iter_mut().find(|fault| {
            fault.times > 0
                && match &fault.when {
                    FaultWhen::FromOp(n) => changing && number >= *n,
                    FaultWhen::Path { contains, op: which } => {
                        *which == op && path.to_string_lossy().contains(contains.as_str())
                    }
                }
        })?;
        hit.times -= 1;
        Some(hit.errno)
    }
}

/// True for operations that change what is stored, which are the ones that are numbered.
pub(super) fn is_change(op: DiskOp) -> bool {
    match op {
        DiskOp::Create
        | DiskOp::Write
        | DiskOp::Sync
        | DiskOp::SetLen
        | DiskOp::Allocate
        | DiskOp::CreateDir
        | DiskOp::Rename
        | DiskOp::Remove
        | DiskOp::SyncDir
        | DiskOp::SyncFs => true,
        DiskOp::Open
        | DiskOp::Read
        | DiskOp::Len
        | DiskOp::Lock
        | DiskOp::Close
        | DiskOp::List
        | DiskOp::FreeBytes
        | DiskOp::Run => false,
    }
}
