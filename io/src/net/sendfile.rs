//! Sending a range of a file without copying it, and without letting the device or the peer hold
//! up the core.
//!
//! sendfile(2) blocks its thread on a page that is not in memory, so each piece is asked for
//! first (see `residency`) and fetched by the helper pool when it is absent. It does not tell when
//! the socket takes data again, and the executor has no way to wait for that alone; so on a full
//! socket the next few kilobytes, whose pages are warm, are read and sent by a write, which waits.

use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use super::conn::{ConnError, WriteHalf};
use super::residency::{is_resident, prefetch};
use super::socket;
use crate::runtime::limits::{PUMP_BYTES, SENDFILE_PIECE};
use crate::runtime::{JobError, Pool, Turn};

/// Bytes `[pos, pos + len)` of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileRange {
    pub pos: u64,
    pub len: u64,
}

impl WriteHalf {
    /// Sends a range of `file`. Waits while the peer does not read, and for its turn before each piece.
    /// Only bytes that no one changes any more may be sent so.
    ///
    /// Errors: the connection broke or stalled; the file is shorter than the range or unreadable.
    /// In each case a part may have been sent: close the connection.
    pub async fn send_file_range<F>(
        &mut self,
        file: &Arc<F>,
        range: FileRange,
        pool: &Pool,
    ) -> Result<(), SendFileError>
    where
        F: AsFd + Send + Sync + 'static,
    {
        let mut left = range;
        while left.len > 0 {
            let piece = left.len.min(SENDFILE_PIECE as u64);
            warm(file, left.pos, piece, pool).await?;
            let turn = Turn::begin().await;
            let mut sent = self.send_ready(&**file, left.pos, piece as usize)?;
            turn.end(sent).await;
            if sent < piece as usize {
                let at = left.pos + sent as u64;
                sent += self.pump(&**file, at, piece as usize - sent).await?;
            }
            // The pages are looked at again: they may have left memory meanwhile.
            left.pos += sent as u64;
            left.len -= sent as u64;
        }
        Ok(())
    }

    /// Sends what the socket takes of a warm piece.
    fn send_ready(&self, file: &impl AsFd, pos: u64, len: usize) -> Result<usize, SendFileError> {
        let mut sent = 0;
        while sent < len {
            let at = pos + sent as u64;
            match socket::send_file(self.fd(), file.as_fd(), at, len - sent) {
                Ok(0) => return Err(SendFileError::Truncated { at }),
                Ok(more) => sent += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(sent),
                Err(error) => return Err(SendFileError::of_either(error, at)),
            }
        }
        Ok(sent)
    }

    /// Sends a bite from a copy and waits until it has gone.
    async fn pump(
        &mut self,
        file: &impl AsFd,
        at: u64,
        len: usize,
    ) -> Result<usize, SendFileError> {
        let mut bite = [0_u8; PUMP_BYTES];
        let asked = len.min(PUMP_BYTES);
        let read = loop {
            match socket::read_at(file.as_fd(), &mut bite[..asked], at) {
                Ok(0) => return Err(SendFileError::Truncated { at }),
                Ok(read) => break read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(SendFileError::File { at, error }),
            }
        };
        let mut sent = 0;
        while sent < read {
            sent += self.send_and_wait(&bite[sent..read]).await?;
        }
        Ok(read)
    }
}

/// Why a range was not sent whole.
#[derive(Debug)]
pub enum SendFileError {
    Conn(ConnError),
    /// The file ends here, within the range.
    Truncated {
        at: u64,
    },
    /// The file cannot be read here.
    File {
        at: u64,
        error: io::Error,
    },
    /// The helper pool is stopping.
    Stopping,
}

impl SendFileError {
    /// sendfile tells by errno alone whose error it is.
    fn of_either(error: io::Error, at: u64) -> SendFileError {
        match ConnError::from_io(error) {
            ConnError::Io(error) => SendFileError::File { at, error },
            of_the_socket => SendFileError::Conn(of_the_socket),
        }
    }
}

impl From<ConnError> for SendFileError {
    fn from(error: ConnError) -> SendFileError {
        SendFileError::Conn(error)
    }
}

impl fmt::Display for SendFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SendFileError::Conn(error) => error.fmt(f),
            SendFileError::Truncated { at } => {
                write!(f, "the file ends at byte {at}, within the range to send")
            }
            SendFileError::File { at, error } => {
                write!(f, "the file cannot be read at byte {at}: {error}")
            }
            SendFileError::Stopping => f.write_str("stopping: the range was not read"),
        }
    }
}

impl std::error::Error for SendFileError {}

/// Makes sure that the piece is in memory.
async fn warm<F>(file: &Arc<F>, pos: u64, len: u64, pool: &Pool) -> Result<(), SendFileError>
where
    F: AsFd + Send + Sync + 'static,
{
    if is_resident(file.as_fd(), pos, len) {
        return Ok(());
    }
    let fetched = file.clone();
    match pool.run(move || prefetch(fetched.as_fd(), pos, len)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(SendFileError::File { at: pos, error }),
        Err(JobError::Stopped) => Err(SendFileError::Stopping),
        Err(JobError::Panicked(reason)) => {
            Err(SendFileError::File { at: pos, error: io::Error::other(reason) })
        }
    }
}

#[cfg(test)]
#[path = "sendfile_tests.rs"]
mod tests;
