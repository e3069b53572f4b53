//! The batches of one sealed segment, whole and checked, front to back.
//!
//! Blocking: for the helper pool. What it gives may be copied, since every CRC was seen.

use crate::batch::stored::{self, StoredError};
use crate::disk::DiskFile;
use crate::limits::BATCH_HEADER_BYTES;
use crate::segment_reader::{BatchPlace, WalkError, place_of};
use crate::units::{FilePosition, Offset, SegmentId, bytes_u64, bytes_usize};

/// What one step of a stream came to.
#[derive(Debug, PartialEq, Eq)]
pub enum Next<'s> {
    Batch(BatchPlace, &'s [u8]),
    /// So many bytes were read, and the next batch is not whole yet.
    Read(usize),
    End,
}

/// A stream over an open segment. Owns its file and one buffer, which grows to the largest batch met.
#[derive(Debug)]
pub struct BatchStream<F: DiskFile> {
    file: F,
    at: FilePosition,
    end: FilePosition,
    /// Base offset of the next batch; at least, where gaps may be.
    due: Offset,
    gaps: bool,
    window: Vec<u8>,
    window_at: FilePosition,
}

impl<F: DiskFile> BatchStream<F> {
    /// Over the first `end` bytes of `file`, the log of `segment`.
    pub fn new(file: F, segment: SegmentId, end: FilePosition) -> BatchStream<F> {
        file.read_only_what_is_asked();
        BatchStream {
            file,
            at: FilePosition::ZERO,
            end,
            due: segment.base,
            gaps: segment.cleaned.is_some(),
            window: Vec::new(),
            window_at: FilePosition::ZERO,
        }
    }

    /// The offset behind the last batch that was given.
    pub fn due(&self) -> Offset {
        self.due
    }

    /// The next batch, or some bytes of it: no call reads more than [`READ_BYTES`].
    ///
    /// # Errors
    /// [`WalkError`]: what stands there is not the batch that is due, or not as it was written. The
    /// stream does not move then.
    pub fn step(&mut self) -> Result<Next<'_>, WalkError> {
        if self.at >= self.end {
            return Ok(Next::End);
        }
        let at = self.at;
        let damaged = |error| WalkError::Damaged { at, error };
        if let Some(bytes) = self.read_for(BATCH_HEADER_BYTES)? {
            return Ok(Next::Read(bytes));
        }
        let (_, total) = stored::frame(self.bytes()).map_err(damaged)?;
        let left = self.end.since(at);
        if bytes_u64(total) > left {
            let got = bytes_usize(left);
            return Err(damaged(StoredError::Short { needed: total, got }));
        }
        if let Some(bytes) = self.read_for(total)? {
            return Ok(Next::Read(bytes));
        }
        let header = stored::whole(self.bytes()).map_err(damaged)?;
        let place = place_of(header, at, total).map_err(damaged)?;
        if place.base < self.due || (place.base > self.due && !self.gaps) {
            let (base_offset, expected) = (place.base, self.due);
            return Err(damaged(StoredError::Unexpected { base_offset, expected }));
        }
        self.at = place.end();
        self.due = place.next;
        let skip = bytes_usize(at.since(self.window_at));
        Ok(Next::Batch(place, &self.window[skip..skip + total]))
    }

    fn bytes(&self) -> &[u8] {
        &self.window[bytes_usize(self.at.since(self.window_at))..]
    }

    /// Reads on, if fewer than `need` bytes are there from the place it stands at; says how many it got.
    /// `None` when they are there, or when the file ends before.
    fn read_for(&mut self, need: usize) -> Result<Option<usize>, WalkError> {
        let held = self.window_at.add_len(self.window.len());
        if self.at.add_len(need).min(self.end) <= held {
            return Ok(None);
        }
        self.window.drain(..bytes_usize(self.at.since(self.window_at)));
        self.window_at = self.at;
        let have = self.window.len();
        let piece = READ_BYTES.min(bytes_usize(self.end.since(held)));
        self.window.resize(have + piece, 0);
        let read = self.file.read_at(&mut self.window[have..], held);
        let got = *read.as_ref().unwrap_or(&0);
        self.window.truncate(have + got);
        read.map_err(WalkError::Disk)?;
        Ok(Some(got).filter(|got| *got > 0))
    }
}

/// Size of one read: not so much that others wait for the device.
pub const READ_BYTES: usize = 128 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::testing::BatchBuilder;
    use crate::disk::{Disk, OpenHow};
    use crate::disk_sim::SimDisk;
    use crate::units::{Cleaned, LeaderEpoch};
    use std::path::Path;

    fn batch(base: i64, bytes: usize) -> Vec<u8> {
        BatchBuilder::of_values([vec![b'v'; bytes], Vec::new()]).at_offset(base, 0).build().to_vec()
    }

    fn stream(log: &[u8], cleaned: Option<Cleaned>) -> BatchStream<crate::disk_sim::SimFile> {
        let disk = SimDisk::new();
        disk.create_dir_all(Path::new("/p")).unwrap();
        let file = disk.open(Path::new("/p/log"), OpenHow::CREATE).unwrap();
        file.write_at(log, FilePosition::ZERO).unwrap();
        let id = SegmentId { cleaned, ..SegmentId::new(LeaderEpoch::ZERO, Offset::ZERO) };
        BatchStream::new(file, id, FilePosition::new(bytes_u64(log.len())))
    }

    /// The next batch, however many reads that takes.
    fn next(
        stream: &mut BatchStream<crate::disk_sim::SimFile>,
    ) -> Result<Option<(BatchPlace, Vec<u8>)>, WalkError> {
        loop {
            match stream.step()? {
                Next::Batch(place, bytes) => return Ok(Some((place, bytes.to_vec()))),
                Next::Read(bytes) => assert!((1..=READ_BYTES).contains(&bytes)),
                Next::End => return Ok(None),
            }
        }
    }

    #[test]
    fn every_batch_comes_once_and_whole_whatever_its_size() {
        let sizes = [1, READ_BYTES - 90, 5000, 3 * READ_BYTES, 2];
        let batches: Vec<Vec<u8>> =
            (0..).zip(sizes).map(|(i, bytes)| batch(i * 2, bytes)).collect();
        let mut stream = stream(&batches.concat(), None);
        for (i, due) in batches.iter().enumerate() {
            let (place, bytes) = next(&mut stream).unwrap().unwrap();
            assert_eq!((place.base.get(), &bytes == due), (2 * i as i64, true));
        }
        assert!(next(&mut stream).unwrap().is_none());
        assert_eq!(stream.due(), Offset::at(10));
    }

    #[test]
    fn damage_and_offsets_that_are_not_due_are_refused() {
        let mut flipped = batch(0, 100);
        flipped[80] ^= 1;
        let (gap, back) =
            ([batch(0, 9), batch(7, 9)].concat(), [batch(4, 9), batch(0, 9)].concat());
        let cut = &batch(0, 100)[..120];
        let cleaned = Some(Cleaned { generation: 1, next: Offset::at(9) });
        assert!(next(&mut stream(&flipped, None)).is_err());
        assert!(next(&mut stream(cut, None)).is_err());
        for (log, cleaned, well) in
            [(&gap, None, false), (&gap, cleaned, true), (&back, cleaned, false)]
        {
            let mut stream = stream(log, cleaned);
            assert!(next(&mut stream).is_ok());
            assert_eq!(next(&mut stream).is_ok(), well);
        }
    }
}
