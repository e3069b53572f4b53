//! Many connections on one thread: one epoll set, answers handed out as slices of the read buffer.

use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::event::{Timespec, epoll};

use super::output::{Output, Outputs};

/// Bytes a read asks for when no larger frame is known to be coming.
const READ_BYTES: usize = 256 * 1024;
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
    /// Where connections read that hold no half of an answer: most of them, most of the time.
    shared: Vec<u8>,
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

impl Driver {
    /// Opens `connections` of them.
    pub fn connect(address: SocketAddr, connections: usize) -> Result<Driver> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut driver = Driver {
            epoll,
            inputs: Vec::new(),
            outputs: Outputs::default(),
            shared: vec![0; READ_BYTES],
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
        self.outputs.list.push(Output::new(stream));
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
        let room = if input.is_empty() { self.shared.as_mut_slice() } else { input.prepare()? };
        let read = match (&self.outputs.list[index].stream).read(room) {
            Ok(0) => bail!(
                "the broker closed connection {index} with {} requests open",
                self.outputs.open_on(index)
            ),
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(0),
            Err(error) => return Err(error).with_context(|| format!("connection {index}")),
        };
        let outputs = &mut self.outputs;
        if !input.is_empty() {
            input.end += read;
            let (used, answers) =
                frames(&input.buffer[input.start..input.end], index, outputs, handler)?;
            input.start += used;
            return Ok(answers);
        }
        let bytes = &self.shared[..read];
        let (used, answers) = frames(bytes, index, outputs, handler)?;
        self.inputs[index].keep(&bytes[used..]);
        Ok(answers)
    }

    fn flush(&mut self) -> Result<()> {
        while let Some(index) = self.outputs.dirty.pop() {
            self.outputs.list[index].dirty = false;
            let done = self.outputs.write(index).with_context(|| format!("connection {index}"))?;
            let output = &mut self.outputs.list[index];
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

    fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Keeps the beginning of an answer.
    fn keep(&mut self, bytes: &[u8]) {
        if self.buffer.len() < bytes.len() {
            self.buffer.resize(bytes.len(), 0);
        }
        self.buffer[..bytes.len()].copy_from_slice(bytes);
        (self.start, self.end) = (0, bytes.len());
    }

    fn declared(&self) -> Result<Option<usize>> {
        declared(&self.buffer[self.start..self.end])
    }
}

fn declared(bytes: &[u8]) -> Result<Option<usize>> {
    let Some((length, _)) = bytes.split_first_chunk::<4>() else { return Ok(None) };
    let length = usize::try_from(i32::from_be_bytes(*length)).unwrap_or(usize::MAX);
    ensure!(length <= FRAME_BYTES_MAX, "the broker announces an answer of {length} bytes");
    Ok(Some(length))
}

/// Hands out the whole answers in `bytes`; how many bytes they are, and how many answers.
fn frames(
    bytes: &[u8],
    connection: usize,
    outputs: &mut Outputs,
    handler: &mut impl FnMut(Response<'_>, &mut Outputs) -> Result<()>,
) -> Result<(usize, usize)> {
    let (mut used, mut answers) = (0, 0);
    while let Some(length) = declared(&bytes[used..])?
        && used + 4 + length <= bytes.len()
    {
        let frame = &bytes[used + 4..used + 4 + length];
        used += 4 + length;
        let Some((id, _)) = frame.split_first_chunk::<4>() else {
            bail!("an answer of {length} bytes on connection {connection}")
        };
        let tag = outputs.answered(connection, i32::from_be_bytes(*id))?;
        answers += 1;
        let response = Response { connection, tag, bytes: frame, wire_bytes: length + 4 };
        handler(response, outputs)?;
    }
    Ok((used, answers))
}
