//! Listening: one socket a core on the same address, so that the kernel spreads connections over
//! the cores (SO_REUSEPORT, socket(7)).

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, FromRawFd, IntoRawFd, OwnedFd};
use std::time::Duration;

use glommio::net::TcpListener;

use super::conn::{Conn, ConnOptions, plain};
use super::socket::{self, Direction, Switch};
use crate::log_limited;
use crate::runtime::limits::{ACCEPT_PAUSE_FIRST, ACCEPT_PAUSE_LONGEST, LISTEN_BACKLOG};
use crate::runtime::{Stop, breathe, log, sleep};

/// Binds `address` once for each of `cores` cores and returns the address with its real port.
/// Nobody can connect before a socket is opened on its core.
///
/// Port 0 is resolved once, so all cores share one port. Take the lock of the data directory
/// before: another process of the same user could bind the same port later, unseen.
pub fn bind(address: SocketAddr, cores: usize) -> Result<(SocketAddr, Vec<Bound>), BindError> {
    let fail = |error: io::Error| BindError::new(address, &error);
    if address.port() != 0 {
        // A socket without SO_REUSEPORT sees a port that others listen on; ours would share it.
        drop(bind_one(address, Switch::ReuseAddress).map_err(fail)?);
    }
    let mut actual = address;
    let mut sockets = Vec::with_capacity(cores);
    for _ in 0..cores {
        let socket = bind_one(actual, Switch::ReusePort).map_err(fail)?;
        actual = std::net::TcpListener::from(socket.try_clone().map_err(fail)?)
            .local_addr()
            .map_err(fail)?;
        sockets.push(Bound { socket, address: actual });
    }
    Ok((actual, sockets))
}

/// A bound socket on its way to its core.
#[derive(Debug)]
pub struct Bound {
    socket: OwnedFd,
    address: SocketAddr,
}

impl Bound {
    /// Starts to listen, on the core this runs on.
    pub fn listen(self, options: ConnOptions) -> Result<Listener, BindError> {
        let Bound { socket, address } = self;
        socket::listen(socket.as_fd(), LISTEN_BACKLOG)
            .map_err(|error| BindError::new(address, &error))?;
        let handle = socket.try_clone().map_err(|error| BindError::new(address, &error))?;
        Ok(Listener { listener: adopt(socket), handle, address, options })
    }
}

/// The listening socket of one core.
pub struct Listener {
    listener: TcpListener,
    /// A second descriptor of the same socket, to shut it: the executor's hides its own.
    handle: OwnedFd,
    address: SocketAddr,
    options: ConnOptions,
}

impl Listener {
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts connections and hands each to `each`, until the word to stop. Then the socket is
    /// closed and new clients are refused.
    ///
    /// When descriptors or memory run out it pauses (10 ms to 1 s) instead of spinning; waiting
    /// clients stay in the kernel's queue meanwhile.
    pub async fn accept_until(self, stop: &Stop, mut each: impl FnMut(Conn)) {
        let word = async {
            stop.stopped().await;
            // The pending accept below ends by this, so no accepted socket is lost in the ring.
            let _ = socket::shutdown(self.handle.as_fd(), Direction::Read);
            std::future::pending().await
        };
        let accept = async {
            while let Some(conn) = self.next(stop).await {
                each(conn);
            }
        };
        futures_lite::future::or(accept, word).await;
    }

    /// The next connection; None: the socket was shut.
    async fn next(&self, stop: &Stop) -> Option<Conn> {
        let mut pause = ACCEPT_PAUSE_FIRST;
        loop {
            if stop.is_given() {
                return None;
            }
            let adopted = match self.listener.accept().await {
                Ok(stream) => Conn::adopt(stream, &self.options),
                Err(error) => Err(plain(error)),
            };
            match adopted {
                Ok(_) if stop.is_given() => return None,
                Ok(conn) => return Some(conn),
                Err(error) if is_exhausted(&error) => {
                    log_limited!(
                        log::warn("listener", "cannot accept, pausing: raise `ulimit -n`")
                            .field("address", self.address)
                            .field("reason", &error)
                            .field("pause_ms", pause.as_millis())
                    );
                    self.rest(pause, stop).await;
                    pause = (pause * 2).min(ACCEPT_PAUSE_LONGEST);
                }
                // One connection failed on its way in. The park keeps this loop from spinning
                // whatever the error is.
                Err(error) => {
                    log_limited!(
                        log::debug("listener", "a connection was lost before it was accepted")
                            .field("address", self.address)
                            .field("reason", &error)
                    );
                    breathe().await;
                }
            }
        }
    }

    async fn rest(&self, pause: Duration, stop: &Stop) {
        futures_lite::future::or(sleep(pause), stop.stopped()).await;
    }
}

/// Why an address cannot be listened on. `Display` is one sentence with what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindError {
    InUse { address: SocketAddr },
    NotOurs { address: SocketAddr },
    Privileged { address: SocketAddr },
    Other { address: SocketAddr, reason: String },
}

impl BindError {
    fn new(address: SocketAddr, error: &io::Error) -> BindError {
        match error.raw_os_error() {
            Some(libc::EADDRINUSE) => BindError::InUse { address },
            Some(libc::EADDRNOTAVAIL) => BindError::NotOurs { address },
            Some(libc::EACCES | libc::EPERM) => BindError::Privileged { address },
            _ => BindError::Other { address, reason: error.to_string() },
        }
    }
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BindError::InUse { address } => write!(
                f,
                "another process listens on {address}; find it with `ss -ltnp 'sport = :{}'` and \
                 stop it, or choose another port",
                address.port()
            ),
            BindError::NotOurs { address } => write!(
                f,
                "{} is no address of this host; choose one that `ip addr` lists, or 0.0.0.0 for \
                 all",
                address.ip()
            ),
            BindError::Privileged { address } => write!(
                f,
                "this user may not listen on port {}; choose a port above 1023, or give the \
                 right with `setcap cap_net_bind_service=+ep` on the program",
                address.port()
            ),
            BindError::Other { address, reason } => {
                write!(f, "cannot listen on {address}: {reason}")
            }
        }
    }
}

impl std::error::Error for BindError {}

fn bind_one(address: SocketAddr, sharing: Switch) -> io::Result<OwnedFd> {
    let socket = socket::tcp_socket(address)?;
    socket::set(socket.as_fd(), Switch::ReuseAddress, 1)?;
    socket::set(socket.as_fd(), sharing, 1)?;
    socket::bind(socket.as_fd(), address)?;
    if sharing == Switch::ReuseAddress {
        // Two sockets with SO_REUSEADDR may both be bound; only one may listen.
        socket::listen(socket.as_fd(), 1)?;
    }
    Ok(socket)
}

/// Out of descriptors or memory: waiting helps, trying again at once does not.
fn is_exhausted(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM))
}

#[expect(unsafe_code, reason = "hands a socket to the executor")]
fn adopt(socket: OwnedFd) -> TcpListener {
    // SAFETY: the descriptor is given up by its owner here, so the listener is its only owner.
    unsafe { TcpListener::from_raw_fd(socket.into_raw_fd()) }
}

#[cfg(test)]
#[path = "listener_tests.rs"]
mod tests;
