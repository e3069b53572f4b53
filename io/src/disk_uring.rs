//! The real disk of one core: direct writes by threads of the core's own, everything else that blocks
//! through the helper pool.
//!
//! | `storage.direct` | write | durable write (journal) | sync |
//! |---|---|---|---|
//! | true (the default) | a writer, O_DIRECT | the committer, O_DIRECT and O_DSYNC | a writer, fdatasync |
//! | false | pool, page cache | pool, write then fdatasync | pool, fdatasync |
//!
//! Why threads: the ring is looked at only when the core has nothing runnable, so a busy core hands its
//! write to the kernel late; a thread starts it at once. What the ring cannot do without waiting, a
//! sync or a write that makes a file longer, the kernel gives to threads all the same, and these get no
//! CPU from a busy core before its turn is over. Measured in `runtime/README.md`; [`WRITTEN_BY`] is the
//! one place to change it.

use std::cell::Cell;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use glommio::GlommioError;
use glommio::io::{DmaBuffer, DmaFile, OpenOptions};

use crate::aligned::AlignedBuf;
use crate::disk::{
    CoreDisk, DirectHow, Disk, DiskError, DiskErrorKind, DiskFile, DiskOp, OpenHow, write_copied,
};
use crate::disk_file::{FileDisk, RealFile};
use crate::gather::Gather;
use crate::limits::{BLOCK_BYTES, BLOCK_BYTES_U64};
use crate::runtime::{JobError, Pool};
use crate::units::FilePosition;

/// Who makes direct writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrittenBy {
    /// The executor's ring.
    Ring,
    /// Threads for each core, which do nothing else: one for durable writes, [`WRITERS`] for others.
    Threads,
}

/// The way that measured better.
pub const WRITTEN_BY: WrittenBy = WrittenBy::Threads;

/// Files that one core writes to, or syncs, at a time. Each open file has one of the threads, so that its
/// writes, which the file system does one after the other, hold up those of no other.
pub const WRITERS: usize = 8;

/// The disk of one core. Clones share it; make one on each core.
#[derive(Clone)]
pub struct UringDisk {
    pool: Pool,
    direct: bool,
    threads: Option<Rc<Threads>>,
}

/// The threads of [`WrittenBy::Threads`].
struct Threads {
    committer: Pool,
    writers: Vec<Pool>,
    /// Whose turn it is to get a file.
    next: Cell<usize>,
}

impl Threads {
    fn begin(pool: &Pool) -> io::Result<Threads> {
        let writers = (0..WRITERS).map(|_| pool.companion("write")).collect::<io::Result<_>>()?;
        Ok(Threads { committer: pool.companion("commit")?, writers, next: Cell::new(0) })
    }

    fn for_file(&self, how: DirectHow) -> &Pool {
        if how.durable {
            return &self.committer;
        }
        let next = self.next.get();
        self.next.set((next + 1) % self.writers.len());
        &self.writers[next]
    }
}

impl UringDisk {
    /// `direct` is `storage.direct`; the probe has checked that the file systems can do it.
    ///
    /// Errors: the system refuses a thread.
    pub fn new(pool: Pool, direct: bool) -> io::Result<UringDisk> {
        UringDisk::with(pool, direct, WRITTEN_BY)
    }

    /// [`UringDisk::new`] with the choice open, for measurements.
    pub fn with(pool: Pool, direct: bool, written_by: WrittenBy) -> io::Result<UringDisk> {
        let threads = match written_by {
            WrittenBy::Threads if direct => Some(Rc::new(Threads::begin(&pool)?)),
            WrittenBy::Threads | WrittenBy::Ring => None,
        };
        Ok(UringDisk { pool, direct, threads })
    }

    async fn open_ring(&self, path: &Path, how: DirectHow) -> Result<DmaFile, DiskError> {
        let named = path.to_path_buf();
        let open = move || FileDisk.open(&named, open_how(how));
        let held = job(&self.pool, DiskOp::Open, path, open).await?;
        // The executor looks the path up a second time after its own open and ends the core when
        // it is gone by then, as the directory of a deleted topic may be. This name stays.
        let name = PathBuf::from(format!("/proc/self/fd/{}", held.raw_fd()));
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        if how.durable {
            options.custom_flags(libc::O_DSYNC);
        }
        let opened = options.dma_open(&name).await;
        opened.map_err(|error| told(&error, DiskOp::Open, path))
    }
}

impl CoreDisk for UringDisk {
    type File = UringFile;
    type Buf = UringBuf;
    type Blocking = FileDisk;

    fn alloc(&self, len: usize) -> UringBuf {
        assert!(len > 0 && len.is_multiple_of(BLOCK_BYTES), "{len} bytes are not whole blocks");
        if self.direct {
            UringBuf(Memory::Ring(HeapBuf::new(len)))
        } else {
            UringBuf(Memory::Plain(AlignedBuf::zeroed(len)))
        }
    }

    async fn open_direct(&self, path: &Path, how: DirectHow) -> Result<UringFile, DiskError> {
        let backend = match &self.threads {
            Some(threads) => {
                let named = path.to_path_buf();
                let as_told = open_how(how).direct();
                let as_told = if how.durable { as_told.durable() } else { as_told };
                let open = move || FileDisk.open(&named, as_told);
                let file = Arc::new(job(&self.pool, DiskOp::Open, path, open).await?);
                Backend::Thread { file, thread: threads.for_file(how).clone() }
            }
            _ if self.direct => Backend::Ring(Rc::new(self.open_ring(path, how).await?)),
            _ => {
                let named = path.to_path_buf();
                let open = move || FileDisk.open(&named, open_how(how));
                let file = Arc::new(job(&self.pool, DiskOp::Open, path, open).await?);
                Backend::Cached { file, durable: how.durable }
            }
        };
        Ok(UringFile { backend, path: Rc::from(path) })
    }

    async fn write_at(
        &self,
        file: &UringFile,
        buf: UringBuf,
        at: FilePosition,
    ) -> Result<(), DiskError> {
        let whole = at.get().is_multiple_of(BLOCK_BYTES_U64);
        assert!(whole, "direct write at {at} does not start at a block");
        let path = &file.path;
        match (&file.backend, buf.0) {
            (Backend::Ring(ring), Memory::Ring(buf)) => write_ring(ring, buf.0, at, path).await,
            (Backend::Thread { file, thread }, Memory::Ring(buf)) => {
                let file = file.clone();
                // The closure takes the buffer as the whole that may be sent.
                let write = move || file.write_at(HeapBuf::bytes(&buf), at);
                job(thread, DiskOp::Write, path, write).await
            }
            (Backend::Cached { file, durable }, Memory::Plain(buf)) => {
                let (file, durable) = (file.clone(), *durable);
                let write = move || {
                    file.write_at(buf.as_ref(), at)?;
                    if durable { file.sync_data() } else { Ok(()) }
                };
                job(&self.pool, DiskOp::Write, path, write).await
            }
            _ => unreachable!("a buffer and a file of one disk are of one kind"),
        }
    }

    async fn write_gathered(
        &self,
        file: &UringFile,
        gather: Gather,
        at: FilePosition,
    ) -> Result<(), DiskError> {
        let path = &file.path;
        match &file.backend {
            Backend::Thread { file, thread } => {
                let file = file.clone();
                let write = move || {
                    let slices: Vec<&[u8]> = gather.slices().collect();
                    file.write_slices_at(&slices, at)
                };
                job(thread, DiskOp::Write, path, write).await
            }
            Backend::Ring(_) | Backend::Cached { .. } => write_copied(self, file, gather, at).await,
        }
    }

    async fn sync(&self, file: &UringFile) -> Result<(), DiskError> {
        match &file.backend {
            Backend::Ring(ring) => {
                ring.fdatasync().await.map_err(|error| told(&error, DiskOp::Sync, &file.path))
            }
            Backend::Thread { file: real, thread: pool } => {
                let real = real.clone();
                job(pool, DiskOp::Sync, &file.path, move || real.sync_data()).await
            }
            Backend::Cached { file: real, .. } => {
                let real = real.clone();
                job(&self.pool, DiskOp::Sync, &file.path, move || real.sync_data()).await
            }
        }
    }

    async fn close(&self, file: UringFile) -> Result<(), DiskError> {
        let UringFile { backend, path } = file;
        match backend {
            Backend::Ring(ring) => match Rc::try_unwrap(ring) {
                Ok(last) => last.close().await.map_err(|error| told(&error, DiskOp::Close, &path)),
                Err(_others) => Ok(()),
            },
            // close(2) may write back on some file systems, so it does not belong on a core.
            Backend::Thread { file, .. } | Backend::Cached { file, .. } => {
                let Some(last) = Arc::into_inner(file) else { return Ok(()) };
                let close = move || {
                    drop(last);
                    Ok(())
                };
                job(&self.pool, DiskOp::Close, &path, close).await
            }
        }
    }

    async fn run<T, J>(&self, job: J) -> Result<T, DiskError>
    where
        T: Send + 'static,
        J: FnOnce() -> T + Send + 'static,
    {
        let result = self.pool.run(job).await;
        result.map_err(|error| stopped(&error, DiskOp::Run, Path::new("")))
    }

    fn widened(&self, threads: usize) -> UringDisk {
        match self.pool.widened("stop", threads) {
            Ok(pool) => UringDisk { pool, ..self.clone() },
            Err(_) => self.clone(),
        }
    }

    fn background(&self) -> UringDisk {
        match self.pool.background("background") {
            Ok(pool) => UringDisk { pool, ..self.clone() },
            Err(_) => self.clone(),
        }
    }

    fn blocking(&self) -> FileDisk {
        FileDisk
    }
}

/// An open file of a [`UringDisk`]. The last clone that is dropped closes it in the background;
/// [`CoreDisk::close`] waits for that and tells its error.
#[derive(Clone)]
pub struct UringFile {
    backend: Backend,
    path: Rc<Path>,
}

#[derive(Clone)]
enum Backend {
    Ring(Rc<DmaFile>),
    Thread { file: Arc<RealFile>, thread: Pool },
    Cached { file: Arc<RealFile>, durable: bool },
}

/// Block-aligned memory for one write. Content is undefined at first.
pub struct UringBuf(Memory);

enum Memory {
    Ring(HeapBuf),
    Plain(AlignedBuf),
}

impl AsRef<[u8]> for UringBuf {
    fn as_ref(&self) -> &[u8] {
        match &self.0 {
            Memory::Ring(buf) => buf.bytes(),
            Memory::Plain(buf) => buf.as_ref(),
        }
    }
}

impl AsMut<[u8]> for UringBuf {
    fn as_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Memory::Ring(buf) => buf.0.as_bytes_mut(),
            Memory::Plain(buf) => buf.as_mut(),
        }
    }
}

/// The executor's buffer from the global heap, not from the memory registered with a ring: fit for
/// the ring and for any thread.
struct HeapBuf(DmaBuffer);

impl HeapBuf {
    fn new(len: usize) -> HeapBuf {
        HeapBuf(glommio::allocate_dma_buffer_global(len))
    }

    fn bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

// SAFETY: made only by `allocate_dma_buffer_global`, whose buffers own a block of the global heap
// and nothing else: no reference to an executor or its rings. Such memory may be read, written and
// freed by any one thread at a time, and the field is private, so no other kind gets in.
#[expect(unsafe_code, reason = "a raw pointer hides that the memory is owned")]
unsafe impl Send for HeapBuf {}

fn open_how(how: DirectHow) -> OpenHow {
    if how.create { OpenHow::CREATE } else { OpenHow::WRITE }
}

async fn job<T, J>(pool: &Pool, op: DiskOp, path: &Path, job: J) -> Result<T, DiskError>
where
    T: Send + 'static,
    J: FnOnce() -> Result<T, DiskError> + Send + 'static,
{
    pool.run(job).await.unwrap_or_else(|error| Err(stopped(&error, op, path)))
}

/// Writes all of `buf`. The kernel may take a part only (a disk that is just getting full); the
/// rest is written again from a block boundary, and then the cause shows as an error.
async fn write_ring(
    file: &Rc<DmaFile>,
    buf: DmaBuffer,
    at: FilePosition,
    path: &Path,
) -> Result<(), DiskError> {
    let mut buf = Rc::new(buf);
    let mut at = at;
    loop {
        let written = file.write_rc_at(buf.clone(), at.get()).await;
        let written = written.map_err(|error| told(&error, DiskOp::Write, path))?;
        let asked = buf.len();
        assert!(written <= asked, "wrote {written} bytes of {asked}");
        if written == asked {
            return Ok(());
        }
        let kept = written - written % BLOCK_BYTES;
        if kept == 0 {
            return Err(DiskError::new(DiskErrorKind::Full, DiskOp::Write, path));
        }
        let mut rest = glommio::allocate_dma_buffer_global(asked - kept);
        rest.as_bytes_mut().copy_from_slice(&buf.as_bytes()[kept..]);
        buf = Rc::new(rest);
        at = at.add_len(kept);
    }
}

/// The executor's error as ours: by its errno, which `DiskErrorKind::from_errno` knows.
fn told(error: &GlommioError<()>, op: DiskOp, path: &Path) -> DiskError {
    match error {
        GlommioError::IoError(source) | GlommioError::EnhancedIoError { source, .. } => {
            DiskError::from_io(source, op, path)
        }
        GlommioError::ExecutorError(_)
        | GlommioError::BuilderError(_)
        | GlommioError::Closed(_)
        | GlommioError::CanNotBeClosed(..)
        | GlommioError::WouldBlock(_)
        | GlommioError::ReactorError(_)
        | GlommioError::TimedOut(_) => DiskError::new(DiskErrorKind::Io(0), op, path),
    }
}

fn stopped(error: &JobError, op: DiskOp, path: &Path) -> DiskError {
    if let JobError::Panicked(reason) = error {
        crate::runtime::log::error("disk", "a job of the helper pool panicked")
            .field("path", path.display())
            .field("reason", reason)
            .emit();
    }
    DiskError::new(DiskErrorKind::Stopped, op, path)
}

#[cfg(test)]
#[path = "disk_uring_tests.rs"]
mod tests;
