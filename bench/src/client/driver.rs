//! Many connections on one thread: one epoll set, vectored writes of prebuilt frames, answers
//! handed out as slices of the read buffer.

use std::collections::VecDeque;
use std::io::{ErrorKind, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::event::{Timespec, epoll};

use super::Frame;

/// Bytes a read asks for when no larger frame is known to be coming.
const READ_BYTES: usize = 64 * 1024;
/// Pieces of one vectored write; two make a request.
const PIECES_MAX: usize = 128;
/// Events of one wait.
const EVENTS_MAX: usize = 256;
/// Largest answer. Nothing we ask for is larger; more is a broken stream.
const FRAME_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Connecting to a listener on this machine takes no longer.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// A set of connections to one address.
pub struct Driver {
    epoll: OwnedFd,
    inputs: Vec<Input>,
    outputs: Outputs,
}

/// The sending halves; a handler of answers may send on any of them.
pub struct Outputs {
    list: Vec<Output>,
    dirty: Vec<usize>,
}

/// One answer, in the order of the requests of its connection.
pub struct Response<'a> {
    pub connection: usize,
    /// What [`Outputs::send`] was given.
    pub tag: u64,
    /// The frame without its length.
    pub bytes: &'a [u8],
    /// Bytes on the wire, length field included.
    pub wire_bytes: usize,
}

#[derive(Default)]
struct Input {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

struct Output {
    stream: TcpStream,
    queue: VecDeque<Piece>,
    open: VecDeque<(i32, u64)>,
    correlation: i32,
    dirty: bool,
    wants_write: bool,
}

/// A request on its way: its own head, the shared rest, and how much of both is gone.
struct Piece {
    head: [u8; Frame::HEAD_BYTES],
    frame: Rc<Frame>,
    sent: usize,
}

impl Driver {
    /// Opens `connections` of them.
    pub fn connect(address: SocketAddr, connections: usize) -> Result<Driver> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut driver = Driver {
            epoll,
            inputs: Vec::new(),
            outputs: Outputs { list: Vec::new(), dirty: Vec::new() },
        };
        for index in 0..connections {
            driver.add(address).with_context(|| {
                format!("connection {} of {connections} to {address}", index + 1)
            })?;
        }
        Ok(driver)
    }

    /// Opens one more connection and says its number.
    pub fn add(&mut self, address: SocketAddr) -> Result<usize> {
        let stream = TcpStream::connect_timeout(&address, CONNECT_LIMIT)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        // A congestion control that paces (bbr) costs timers on loopback; where cubic is not to be
        // had, the system's choice stays.
        let _ = rustix::net::sockopt::set_tcp_congestion(&stream, "cubic");
        let index = self.inputs.len();
        let data = epoll::EventData::new_u64(index as u64);
        epoll::add(&self.epoll, &stream, data, epoll::EventFlags::IN)?;
        self.inputs.push(Input::default());
        self.outputs.list.push(Output {
            stream,
            queue: VecDeque::new(),
            open: VecDeque::new(),
            correlation: 0,
            dirty: false,
            wants_write: false,
        });
        Ok(index)
    }

    pub fn connections(&self) -> usize {
        self.inputs.len()
    }

    /// The sending halves, for requests that answer nothing.
    pub fn outputs(&mut self) -> &mut Outputs {
        &mut self.outputs
    }

    /// Sends what is queued, waits up to `limit` for answers, hands out each, and sends what the
    /// handler queued. Returns the number of answers.
    ///
    /// # Errors
    /// When a connection ends, when an answer does not match its request, and what the handler says.
    pub fn turn(
        &mut self,
        limit: Duration,
        handler: &mut impl FnMut(Response<'_>, &mut Outputs) -> Result<()>,
    ) -> Result<usize> {
        self.flush()?;
        let mut events = [const {
            epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }
        }; EVENTS_MAX];
        let wait = Timespec {
            tv_sec: i64::try_from(limit.as_secs())?,
            tv_nsec: i64::from(limit.subsec_nanos()),
        };
        let ready = match epoll::wait(&self.epoll, &mut events[..], Some(&wait)) {
            Ok(ready) => ready,
            Err(rustix::io::Errno::INTR) => 0,
            Err(errno) => return Err(errno).context("epoll_wait"),
        };
        let mut answers = 0;
        for event in &events[..ready] {
            let (flags, data) = (event.flags, event.data);
            let index = usize::try_from(data.u64())?;
            if flags.contains(epoll::EventFlags::OUT) {
                self.outputs.mark(index);
            }
            if flags
                .intersects(epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR)
            {
                answers += self.receive(index, handler)?;
            }
            self.flush()?;
        }
        Ok(answers)
    }

    /// Takes turns until no request is open.
    ///
    /// # Errors
    /// As [`Driver::turn`], and when nothing is answered for `limit`.
    pub fn drain(
        &mut self,
        limit: Duration,
        handler: &mut impl FnMut(Response<'_>, &mut Outputs) -> Result<()>,
    ) -> Result<()> {
        let mut last = Instant::now();
        while self.outputs.open() > 0 {
            if self.turn(Duration::from_millis(100), handler)? > 0 {
                last = Instant::now();
            }
            ensure!(
                last.elapsed() < limit,
                "{} requests have no answer after {limit:?}",
                self.outputs.open()
            );
        }
        Ok(())
    }

    fn receive(
        &mut self,
        index: usize,
        handler: &mut impl FnMut(Response<'_>, &mut Outputs) -> Result<()>,
    ) -> Result<usize> {
        let input = &mut self.inputs[index];
        let room = input.prepare()?;
        match (&self.outputs.list[index].stream).read(room) {
            Ok(0) => bail!(
                "the broker closed connection {index} with {} requests open",
                self.outputs.list[index].open.len()
            ),
            Ok(read) => input.end += read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(0),
            Err(error) => return Err(error).with_context(|| format!("connection {index}")),
        }
        let mut answers = 0;
        while let Some(length) = input.frame()? {
            let from = input.start + 4;
            input.start = from + length;
            let frame = &input.buffer[from..from + length];
            let Some((id, _)) = frame.split_first_chunk::<4>() else {
                bail!("an answer of {length} bytes on connection {index}")
            };
            let id = i32::from_be_bytes(*id);
            let Some((expected, tag)) = self.outputs.list[index].open.pop_front() else {
                bail!("connection {index} answered {id}, and nothing is open")
            };
            ensure!(id == expected, "connection {index} answered {id} before {expected}");
            answers += 1;
            let response =
                Response { connection: index, tag, bytes: frame, wire_bytes: length + 4 };
            handler(response, &mut self.outputs)?;
        }
        Ok(answers)
    }

    fn flush(&mut self) -> Result<()> {
        while let Some(index) = self.outputs.dirty.pop() {
            let output = &mut self.outputs.list[index];
            output.dirty = false;
            let done = output.write().with_context(|| format!("connection {index}"))?;
            if done == output.wants_write {
                output.wants_write = !done;
                let mut flags = epoll::EventFlags::IN;
                flags.set(epoll::EventFlags::OUT, !done);
                let data = epoll::EventData::new_u64(index as u64);
                epoll::modify(&self.epoll, &output.stream, data, flags)?;
            }
        }
        Ok(())
    }
}

impl Outputs {
    /// Queues a request; it leaves with the next turn.
    pub fn send(&mut self, connection: usize, frame: &Rc<Frame>, tag: u64) {
        let output = &mut self.list[connection];
        output.correlation = output.correlation.wrapping_add(1);
        let head = frame.head(output.correlation);
        output.open.push_back((output.correlation, tag));
        output.queue.push_back(Piece { head, frame: Rc::clone(frame), sent: 0 });
        self.mark(connection);
    }

    /// Requests without an answer, on all connections.
    pub fn open(&self) -> usize {
        self.list.iter().map(|output| output.open.len()).sum()
    }

    /// Requests without an answer on one connection.
    pub fn open_on(&self, connection: usize) -> usize {
        self.list[connection].open.len()
    }

    fn mark(&mut self, connection: usize) {
        let output = &mut self.list[connection];
        if !output.dirty {
            output.dirty = true;
            self.dirty.push(connection);
        }
    }
}

impl Input {
    /// Room for the next read: at least [`READ_BYTES`], or what the frame at hand still needs.
    fn prepare(&mut self) -> Result<&mut [u8]> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        let have = self.end - self.start;
        let whole = self.declared()?.map_or(0, |length| length + 4);
        let need = whole.max(have + READ_BYTES);
        if self.buffer.len() - self.start < need {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, have);
            if self.buffer.len() < need {
                self.buffer.resize(need, 0);
            }
        }
        Ok(&mut self.buffer[self.end..])
    }

    /// Length of the frame at hand when all of it is here.
    fn frame(&self) -> Result<Option<usize>> {
        let length = self.declared()?;
        Ok(length.filter(|length| length + 4 <= self.end - self.start))
    }

    fn declared(&self) -> Result<Option<usize>> {
        let have = &self.buffer[self.start..self.end];
        let Some((length, _)) = have.split_first_chunk::<4>() else { return Ok(None) };
        let length = usize::try_from(i32::from_be_bytes(*length)).unwrap_or(usize::MAX);
        ensure!(length <= FRAME_BYTES_MAX, "the broker announces an answer of {length} bytes");
        Ok(Some(length))
    }
}

impl Output {
    /// Writes as much of the queue as the socket takes; whether that was all.
    fn write(&mut self) -> Result<bool> {
        while !self.queue.is_empty() {
            let mut slices = std::array::from_fn::<_, PIECES_MAX, _>(|_| IoSlice::new(&[]));
            let mut used = 0;
            for piece in self.queue.iter().take(PIECES_MAX / 2) {
                let tail = piece.frame.tail();
                let head_left = &piece.head[piece.sent.min(piece.head.len())..];
                let tail_left = &tail[piece.sent.saturating_sub(piece.head.len())..];
                slices[used] = IoSlice::new(head_left);
                slices[used + 1] = IoSlice::new(tail_left);
                used += 2;
            }
            match (&self.stream).write_vectored(&slices[..used]) {
                Ok(written) => self.advance(written),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }

    fn advance(&mut self, mut written: usize) {
        while let Some(piece) = self.queue.front_mut() {
            let left = piece.head.len() + piece.frame.tail().len() - piece.sent;
            if written < left {
                piece.sent += written;
                return;
            }
            written -= left;
            self.queue.pop_front();
        }
        assert_eq!(written, 0, "the kernel took more bytes than it was given");
    }
}
