//! Sockets of the cores: listeners, connections, and file ranges sent without copying.

pub mod residency;
#[cfg(test)]
pub(crate) mod testing;
