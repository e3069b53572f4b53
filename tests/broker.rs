//! The built broker, as a process, against raw sockets.

#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test may fail and wait")]

#[path = "broker/acls.rs"]
mod acls;
#[path = "broker/admin.rs"]
mod admin;
#[path = "broker/admin_coordinators.rs"]
mod admin_coordinators;
#[path = "broker/admin_hostile.rs"]
mod admin_hostile;
#[path = "broker/compaction.rs"]
mod compaction;
#[path = "broker/compression.rs"]
mod compression;
#[path = "broker/config.rs"]
mod config;
#[path = "broker/data.rs"]
mod data;
#[path = "broker/deletions.rs"]
mod deletions;
#[path = "broker/fetching.rs"]
mod fetching;
#[path = "broker/groups.rs"]
mod groups;
#[path = "broker/logins.rs"]
mod logins;
#[path = "broker/scrape.rs"]
mod scrape;
#[path = "broker/sockets.rs"]
mod sockets;
#[path = "broker/start.rs"]
mod start;
#[path = "broker/support.rs"]
mod support;
#[path = "broker/topics.rs"]
mod topics;
#[path = "broker/transactional_offsets.rs"]
mod transactional_offsets;
#[path = "broker/transactions.rs"]
mod transactions;
