//! The built broker, as a process, against raw sockets.

#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test may fail and wait")]

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
#[path = "broker/sockets.rs"]
mod sockets;
#[path = "broker/start.rs"]
mod start;
#[path = "broker/support.rs"]
mod support;
#[path = "broker/topics.rs"]
mod topics;
