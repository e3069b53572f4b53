//! A server that answers and does nothing: it keeps the last batches of each partition in memory and
//! counts. What the client reaches against it is the client's own ceiling, same requests, same checks.
//!
//! Told to, it lies, as a broken broker would: tests see by that what the client notices.

mod log;
mod server;
mod transactions;

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::event::{Timespec, epoll};

use crate::options::Options;
use server::Server;

const LISTENER: u64 = u64::MAX;
const READ_BYTES: usize = 16 * 1024;
/// How often requests that wait for records are looked at again.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };

/// What the server does that a broker must not. A number n: every nth time; 0: never.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lies {
    /// Batches that are acknowledged and not stored, the offsets closed over them.
    pub lose: u64,
    /// Batches that are stored twice.
    pub repeat: u64,
    /// Batches that are served with a flipped bit.
    pub flip: u64,
    /// Aborted transactions that readers of committed data are not told of.
    pub hide_aborts: bool,
    /// Speaks transactions as brokers did before KIP-890. No lie.
    pub old_transactions: bool,
    /// After so many Produce requests it stands still once, so long.
    pub stall: Option<(u64, Duration)>,
}

/// The `null` command: serves until the process ends.
pub fn run(mut options: Options) -> Result<bool> {
    let address: SocketAddr = options.value("listen", SocketAddr::from(([127, 0, 0, 1], 0)))?;
    options.finish()?;
    let listener = TcpListener::bind(address)?;
    println!("ready on {}", listener.local_addr()?);
    serve(listener)?;
    Ok(true)
}

/// Serves on `listener` until the process ends.
pub fn serve(listener: TcpListener) -> Result<()> {
    serve_lying(listener, Lies::default())
}

/// The same, dishonestly.
pub fn serve_lying(listener: TcpListener, lies: Lies) -> Result<()> {
    let address = listener.local_addr()?;
    listener.set_nonblocking(true)?;
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, &listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?;
    let mut server = Server::new(address, lies);
    let mut peers: HashMap<u64, Peer> = HashMap::new();
    let mut number = 0;
    let mut events = Vec::with_capacity(256);
    loop {
        events.clear();
        let waiting = peers.values().any(|peer| peer.parked.is_some());
        let limit = waiting.then_some(&LOOK_EVERY);
        match epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), limit) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno).context("epoll_wait"),
        }
        for event in &events {
            let (data, flags) = (event.data, event.flags);
            let key = data.u64();
            if key == LISTENER {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                stream.set_nodelay(true)?;
                epoll::add(
                    &epoll,
                    &stream,
                    epoll::EventData::new_u64(number),
                    epoll::EventFlags::IN,
                )?;
                peers.insert(number, Peer::new(stream));
                number += 1;
                continue;
            }
            let Some(peer) = peers.get_mut(&key) else { continue };
            if peer.serve(&mut server, &epoll, key, flags).is_err() {
                peers.remove(&key);
            }
        }
        if waiting {
            peers.retain(|key, peer| {
                peer.parked.is_none()
                    || peer.serve(&mut server, &epoll, *key, epoll::EventFlags::empty()).is_ok()
            });
        }
    }
}

struct Peer {
    stream: TcpStream,
    input: Vec<u8>,
    have: usize,
    output: Vec<u8>,
    sent: usize,
    wants_write: bool,
    /// Since when its next request waits for records.
    parked: Option<Instant>,
}

impl Peer {
    fn new(stream: TcpStream) -> Peer {
        Peer {
            stream,
            input: vec![0; READ_BYTES],
            have: 0,
            output: Vec::new(),
            sent: 0,
            wants_write: false,
            parked: None,
        }
    }

    /// Reads, answers, writes. An error ends the connection, as does its end.
    fn serve(
        &mut self,
        server: &mut Server,
        epoll: &OwnedFd,
        key: u64,
        flags: epoll::EventFlags,
    ) -> Result<()> {
        if flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::HUP) {
            self.receive()?;
        }
        self.answer(server)?;
        let done = self.send()?;
        if done == self.wants_write {
            self.wants_write = !done;
            let mut flags = epoll::EventFlags::IN;
            flags.set(epoll::EventFlags::OUT, !done);
            epoll::modify(epoll, &self.stream, epoll::EventData::new_u64(key), flags)?;
        }
        Ok(())
    }

    fn receive(&mut self) -> Result<()> {
        if self.have == self.input.len() {
            self.input.resize(self.have * 2, 0);
        }
        match self.stream.read(&mut self.input[self.have..]) {
            Ok(0) => bail!("end of stream"),
            Ok(read) => self.have += read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Answers what is here, up to the first request that waits for records.
    fn answer(&mut self, server: &mut Server) -> Result<()> {
        let mut from = 0;
        while let Some((length, rest)) = self.input[from..self.have].split_first_chunk::<4>() {
            let length = usize::try_from(i32::from_be_bytes(*length))?;
            if rest.len() < length {
                let need = length + 4;
                if self.input.len() < need {
                    self.input.resize(need, 0);
                }
                break;
            }
            let waited = self.parked.map_or(Duration::ZERO, |since| since.elapsed());
            if !server.answer(&rest[..length], waited, &mut self.output)? {
                self.parked.get_or_insert_with(Instant::now);
                break;
            }
            self.parked = None;
            from += 4 + length;
        }
        self.input.copy_within(from..self.have, 0);
        self.have -= from;
        Ok(())
    }

    fn send(&mut self) -> Result<bool> {
        while self.sent < self.output.len() {
            match self.stream.write(&self.output[self.sent..]) {
                Ok(written) => self.sent += written,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        self.output.clear();
        self.sent = 0;
        Ok(true)
    }
}
