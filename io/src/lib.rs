//! Ground floor of Millstream: units, record batches, files, disks, clocks.
//!
//! This floor imports no other. Everything in it that decides is a plain struct without async,
//! clock or runtime; what touches a device goes through the traits of [`disk`], so that the
//! simulator can stand in for the kernel. The file formats are drawn byte by byte in
//! `io/README.md`.

/// Newtypes for every number that crosses a function, and all conversions between them.
pub mod units;

/// Every bound of this floor in one place, with the relations between them proved at compile time.
pub mod limits;

/// The version 2 record batch: header view, the checks at the door, and the stamps of the owner.
pub mod batch;
pub mod batch_stream;

/// A look inside a record batch, with bounded memory whatever the bytes say.
pub mod records;

/// The commit journal of one core: one durable write for all its partitions.
pub mod journal;

/// From the files that a crash left to the log that was acknowledged.
pub mod recovery;

/// What stands in a file of a data directory, and whether a whole one is sound.
pub mod inspect;

/// Entry points for fuzzers: bytes in, no panic and no broken promise out.
pub mod fuzz;

/// The state files of one partition directory.
pub mod partition_state;

/// The data directory: its owner, its format, and where everything stands in it.
pub mod data_dir;

/// When a data directory was last written to.
pub mod last_written;

/// Space kept for the small writes of a full disk.
pub mod removal;
pub mod reserve;

/// Names of segments and their files, and what a partition directory holds.
pub mod segment;

/// Walking a segment by its batch headers.
pub mod segment_reader;

/// Small state files: versioned, checked, replaced in one step.
pub mod checkpoint;

/// The end of every index file, which ties it to its segment.
pub mod index_footer;

/// Both indexes of a segment, in memory and in their files.
pub mod indexes;

/// Giving a complete segment its exact length.
pub mod sealing;

/// From an offset to a place in a segment.
pub mod sparse_index;

/// From a timestamp to an offset in a segment.
pub mod time_index;

/// Block-aligned memory for direct transfers of the blocking disks.
pub mod aligned;
pub mod gather;

/// The traits over a disk (blocking and per core) and the typed error they answer with.
pub mod disk;

/// The real disk for threads that may block.
pub mod disk_file;

/// A simulated disk that loses, tears, refuses and runs full on order.
pub mod disk_sim;

/// Wall time and monotonic time behind one trait, so that a test can own both.
pub mod clock;

/// Pinned executors, messages between cores, helper threads, ordered stop, the host's probe.
pub mod runtime;

/// Sockets of the cores: listeners, connections, file ranges sent without copying.
pub mod net;

/// The real disk of one core: direct writes by its own threads, other blocking work on the helper pool.
pub mod disk_uring;

mod read_ahead;
