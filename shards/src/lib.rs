//! What one core of a Millstream broker owns: its partitions, their commit rounds, their reads,
//! and the mesh that joins the cores.
//!
//! What decides is a plain struct without async, clock or runtime; the `*_task` shells await.

/// The aborted transactions of a partition.
pub mod aborted;

/// The write verb: one checked batch into its partition's log.
pub mod append;

/// Which bytes of an open segment file were checked.
mod checked;

/// The task that compacts.
pub mod clean_task;

/// Compaction: what stays of a log, and how it is written anew.
pub mod cleaning;

/// Looking into a segment file for a reader.
pub mod cold;

/// The task that commits.
pub mod commit_task;

/// Where sequential readers of a partition will go on.
pub mod cursors;

/// One flush for all that was staged since the last.
pub mod group_commit;

/// Deletions of one shard for one request.
pub mod delete_task;

/// What crosses the boundary to delete records.
pub mod deletion;

/// The writing side of one core's disk.
pub mod disk_shell;

/// Telling the tasks of a core that something changed.
pub mod event;

/// Whether a data directory may be written to.
pub mod health;

/// The tasks behind the journal.
pub mod housekeeping_task;

/// The largest timestamp of a partition's readable records.
pub mod latest;

/// Which leader epoch wrote which part of a log.
pub mod leader_epochs;

/// Every bound of this floor in one place.
pub mod limits;

/// What cores say to each other.
pub mod mesh;

/// What crosses the boundary to append and to read.
pub mod message;

/// What one core counts.
pub mod metrics;

/// One partition as its owner holds it.
pub mod partition_log;

/// Which core owns a partition.
pub mod placement;

/// Positions in a log across its segments.
pub mod position;

/// What a partition remembers of each idempotent producer.
pub mod producers;

/// Questions that move no records.
pub mod query;

/// Offsets of one shard by position or by time.
pub mod query_task;

/// The read verb: what to send for one partition.
pub mod read;

/// Reads of one shard for one request.
pub mod read_task;

/// From a data directory as a crash left it to partitions that can be opened.
pub mod recover;

/// By which time records grow old.
pub mod retention;

/// Retention of one shard, in the background.
pub mod retention_task;

/// The thread that gives the space of deleted files back.
pub mod remover;

/// The way into the shards from a core.
pub mod router;

/// What one core owns.
pub mod shard;

/// The partitions of a shard, by slot and by id.
pub mod table;

/// Starting the shards on their cores, and stopping them in order.
pub mod runtime;

/// Finding the batch of a timestamp.
pub mod seek;

/// The segments of a partition and how far their files are.
pub mod segments;

/// The newest bytes of a partition, in memory.
pub mod tail_cache;

/// The five offsets of a partition and the setter that keeps them in order.
pub mod watermarks;

/// Long polls: who waits for which partition.
pub mod waiters;
