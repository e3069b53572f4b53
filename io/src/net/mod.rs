//! Sockets of the cores: listeners, connections, and file ranges sent without copying.

mod conn;
mod listener;
pub mod residency;
mod sendfile;
mod socket;
#[cfg(test)]
pub(crate) mod testing;

pub use conn::{Closer, Conn, ConnError, ConnOptions, More, ReadHalf, WriteHalf};
pub use listener::{BindError, Bound, Listener, bind};
pub use sendfile::{FileRange, SendFileError};
