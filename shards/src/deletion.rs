//! What crosses the boundary of a shard to delete the oldest records of a log (the DeleteRecords
//! API).

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use millstream_io::disk::DiskErrorKind;
use millstream_io::units::{Offset, TopicPartition};

/// One partition to delete records from. The answer is the log start.
#[derive(Clone, Copy, Debug)]
pub struct Deletion {
    pub at: TopicPartition,
    pub before: DeleteBefore,
}

/// The first offset that stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeleteBefore {
    /// This one. At or below the log start it changes nothing.
    Offset(Offset),
    /// The HighWatermark at the time when the owner reads this: all that readers can see is deleted.
    HighWatermark,
}

/// Why records were not deleted. The log start is as it was, except under [`DeleteError::Storage`],
/// [`DeleteError::TimedOut`] and [`DeleteError::Stopping`]: it may rise yet, or at the next start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeleteError {
    UnknownPartition {
        at: TopicPartition,
    },
    /// Behind the HighWatermark.
    OutOfRange {
        at: TopicPartition,
        got: Offset,
        log_start: Offset,
        high_watermark: Offset,
    },
    /// The data directory failed a write or a sync; it takes no more until the broker is restarted.
    Storage {
        directory: Arc<PathBuf>,
        cause: DiskErrorKind,
    },
    /// There is no space, no descriptor or no memory for the small file that must be written.
    NoRoom {
        directory: Arc<PathBuf>,
        cause: DiskErrorKind,
    },
    /// So many deletions wait for the disk that this one was not taken.
    TooManyWaiting {
        limit: usize,
    },
    /// The disk was not done with it in the asker's time.
    TimedOut,
    /// This core is stopping.
    Stopping,
}

impl fmt::Display for DeleteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeleteError::UnknownPartition { at } => {
                write!(f, "partition {at} is not known here; refresh the metadata")
            }
            DeleteError::OutOfRange { at, got, log_start, high_watermark } => write!(
                f,
                "records of {at} cannot be deleted up to offset {got}: it holds {log_start} up to {high_watermark}"
            ),
            DeleteError::Storage { directory, cause } => write!(
                f,
                "data directory {} takes no writes until it is repaired and the broker is restarted: {cause}",
                directory.display()
            ),
            DeleteError::NoRoom { directory, cause } => write!(
                f,
                "the new log start cannot be written down in {}: {cause}; free space and retry",
                directory.display()
            ),
            DeleteError::TooManyWaiting { limit } => {
                write!(f, "{limit} deletions wait for the disk of this core already; retry")
            }
            DeleteError::TimedOut => {
                f.write_str("the new log start was not durable in time; ask where the log starts")
            }
            DeleteError::Stopping => {
                f.write_str("the broker is stopping; retry elsewhere or later")
            }
        }
    }
}

impl std::error::Error for DeleteError {}
