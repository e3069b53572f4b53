//! Load generator and micro-benchmarks of the Millstream broker.
//!
//! `run` drives workloads of any shape, open loop, against any broker that speaks the protocol;
//! `compare` sets two of its results beside each other. `figures` measures a broker that it starts itself; each figure is a ratio within one run or CPU
//! time per message, because absolute times do not carry over from machine to machine. `groups`
//! commits offsets for many consumer groups. `soak`
//! keeps every path busy for minutes and checks each record. `null` is a server that does no work, which shows
//! what the client itself can do. `micro` asks small questions of single functions. `bench/README.md` is the manual.
//!
//! The client is one thread with one epoll set ([`client::Driver`]): it sends prebuilt batches, and
//! it checks what it reads back (offsets, counts, checksums) with code of its own ([`batch`]), not
//! with the broker's.

/// A heap that counts.
pub mod allocations;
/// Builds version 2 record batches and reads them back with suspicion.
pub mod batch;
/// Connections, requests and checks: what all loads share.
pub mod client;
/// The table of figures and how each is measured.
pub mod figures;
/// Logs that are there before the measurement.
pub mod fill;
/// Commits of many consumer groups, and their coordinator's return.
pub mod groups;
/// Facts about this machine that a result needs beside it.
pub mod host;
/// The return of many transactional ids.
pub mod ids;
/// What rolling, deletion and compaction do to the latency of writers.
pub mod life;
/// What the machine gives, and how much of it the broker passes on.
pub mod limits;
/// Closed loops of Produce and Fetch.
pub mod load;
/// Questions to single functions.
pub mod micro;
/// A server that answers and does nothing.
pub mod null;
/// Words of the command line.
pub mod options;
/// Broker processes: start, watch, stop.
pub mod process;
/// Results: table, JSON, page, ratios.
pub mod report;
/// One workload, open loop, every batch checked.
pub mod run;
/// Minutes of everything at once, each record checked.
pub mod soak;
/// A load at a constant rate, whose latency is measured.
pub mod steady;
/// Workloads by file and by name.
pub mod workload;
