//! The disk of one core with the files it holds open: does what the plain shard has planned.

mod jobs;

use std::cell::RefCell;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use millstream_io::data_dir::Layout;
use millstream_io::disk::{CoreDisk, DirectHow, DiskError};
use millstream_io::journal::{RingLimits, files, ring};
use millstream_io::segment::SegmentFile;
use millstream_io::units::{JournalSeq, SegmentId, ShardId};

use crate::limits::WRITES_AT_ONCE;
use crate::partition_log::WritePlan;
use crate::remover::Removals;
use crate::segments::Piece;
use crate::shard::{DirectJob, DirectOutcome, FramePlan, Home, Made, Shard};
use crate::table::Slot;

/// The writing side of one core's disk. Clones share the open files. Lives on its core.
pub struct DiskShell<D: CoreDisk> {
    pub disk: D,
    pub shard: Shard,
    /// Who gives the space of large deleted files back.
    removals: Removals,
    journal_dir: PathBuf,
    ring_limits: RingLimits,
    journal: Rc<RefCell<Option<(JournalSeq, D::File)>>>,
    /// Segment files open for direct writes, longest unused first.
    segments: Rc<RefCell<Vec<OpenFile<D::File>>>>,
}

struct OpenFile<F> {
    slot: Slot,
    segment: SegmentId,
    file: F,
}

impl<D: CoreDisk> Clone for DiskShell<D> {
    fn clone(&self) -> DiskShell<D> {
        DiskShell {
            disk: self.disk.clone(),
            shard: self.shard.clone(),
            removals: self.removals.clone(),
            journal_dir: self.journal_dir.clone(),
            ring_limits: self.ring_limits,
            journal: self.journal.clone(),
            segments: self.segments.clone(),
        }
    }
}

impl<D: CoreDisk> DiskShell<D> {
    pub fn new(
        disk: D,
        shard: Shard,
        (layout, id): (&Layout, ShardId),
        ring_limits: RingLimits,
        removals: Removals,
    ) -> Self {
        DiskShell {
            disk,
            shard,
            removals,
            journal_dir: layout.journal(id),
            ring_limits,
            journal: Rc::default(),
            segments: Rc::default(),
        }
    }

    /// The same files and the same shard, with helper threads of its own.
    pub fn widened(&self, threads: usize) -> DiskShell<D> {
        DiskShell { disk: self.disk.widened(threads), ..self.clone() }
    }

    pub fn ring_limits(&self) -> RingLimits {
        self.ring_limits
    }

    /// Writes the large runs of a round to their segments and syncs them, all at once.
    pub async fn write_directs(&self, jobs: Vec<DirectJob>) -> Vec<DirectOutcome> {
        let one = |job: DirectJob| async move {
            let (made, result) = self.write_plan(job.slot, &job.home, &job.plan).await;
            DirectOutcome { job, made, result }
        };
        all(jobs.into_iter().map(one).collect()).await
    }

    /// Encodes a frame and writes it to its place in the journal, durably.
    pub async fn write_frame(&self, plan: &FramePlan) -> Result<(), DiskError> {
        let file = self.journal_file(plan.place).await?;
        let ring::Slot { at, bytes, blank, .. } = plan.place;
        if blank > 0 {
            // Before the frame, so that one of which the zeros found no space is not there at all.
            let mut zeros = self.disk.alloc(blank);
            zeros.as_mut().fill(0);
            self.disk.write_at(&file, zeros, at.add_len(bytes)).await?;
        }
        let mut frame = self.disk.alloc(bytes);
        self.shard.with(|shard| shard.encode_frame(plan, frame.as_mut()));
        // The file is not the last clone: the shell keeps it until it moves on.
        self.disk.write_at(&file, frame, at).await
    }

    /// Makes the files of a plan, writes its pieces and syncs. Also says what became of the files.
    pub async fn write_plan(
        &self,
        slot: Slot,
        home: &Home,
        plan: &WritePlan,
    ) -> (Made, Result<(), DiskError>) {
        let needs_home = home.manifest.is_some() || !plan.make.is_empty();
        if needs_home && let Err(error) = self.make_files(home, &plan.make).await {
            return (Made::Perhaps, Err(error));
        }
        let made = if needs_home { Made::Durably } else { Made::Nothing };
        for group in plan.pieces.chunks(WRITES_AT_ONCE) {
            let writes = group.iter().map(|piece| self.write_piece(slot, home, *piece));
            for result in all(writes.collect()).await {
                if let Err(error) = result {
                    return (made, Err(error));
                }
            }
        }
        let syncs = plan.sync.iter().map(|segment| self.sync_segment(slot, home, *segment));
        let synced = all(syncs.collect()).await.into_iter().collect();
        (made, synced)
    }

    /// Closes the open file of a segment that does not change any more.
    pub async fn close_segment(&self, slot: Slot, segment: SegmentId) {
        let found = {
            let mut open = self.segments.borrow_mut();
            let found = open.iter().position(|f| f.slot == slot && f.segment == segment);
            found.map(|i| open.remove(i).file)
        };
        if let Some(file) = found {
            let _ = self.disk.close(file).await;
        }
    }

    /// Closes the files of partitions that were dropped: an open file keeps its space on the disk
    /// after its name is gone.
    pub async fn close_gone(&self) {
        loop {
            let gone = self.shard.with(|shard| {
                let mut open = self.segments.borrow_mut();
                let gone = open.iter().position(|f| shard.partitions.get(f.slot).is_none());
                gone.map(|index| open.remove(index).file)
            });
            let Some(file) = gone else { return };
            // Nothing of a dropped partition matters any more.
            let _ = self.disk.close(file).await;
        }
    }

    /// Closes everything.
    pub async fn close_all(&self) {
        let journal = self.journal.borrow_mut().take();
        let segments = self.segments.take();
        for file in segments.into_iter().map(|open| open.file).chain(journal.map(|(_, file)| file))
        {
            // What mattered was synced before.
            let _ = self.disk.close(file).await;
        }
    }

    async fn write_piece(&self, slot: Slot, home: &Home, piece: Piece) -> Result<(), DiskError> {
        let file = self.segment_file(slot, home, piece.segment).await?;
        let gather = self.shard.with_mut(|shard| shard.gather(slot, piece));
        let Some(gather) = gather else { panic!("{}: dropped while it is written", home.at) };
        let result = self.disk.write_gathered(&file, gather, piece.position).await;
        let _ = self.disk.close(file).await;
        result
    }

    async fn sync_segment(
        &self,
        slot: Slot,
        home: &Home,
        segment: SegmentId,
    ) -> Result<(), DiskError> {
        let file = self.segment_file(slot, home, segment).await?;
        let result = self.disk.sync(&file).await;
        let _ = self.disk.close(file).await;
        result
    }

    /// The journal file of a place: the open one, or the next.
    async fn journal_file(&self, place: ring::Slot) -> Result<D::File, DiskError> {
        let seq = place.id.seq;
        let open = self.journal.borrow().as_ref().map(|(seq, file)| (*seq, file.clone()));
        if let Some((open, file)) = open {
            if open == seq {
                return Ok(file);
            }
            let old = self.journal.borrow_mut().take();
            drop(file);
            if let Some((_, old)) = old {
                let _ = self.disk.close(old).await;
            }
        }
        let path = files::path(&self.journal_dir, seq);
        let how = DirectHow { create: false, durable: true };
        let file = self.disk.open_direct(&path, how).await?;
        *self.journal.borrow_mut() = Some((seq, file.clone()));
        Ok(file)
    }

    /// A segment's file, open for direct writes. Bounded: the longest unused one is closed.
    async fn segment_file(
        &self,
        slot: Slot,
        home: &Home,
        segment: SegmentId,
    ) -> Result<D::File, DiskError> {
        if let Some(file) = self.find_open(slot, segment) {
            return Ok(file);
        }
        let path = segment.path(&home.dir, SegmentFile::Log);
        let how = DirectHow { create: false, durable: false };
        let file = self.disk.open_direct(&path, how).await?;
        if let Some(other) = self.find_open(slot, segment) {
            // Another write of the same plan was quicker.
            let _ = self.disk.close(file).await;
            return Ok(other);
        }
        let mut closed = None;
        let files_max = self.shard.with(|shard| shard.limits.direct_files_max);
        {
            let mut open = self.segments.borrow_mut();
            if open.len() >= files_max {
                closed = Some(open.remove(0).file);
            }
            open.push(OpenFile { slot, segment, file: file.clone() });
        }
        if let Some(closed) = closed {
            let _ = self.disk.close(closed).await;
        }
        Ok(file)
    }

    fn find_open(&self, slot: Slot, segment: SegmentId) -> Option<D::File> {
        let mut open = self.segments.borrow_mut();
        let i = open.iter().position(|f| f.slot == slot && f.segment == segment)?;
        let found = open.remove(i);
        let file = found.file.clone();
        open.push(found);
        Some(file)
    }
}

/// Awaits all of some futures at once, within one task; answers in their order.
pub(crate) async fn all<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    All { futures: futures.into_iter().map(|future| Slotted::Waiting(Box::pin(future))).collect() }
        .await
}

struct All<F: Future> {
    futures: Vec<Slotted<F>>,
}

enum Slotted<F: Future> {
    Waiting(Pin<Box<F>>),
    Done(F::Output),
    Taken,
}

// The futures are boxed, so moving `All` moves none of them.
impl<F: Future> Unpin for All<F> {}

impl<F: Future> Future for All<F> {
    type Output = Vec<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut waiting = false;
        for slotted in &mut self.futures {
            if let Slotted::Waiting(future) = slotted {
                match future.as_mut().poll(cx) {
                    Poll::Ready(output) => *slotted = Slotted::Done(output),
                    Poll::Pending => waiting = true,
                }
            }
        }
        if waiting {
            return Poll::Pending;
        }
        let take = |slotted: &mut Slotted<F>| match std::mem::replace(slotted, Slotted::Taken) {
            Slotted::Done(output) => Some(output),
            Slotted::Waiting(_) | Slotted::Taken => None,
        };
        Poll::Ready(self.futures.iter_mut().filter_map(take).collect())
    }
}
