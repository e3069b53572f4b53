//! The sending halves of connections: requests queue here, and vectored writes take them away.

use std::collections::VecDeque;
use std::io::{ErrorKind, IoSlice, Write};
use std::net::TcpStream;
use std::rc::Rc;
use std::sync::Arc;

use anyhow::{Result, bail, ensure};

use super::Frame;

/// Pieces of one vectored write; two slices each.
const PIECES_MAX: usize = 64;
/// Shared bytes that are fewer are copied: a slice of their own would cost more.
const COPIED_MAX: usize = 2048;
/// Buffers kept for the next requests.
const SPARE_MAX: usize = 4096;

/// The sending halves; a handler of answers may send on any of them.
#[derive(Default)]
pub struct Outputs {
    pub(super) list: Vec<Output>,
    pub(super) dirty: Vec<usize>,
    spare: Vec<Vec<u8>>,
    open: usize,
}

/// One connection's sending half.
pub(super) struct Output {
    pub(super) stream: TcpStream,
    queue: VecDeque<Piece>,
    open: VecDeque<(i32, u64)>,
    correlation: i32,
    pub(super) dirty: bool,
    pub(super) wants_write: bool,
}

/// Bytes of its own, then bytes that others share.
struct Piece {
    own: Vec<u8>,
    shared: Shared,
    sent: usize,
}

enum Shared {
    Nothing,
    Frame(Rc<Frame>),
    Batch(Arc<Vec<u8>>, usize),
}

/// A request that is being put together.
pub struct Composer<'a> {
    queue: &'a mut VecDeque<Piece>,
    spare: &'a mut Vec<Vec<u8>>,
    own: Vec<u8>,
}

impl Outputs {
    /// Queues a prebuilt request; it leaves with the next turn.
    pub fn send(&mut self, connection: usize, frame: &Rc<Frame>, tag: u64) {
        let mut own = self.spare.pop().unwrap_or_default();
        let output = &mut self.list[connection];
        own.extend_from_slice(&frame.head(output.expect(Some(tag))));
        output.queue.push_back(Piece { own, shared: Shared::Frame(Rc::clone(frame)), sent: 0 });
        self.open += 1;
        self.mark(connection);
    }

    /// Queues a request that `compose` puts together, from its length on; the correlation id is set
    /// here. Without a tag no answer is awaited.
    pub fn compose(
        &mut self,
        connection: usize,
        tag: Option<u64>,
        compose: impl FnOnce(&mut Composer<'_>),
    ) {
        let own = self.spare.pop().unwrap_or_default();
        let output = &mut self.list[connection];
        let id = output.expect(tag);
        let first = output.queue.len();
        let mut composer = Composer { queue: &mut output.queue, spare: &mut self.spare, own };
        compose(&mut composer);
        let own = std::mem::take(&mut composer.own);
        output.queue.push_back(Piece { own, shared: Shared::Nothing, sent: 0 });
        output.queue[first].own[8..12].copy_from_slice(&id.to_be_bytes());
        self.open += usize::from(tag.is_some());
        self.mark(connection);
    }

    /// Requests without an answer, on all connections.
    pub fn open(&self) -> usize {
        self.open
    }

    /// Requests without an answer on one connection.
    pub fn open_on(&self, connection: usize) -> usize {
        self.list[connection].open.len()
    }

    /// Whether requests wait for the socket.
    pub fn queued(&self, connection: usize) -> bool {
        !self.list[connection].queue.is_empty()
    }

    /// Notes an answer; gives the tag of its request.
    pub(super) fn answered(&mut self, connection: usize, id: i32) -> Result<u64> {
        let Some((expected, tag)) = self.list[connection].open.pop_front() else {
            bail!("connection {connection} answered {id}, and nothing is open")
        };
        ensure!(id == expected, "connection {connection} answered {id} before {expected}");
        self.open -= 1;
        Ok(tag)
    }

    pub(super) fn mark(&mut self, connection: usize) {
        let output = &mut self.list[connection];
        if !output.dirty {
            output.dirty = true;
            self.dirty.push(connection);
        }
    }

    /// Writes what the socket of a connection takes; whether that was all.
    pub(super) fn write(&mut self, connection: usize) -> Result<bool> {
        self.list[connection].write(&mut self.spare)
    }
}

impl Composer<'_> {
    /// Bytes of this request alone.
    pub fn own(&mut self) -> &mut Vec<u8> {
        &mut self.own
    }

    /// Bytes from `from` on, which are not copied when they are many.
    pub fn shared(&mut self, bytes: &Arc<Vec<u8>>, from: usize) {
        if bytes.len() - from <= COPIED_MAX {
            self.own.extend_from_slice(&bytes[from..]);
            return;
        }
        let next = self.spare.pop().unwrap_or_default();
        let own = std::mem::replace(&mut self.own, next);
        self.queue.push_back(Piece {
            own,
            shared: Shared::Batch(Arc::clone(bytes), from),
            sent: 0,
        });
    }
}

impl Output {
    pub(super) fn new(stream: TcpStream) -> Output {
        Output {
            stream,
            queue: VecDeque::new(),
            open: VecDeque::new(),
            correlation: 0,
            dirty: false,
            wants_write: false,
        }
    }

    /// The id of the next request.
    fn expect(&mut self, tag: Option<u64>) -> i32 {
        self.correlation = self.correlation.wrapping_add(1);
        if let Some(tag) = tag {
            self.open.push_back((self.correlation, tag));
        }
        self.correlation
    }

    fn write(&mut self, spare: &mut Vec<Vec<u8>>) -> Result<bool> {
        while !self.queue.is_empty() {
            let mut slices = std::array::from_fn::<_, { PIECES_MAX * 2 }, _>(|_| IoSlice::new(&[]));
            let mut used = 0;
            for piece in self.queue.iter().take(PIECES_MAX) {
                let (own, shared) = (piece.own.as_slice(), piece.shared.bytes());
                slices[used] = IoSlice::new(&own[piece.sent.min(own.len())..]);
                slices[used + 1] = IoSlice::new(&shared[piece.sent.saturating_sub(own.len())..]);
                used += 2;
            }
            match (&self.stream).write_vectored(&slices[..used]) {
                Ok(written) => self.advance(written, spare),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }

    fn advance(&mut self, mut written: usize, spare: &mut Vec<Vec<u8>>) {
        while let Some(piece) = self.queue.front_mut() {
            let left = piece.own.len() + piece.shared.bytes().len() - piece.sent;
            if written < left {
                piece.sent += written;
                return;
            }
            written -= left;
            if let Some(Piece { mut own, .. }) = self.queue.pop_front()
                && spare.len() < SPARE_MAX
            {
                own.clear();
                spare.push(own);
            }
        }
        assert_eq!(written, 0, "the kernel took more bytes than it was given");
    }
}

impl Shared {
    fn bytes(&self) -> &[u8] {
        match self {
            Shared::Nothing => &[],
            Shared::Frame(frame) => frame.tail(),
            Shared::Batch(bytes, from) => &bytes[*from..],
        }
    }
}
