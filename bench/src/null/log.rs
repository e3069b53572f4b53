//! A partition in memory: its last batches, and what transactions did to it.

use std::collections::VecDeque;

use anyhow::{Result, ensure};
use millstream::wire::messages::fetch::AbortedTransaction;

/// Bytes kept of a partition; older batches are forgotten.
const KEPT_BYTES: usize = 8 << 20;

/// See the module.
#[derive(Clone, Default)]
pub struct Log {
    end: i64,
    batches: VecDeque<(i64, Vec<u8>)>,
    bytes: usize,
    /// The first batch: what is read where everything is forgotten, as often as asked for.
    first: Vec<u8>,
    /// Producer -> first offset of its open transaction.
    open: Vec<(i64, i64)>,
    /// Producer, first offset and marker of aborted transactions.
    aborted: Vec<(i64, i64, i64)>,
}

impl Log {
    /// Offset of the next record.
    pub fn end(&self) -> i64 {
        self.end
    }

    /// The LastStableOffset.
    pub fn stable(&self) -> i64 {
        self.open.iter().map(|(_, first)| *first).min().unwrap_or(self.end)
    }

    /// Stores a batch under the next offset.
    pub fn append(&mut self, batch: &[u8]) -> Result<()> {
        ensure!(batch.len() >= 61, "no batch");
        if batch[22] & 0x10 != 0 {
            let producer = long(batch, 43);
            if !self.open.iter().any(|(open, _)| *open == producer) {
                self.open.push((producer, self.end));
            }
        }
        self.store(batch.to_vec());
        Ok(())
    }

    fn store(&mut self, mut batch: Vec<u8>) {
        batch[..8].copy_from_slice(&self.end.to_be_bytes());
        if self.first.is_empty() {
            self.first.clone_from(&batch);
        }
        let base = self.end;
        self.end += i64::from(count(&batch));
        self.bytes += batch.len();
        self.batches.push_back((base, batch));
        while self.bytes > KEPT_BYTES && self.batches.len() > 1 {
            self.bytes -= self.batches.pop_front().map_or(0, |(_, bytes)| bytes.len());
        }
    }

    /// Batches from `offset` on, at least one if there is one, as fits into `room`.
    pub fn read(&self, offset: i64, room: usize, committed: bool) -> Vec<u8> {
        let end = if committed { self.stable() } else { self.end };
        let mut out = Vec::new();
        let kept = self.batches.front().map_or(self.end, |(base, _)| *base);
        let mut forgotten = offset;
        while forgotten < kept && (out.is_empty() || out.len() + self.first.len() <= room) {
            let at = out.len();
            out.extend_from_slice(&self.first);
            out[at..at + 8].copy_from_slice(&forgotten.to_be_bytes());
            forgotten += i64::from(count(&self.first));
        }
        if !out.is_empty() {
            return out;
        }
        let from =
            self.batches.partition_point(|(base, bytes)| base + i64::from(count(bytes)) <= offset);
        for (base, bytes) in self.batches.range(from..) {
            if *base >= end || (!out.is_empty() && out.len() + bytes.len() > room) {
                break;
            }
            out.extend_from_slice(bytes);
        }
        out
    }

    /// Aborted transactions with records from `offset` on.
    pub fn aborted(&self, offset: i64) -> Vec<AbortedTransaction> {
        let ahead = self.aborted.iter().filter(|(_, _, marker)| *marker >= offset);
        ahead
            .map(|(producer_id, first_offset, _)| AbortedTransaction {
                producer_id: *producer_id,
                first_offset: *first_offset,
            })
            .collect()
    }

    /// Writes the marker of a producer whose transaction is open here.
    pub fn end_transaction(&mut self, producer: i64, committed: bool) -> Result<()> {
        let Some(at) = self.open.iter().position(|(open, _)| *open == producer) else {
            return Ok(());
        };
        let (_, first) = self.open.remove(at);
        if !committed {
            self.aborted.push((producer, first, self.end));
        }
        let mut marker = vec![0; 61];
        marker.extend_from_slice(&[
            0x20,
            0,
            0,
            0,
            8,
            0,
            0,
            0,
            u8::from(committed),
            12,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
        ]);
        let length = i32::try_from(marker.len() - 12)?;
        marker[8..12].copy_from_slice(&length.to_be_bytes());
        marker[16] = 2;
        marker[22] = 0x30;
        marker[43..51].copy_from_slice(&producer.to_be_bytes());
        marker[57..61].copy_from_slice(&1i32.to_be_bytes());
        let crc = crc32c::crc32c(&marker[21..]);
        marker[17..21].copy_from_slice(&crc.to_be_bytes());
        self.store(marker);
        Ok(())
    }
}

fn count(batch: &[u8]) -> i32 {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&batch[57..61]);
    i32::from_be_bytes(bytes)
}

fn long(batch: &[u8], at: usize) -> i64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&batch[at..at + 8]);
    i64::from_be_bytes(bytes)
}
