//! What one core of a Millstream broker owns: its partitions, their commit rounds, their reads,
//! and the mesh that joins the cores.
//!
//! What decides is a plain struct without async, clock or runtime; the `*_task` shells await.

/// Which leader epoch wrote which part of a log.
pub mod leader_epochs;

/// Every bound of this floor in one place.
pub mod limits;

/// What crosses the boundary to append and to read.
pub mod message;

/// Which core owns a partition.
pub mod placement;

/// What a partition remembers of each idempotent producer.
pub mod producers;

/// Questions that move no records.
pub mod query;

/// The way into the shards from a core.
pub mod router;

/// The five offsets of a partition and the setter that keeps them in order.
pub mod watermarks;
