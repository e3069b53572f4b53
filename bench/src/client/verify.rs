//! What comes back must be what was sent: every batch known by its checksum, no offset missing.

use std::collections::HashMap;

use anyhow::{Result, ensure};

use crate::batch::{Batch, Depth, walk_to};

/// Which batches may come back.
#[derive(Clone, Debug, Default)]
pub struct Expect {
    /// Checksum -> records of the batch.
    known: HashMap<u32, u32>,
}

impl Expect {
    pub fn add(&mut self, batch: &Batch) {
        self.known.insert(batch.crc, batch.records);
    }
}

/// Reads of one partition, checked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Verifier {
    /// Offset to fetch next.
    pub next: i64,
    pub records: u64,
    pub bytes: u64,
}

impl Verifier {
    pub fn from(next: i64) -> Verifier {
        Verifier { next, ..Verifier::default() }
    }

    /// Checks the records of one answer, looking at so much of each batch; returns how many records
    /// it held.
    pub fn accept(&mut self, expect: &Expect, depth: Depth, records: &[u8]) -> Result<u64> {
        let mut count = 0;
        self.next = walk_to(depth, records, self.next, |seen| {
            ensure!(
                expect.known.get(&seen.crc) == Some(&seen.records),
                "the batch at offset {} (CRC {:08x}, {} records) was never sent",
                seen.base_offset,
                seen.crc,
                seen.records
            );
            count += u64::from(seen.records);
            Ok(())
        })?;
        self.records += count;
        self.bytes += records.len() as u64;
        Ok(count)
    }
}
