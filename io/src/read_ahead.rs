//! Reading a file front to back through one buffer.

use crate::disk::{DiskError, DiskFile};
use crate::limits::SCAN_CHUNK_BYTES;
use crate::units::{FilePosition, bytes_u64, bytes_usize};

/// A window over a file that grows only as far as somebody asks and the file goes.
pub(crate) struct ReadAhead<'f, F: DiskFile> {
    file: &'f F,
    end: FilePosition,
    bytes: Vec<u8>,
    at: FilePosition,
}

impl<'f, F: DiskFile> ReadAhead<'f, F> {
    /// Over the bytes of `file` in front of `end`.
    pub(crate) fn new(file: &'f F, end: FilePosition) -> ReadAhead<'f, F> {
        ReadAhead { file, end, bytes: Vec::new(), at: FilePosition::ZERO }
    }

    pub(crate) fn end(&self) -> FilePosition {
        self.end
    }

    /// The bytes from `at` on: at least `need`, fewer only when the file ends before.
    pub(crate) fn get(&mut self, at: FilePosition, need: usize) -> Result<&[u8], DiskError> {
        let have = self.at.add_len(self.bytes.len());
        let inside = at >= self.at && at <= have;
        let enough = inside && (at.add_len(need) <= have || have >= self.end);
        if !enough {
            let want = bytes_u64(need.max(SCAN_CHUNK_BYTES));
            let left = self.end.get().saturating_sub(at.get());
            self.bytes.resize(bytes_usize(left.min(want)), 0);
            let got = self.file.read_at(&mut self.bytes, at)?;
            self.bytes.truncate(got);
            self.at = at;
        }
        Ok(&self.bytes[bytes_usize(at.since(self.at))..])
    }
}
