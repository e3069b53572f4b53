//! SCRAM, the server's side: RFC 5802 with the hashes of RFC 7677, without channel binding.

pub mod credential;
pub mod exchange;
mod hash;
pub mod message;
pub mod spec;
pub mod users;

pub use hash::hash_bytes;

#[cfg(test)]
#[path = "scram/scram_tests.rs"]
mod tests;
