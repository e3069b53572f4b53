//! A TCP connection of one core, in two halves for two tasks.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use futures_lite::io::{AsyncRead, AsyncWrite};
use glommio::net::TcpStream;

use super::socket::{self, Direction, Switch};
use crate::runtime::limits::{BULK_BYTES, PUMP_BYTES, READ_ROOM_MIN, SEND_PIECES};
use crate::runtime::{Breather, Turn, checkpoint};

/// How connections are set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnOptions {
    /// A write that makes no progress for so long fails with [`ConnError::Stalled`]. At least a
    /// millisecond.
    pub write_stall: Duration,
    /// `socket.send.buffer.bytes`; None leaves it to the kernel, which then adapts it.
    pub send_buffer: Option<u32>,
    /// `socket.receive.buffer.bytes`; None leaves it to the kernel.
    pub receive_buffer: Option<u32>,
}

impl Default for ConnOptions {
    fn default() -> Self {
        ConnOptions {
            write_stall: Duration::from_secs(30),
            send_buffer: None,
            receive_buffer: None,
        }
    }
}

/// A connection. Lives on one core. Dropping both halves closes it.
pub struct Conn {
    reader: ReadHalf,
    writer: WriteHalf,
}

impl Conn {
    /// Connects from this core.
    pub async fn connect(address: SocketAddr, options: &ConnOptions) -> Result<Conn, ConnError> {
        let stream = TcpStream::connect(address).await.map_err(plain)?;
        Ok(Conn::adopt(stream, options)?)
    }

    pub fn peer(&self) -> SocketAddr {
        self.reader.shared.peer
    }

    /// Our end of it: which listener it came in by.
    pub fn local(&self) -> SocketAddr {
        self.reader.shared.local
    }

    /// The two halves, for two tasks of this core.
    pub fn split(self) -> (ReadHalf, WriteHalf) {
        (self.reader, self.writer)
    }

    /// Sets the options that every connection gets and takes the stream over.
    ///
    /// Errors: the peer is gone already.
    pub(super) fn adopt(stream: TcpStream, options: &ConnOptions) -> io::Result<Conn> {
        let peer = stream.peer_addr().map_err(plain)?;
        let local = stream.local_addr().map_err(plain)?;
        let shared = Shared { stream: RefCell::new(stream), peer, local };
        set_options(shared.fd(), options)?;
        let stall = options.write_stall.max(Duration::from_millis(1));
        shared.stream.borrow().set_write_timeout(Some(stall)).map_err(plain)?;
        let shared = Rc::new(shared);
        let reader = ReadHalf { shared: shared.clone(), drained: true };
        let writer = WriteHalf { shared, stall, breather: Breather::new() };
        Ok(Conn { reader, writer })
    }
}

/// The reading half.
pub struct ReadHalf {
    shared: Rc<Shared>,
    /// The last read took all there was, so the next one waits instead of asking.
    drained: bool,
}

impl ReadHalf {
    /// Waits for bytes and appends them to `buffer`: as many as fit in its spare room, at most
    /// `at_most`, at least one. 0: the peer has ended its side. A buffer without room gets some
    /// when the first byte is there, so that an idle connection needs no buffer.
    ///
    /// Dropping the future loses nothing: bytes are taken only when it is ready.
    ///
    /// Errors: the connection broke.
    ///
    /// Panics: `at_most` is 0.
    pub async fn read_into(
        &mut self,
        buffer: &mut BytesMut,
        at_most: usize,
    ) -> Result<usize, ConnError> {
        assert!(at_most > 0, "a read of at most {at_most} bytes tells nothing");
        checkpoint().await;
        if !self.drained && buffer.capacity() > buffer.len() {
            match self.take_ready(buffer, at_most)? {
                Some(got) => return Ok(got),
                None => self.drained = true,
            }
        }
        // The executor can wait only by reading into initialised memory. A small buffer on the
        // stack serves most requests whole; the rest of a large one is then received in place.
        let shared = &self.shared;
        let (got, asked) = poll_fn(|cx| {
            let mut first = [0_u8; PUMP_BYTES];
            let asked = first.len().min(at_most);
            let read =
                Pin::new(&mut *shared.stream.borrow_mut()).poll_read(cx, &mut first[..asked]);
            read.map_ok(|got| {
                buffer.extend_from_slice(&first[..got]);
                (got, asked)
            })
        })
        .await
        .map_err(ConnError::from_io)?;
        crate::runtime::beat();
        self.drained = got < asked;
        if self.drained || got == at_most {
            return Ok(got);
        }
        if buffer.capacity() - buffer.len() < READ_ROOM_MIN {
            buffer.reserve(READ_ROOM_MIN.min(at_most - got));
        }
        Ok(got + self.take_ready(buffer, at_most - got)?.unwrap_or(0))
    }

    /// Ends our reading side: a reader that waits sees the end of the stream. Bytes that are on
    /// their way are not read any more.
    pub fn shutdown(&self) {
        self.shared.shutdown(Direction::Read);
    }

    pub fn peer(&self) -> SocketAddr {
        self.shared.peer
    }

    /// A handle that can end the reading side while a reader waits.
    pub fn closer(&self) -> Closer {
        Closer { shared: self.shared.clone() }
    }

    /// What the kernel holds right now; None: nothing, but the peer has not ended its side.
    fn take_ready(
        &mut self,
        buffer: &mut BytesMut,
        at_most: usize,
    ) -> Result<Option<usize>, ConnError> {
        let asked = at_most.min(buffer.capacity() - buffer.len());
        loop {
            match socket::receive(self.shared.fd(), buffer, asked) {
                Ok(got) => {
                    self.drained = got < asked;
                    return Ok(Some(got));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(ConnError::from_io(error)),
            }
        }
    }
}

/// The writing half. A write whose future is dropped, or that failed, may have sent a part: close
/// the connection then.
pub struct WriteHalf {
    shared: Rc<Shared>,
    stall: Duration,
    breather: Breather,
}

/// Whether bytes follow a write at once, so that the kernel may hold back a packet that is not
/// full (for at most 200 ms).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum More {
    Follows,
    Ends,
}

impl WriteHalf {
    /// Sends all pieces, in order, and takes them off the front as they go. Waits while the
    /// peer does not read; breathes once a mebibyte.
    ///
    /// Errors: the connection broke, or the peer took nothing for `write_stall`.
    pub async fn write_all(
        &mut self,
        pieces: &mut VecDeque<Bytes>,
        more: More,
    ) -> Result<(), ConnError> {
        skip_empty(pieces);
        while !pieces.is_empty() {
            let turn = if is_bulk(pieces) { Some(Turn::begin().await) } else { None };
            let sent = match socket::send(self.shared.fd(), pieces.iter(), more == More::Follows) {
                Ok(sent) => sent,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    drop(turn);
                    let sent = self.send_and_wait(&pieces[0]).await?;
                    advance(pieces, sent);
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(ConnError::from_io(error)),
            };
            advance(pieces, sent);
            match turn {
                Some(turn) => turn.end(sent).await,
                None => self.breather.after(sent).await,
            }
        }
        Ok(())
    }

    /// Sends one piece. See [`WriteHalf::write_all`].
    pub async fn write(&mut self, mut piece: Bytes, more: More) -> Result<(), ConnError> {
        while !piece.is_empty() {
            let pieces = std::iter::once(&piece);
            let sent = match socket::send(self.shared.fd(), pieces, more == More::Follows) {
                Ok(sent) => sent,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.send_and_wait(&piece).await?
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(ConnError::from_io(error)),
            };
            piece.advance(sent);
            self.breather.after(sent).await;
        }
        Ok(())
    }

    /// Tells the peer that nothing follows. What was sent still arrives.
    pub fn shutdown(&self) {
        self.shared.shutdown(Direction::Write);
    }

    pub fn peer(&self) -> SocketAddr {
        self.shared.peer
    }

    /// A handle that can end the reading side of the same connection.
    pub fn closer(&self) -> Closer {
        Closer { shared: self.shared.clone() }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.shared.fd()
    }

    /// Sends a part of `bytes` (not empty), waiting until the socket takes some.
    pub(super) async fn send_and_wait(&self, bytes: &[u8]) -> Result<usize, ConnError> {
        let shared = &self.shared;
        let sent = poll_fn(|cx| Pin::new(&mut *shared.stream.borrow_mut()).poll_write(cx, bytes));
        match sent.await {
            Ok(sent) => {
                crate::runtime::beat();
                Ok(sent)
            }
            Err(error) if error.kind() == io::ErrorKind::TimedOut && !is_errno(&error) => {
                Err(ConnError::Stalled { after: self.stall })
            }
            Err(error) => Err(ConnError::from_io(error)),
        }
    }
}

/// Ends the reading side of a connection from another task of its core.
pub struct Closer {
    shared: Rc<Shared>,
}

impl Closer {
    /// A reader that waits sees the end of the stream.
    pub fn shutdown_read(&self) {
        self.shared.shutdown(Direction::Read);
    }
}

/// Why a connection cannot go on.
#[derive(Debug)]
pub enum ConnError {
    /// The peer is gone: it closed, its host died, or a middle box cut the line.
    Gone,
    /// The peer took nothing for so long.
    Stalled { after: Duration },
    /// Any other error of the socket.
    Io(io::Error),
}

impl ConnError {
    pub(super) fn from_io(error: io::Error) -> ConnError {
        match error.raw_os_error() {
            Some(
                libc::EPIPE
                | libc::ECONNRESET
                | libc::ECONNABORTED
                | libc::ETIMEDOUT
                | libc::ENOTCONN
                | libc::EHOSTUNREACH
                | libc::ENETUNREACH,
            ) => ConnError::Gone,
            _ => ConnError::Io(error),
        }
    }
}

impl From<io::Error> for ConnError {
    fn from(error: io::Error) -> ConnError {
        ConnError::from_io(error)
    }
}

impl fmt::Display for ConnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnError::Gone => f.write_str("the peer is gone"),
            ConnError::Stalled { after } => {
                write!(f, "the peer has read nothing for {after:?}, so the connection is given up")
            }
            ConnError::Io(error) => write!(f, "the socket failed: {error}"),
        }
    }
}

impl std::error::Error for ConnError {}

struct Shared {
    /// Borrowed within one poll only, never over an await.
    stream: RefCell<TcpStream>,
    peer: SocketAddr,
    local: SocketAddr,
}

impl Shared {
    #[expect(unsafe_code, reason = "lends the stream's descriptor")]
    fn fd(&self) -> BorrowedFd<'_> {
        let fd = self.stream.borrow().as_raw_fd();
        // SAFETY: the stream owns the descriptor and is dropped with `self` only, so it is open
        // for the lifetime of the borrow.
        unsafe { BorrowedFd::borrow_raw(fd) }
    }

    fn shutdown(&self, direction: Direction) {
        // Errors tell that the socket is dead already, and then so is this side.
        let _ = socket::shutdown(self.fd(), direction);
    }
}

const KEEPALIVE_IDLE_S: i32 = 60;
const KEEPALIVE_INTERVAL_S: i32 = 15;
const KEEPALIVE_COUNT: i32 = 4;

fn set_options(fd: BorrowedFd<'_>, options: &ConnOptions) -> io::Result<()> {
    socket::set_nonblocking_and_private(fd)?;
    socket::set(fd, Switch::NoDelay, 1)?;
    socket::set(fd, Switch::KeepAlive, 1)?;
    socket::set(fd, Switch::KeepAliveIdle, KEEPALIVE_IDLE_S)?;
    socket::set(fd, Switch::KeepAliveInterval, KEEPALIVE_INTERVAL_S)?;
    socket::set(fd, Switch::KeepAliveCount, KEEPALIVE_COUNT)?;
    for (switch, bytes) in
        [(Switch::SendBuffer, options.send_buffer), (Switch::ReceiveBuffer, options.receive_buffer)]
    {
        if let Some(bytes) = bytes {
            socket::set(fd, switch, i32::try_from(bytes).unwrap_or(i32::MAX))?;
        }
    }
    Ok(())
}

/// Whether the next send takes so much that it has to wait for its turn.
fn is_bulk(pieces: &VecDeque<Bytes>) -> bool {
    pieces.iter().take(SEND_PIECES).map(Bytes::len).sum::<usize>() >= BULK_BYTES
}

fn skip_empty(pieces: &mut VecDeque<Bytes>) {
    while pieces.front().is_some_and(Bytes::is_empty) {
        pieces.pop_front();
    }
}

/// Takes `sent` bytes off the front.
fn advance(pieces: &mut VecDeque<Bytes>, mut sent: usize) {
    while sent > 0 {
        let Some(front) = pieces.front_mut() else {
            unreachable!("the kernel took {sent} bytes more than it was given");
        };
        let step = front.len().min(sent);
        front.advance(step);
        sent -= step;
        if front.is_empty() {
            pieces.pop_front();
        }
    }
    skip_empty(pieces);
}

fn is_errno(error: &io::Error) -> bool {
    error.raw_os_error().is_some()
}

/// The executor's error as the plain one inside it.
pub(super) fn plain(error: glommio::GlommioError<()>) -> io::Error {
    match error {
        glommio::GlommioError::IoError(error) => error,
        glommio::GlommioError::EnhancedIoError { source, .. } => source,
        other => io::Error::other(other.to_string()),
    }
}

#[cfg(test)]
#[path = "conn_tests.rs"]
mod tests;
