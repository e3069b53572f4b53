//! When the log of a partition is worth being said again in fewer records.

use super::limits::COMPACT_BYTES_MIN;
use millstream_io::batch::NewRecord;
use millstream_io::units::bytes_u64;

/// How much the log of one partition has grown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogSize {
    /// Bytes of records since the log was last compacted, or of the whole log at its loading.
    grown: u64,
    /// Bytes that the compacted log began with.
    live: u64,
}

impl LogSize {
    /// Of a log that was read.
    pub fn loaded(bytes: u64) -> LogSize {
        LogSize { grown: bytes, live: 0 }
    }

    pub fn appended(&mut self, records: &[NewRecord]) {
        self.grown += bytes(records);
    }

    /// That many bytes besides: markers of transactions.
    pub fn marked(&mut self, bytes: usize) {
        self.grown += bytes_u64(bytes);
    }

    /// Records of a compaction were appended; the `first` ones begin it.
    pub fn compacted(&mut self, records: &[NewRecord], first: bool) {
        if first {
            *self = LogSize::default();
        }
        self.live += bytes(records);
    }

    /// True when what was appended since is worth twice what would stay.
    pub fn is_compaction_due(&self) -> bool {
        self.grown > COMPACT_BYTES_MIN.max(2 * self.live)
    }
}

fn bytes(records: &[NewRecord]) -> u64 {
    records.iter().map(|record| bytes_u64(record.bytes_max())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(bytes: usize) -> Vec<NewRecord> {
        vec![NewRecord { key: None, value: Some(vec![0; bytes]) }]
    }

    #[test]
    fn log_is_compacted_when_it_has_grown_by_twice_what_stays() {
        let mib = 1 << 20;
        let mut log = LogSize::loaded(0);
        for _ in 0..15 {
            log.appended(&records(mib));
            assert!(!log.is_compaction_due());
        }
        log.appended(&records(2 * mib));
        assert!(log.is_compaction_due());
        log.compacted(&records(6 * mib), true);
        log.compacted(&records(6 * mib), false);
        log.appended(&records(23 * mib));
        assert!(!log.is_compaction_due(), "{log:?}");
        log.appended(&records(2 * mib));
        assert!(log.is_compaction_due());
        assert!(LogSize::loaded(1 << 30).is_compaction_due(), "what was read counts");
    }
}
