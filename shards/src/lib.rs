//! What one core of a Millstream broker owns: its partitions, their commit rounds, their reads,
//! and the mesh that joins the cores.
//!
//! What decides is a plain struct without async, clock or runtime; the `*_task` shells await.

/// The aborted transactions of a partition.
pub mod aborted;

/// The write verb: one checked batch into its partition's log.
pub mod append;

/// Where sequential readers of a partition will go on.
pub mod cursors;

/// One flush for all that was staged since the last.
pub mod group_commit;

/// Which journal files are still needed.
pub mod journal_ledger;

/// Which leader epoch wrote which part of a log.
pub mod leader_epochs;

/// Every bound of this floor in one place.
pub mod limits;

/// What crosses the boundary to append and to read.
pub mod message;

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

/// The read verb: what to send for one partition.
pub mod read;

/// The way into the shards from a core.
pub mod router;

/// The partitions of a shard, by slot and by id.
pub mod table;

/// The segments of a partition and how far their files are.
pub mod segments;

/// The newest bytes of a partition, in memory.
pub mod tail_cache;

/// The five offsets of a partition and the setter that keeps them in order.
pub mod watermarks;

/// Long polls: who waits for which partition.
pub mod waiters;
