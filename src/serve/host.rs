//! The broker's place on this machine: settings, CPUs, data directory, addresses.

use super::limits::{PORT_PATIENCE, PORT_PAUSE};
use crate::admin::http::Place;
use crate::cli::Arguments;
use crate::cluster::image::AdvertisedEndpoint;
use crate::config::{self, Config, Layer, Listener};
use millstream_io::net::{self, BindError, Bound};
use millstream_io::runtime::cpus::CoreChoice;
use millstream_io::runtime::{affinity, log};
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::path::Path;
use std::time::Instant;

/// Why the broker does not start: one sentence with what to do.
pub type Sentence = String;

/// Reads file and command line.
pub fn settings(arguments: &Arguments) -> Result<Config, Sentence> {
    let mut layers = Vec::new();
    if let Some(path) = &arguments.config_file {
        layers.push(file_layer(path)?);
    }
    layers.push(arguments.layer());
    Config::load(&layers).map_err(|error| error.to_string())
}

fn file_layer(path: &Path) -> Result<Layer, Sentence> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("cannot read the settings file {shown}: {error}"))?;
    let settings = config::file::parse(&text)
        .map_err(|error| format!("the settings file {shown} has a fault in {error}"))?;
    let settings = settings
        .into_iter()
        .map(|setting| (setting.name, setting.value, format!("line {}", setting.line)))
        .collect();
    Ok(Layer { place: format!("the settings file {shown}"), settings })
}

/// The CPUs to run on, and all that this process may use.
pub fn cpus(config: &Config) -> Result<(Vec<usize>, Vec<usize>), Sentence> {
    let allowed = affinity().map_err(|error| {
        format!("cannot ask which CPUs this process may use: {error}; check its seccomp filter")
    })?;
    let choice: CoreChoice = config.cores.parse().map_err(sentence)?;
    let chosen = choice.resolve(&allowed).map_err(sentence)?;
    Ok((chosen, allowed))
}

/// A listener with a bound socket for each core.
pub struct BoundListener {
    pub name: String,
    pub address: SocketAddr,
    pub advertised: AdvertisedEndpoint,
    /// One for each core, in order.
    pub sockets: Vec<Bound>,
}

/// Binds every listener on every core, and settles what it advertises.
pub fn bind(config: &Config, cores: usize) -> Result<Vec<BoundListener>, Sentence> {
    config.listeners.iter().map(|listener| bind_one(listener, config, cores)).collect()
}

fn bind_one(listener: &Listener, config: &Config, cores: usize) -> Result<BoundListener, Sentence> {
    let wanted = &listener.bind;
    let address = resolve(&wanted.host, wanted.port)
        .map_err(|why| format!("listeners says {wanted}: {why}; write an address of this host"))?;
    let (address, sockets) = bind_patiently(address, cores)?;
    let told = &listener.advertised;
    let port = if told.port == 0 { address.port() } else { told.port };
    if !listener.derived && config.advertised_resolve {
        resolve(&told.host, port).map_err(|why| {
            format!(
                "advertised.listeners says {told}: {why}, so clients may not reach it either; \
                 correct the name, or set advertised.listeners.resolve=false when only clients \
                 can resolve it"
            )
        })?;
    }
    let advertised =
        AdvertisedEndpoint { listener: wanted.name.clone(), host: told.host.clone(), port };
    Ok(BoundListener { name: wanted.name.clone(), address, advertised, sockets })
}

/// Binds; when the port is in use, tries again for a moment. The kernel may close the sockets of
/// a killed process a little after that process is gone, when its ring still had requests.
fn bind_patiently(address: SocketAddr, cores: usize) -> Result<(SocketAddr, Vec<Bound>), Sentence> {
    let begun = Instant::now();
    loop {
        match net::bind(address, cores) {
            Err(BindError::InUse { .. }) if begun.elapsed() < PORT_PATIENCE => pause(),
            Err(error @ BindError::InUse { .. }) => {
                return Err(format!("the port is in use: {error}"));
            }
            result => return result.map_err(sentence),
        }
    }
}

/// Binds the admin listener, if there is to be one, and says where. The default port in use is left
/// to the listener's own thread.
pub fn bind_admin(config: &Config) -> Result<Option<(Place, Option<SocketAddr>)>, Sentence> {
    let Some(admin) = &config.admin else { return Ok(None) };
    let wanted = &admin.bind;
    let shown = format!("{}:{}", wanted.host, wanted.port);
    let address = resolve(&wanted.host, wanted.port)
        .map_err(|why| format!("admin.listener says {shown}: {why}"))?;
    let begun = Instant::now();
    loop {
        match TcpListener::bind(address) {
            Ok(bound) => {
                let address = bound.local_addr().map_err(sentence)?;
                return Ok(Some((Place::Bound(bound), Some(address))));
            }
            Err(error) if error.kind() == ErrorKind::AddrInUse && !admin.given => {
                return Ok(Some((Place::Default(address), None)));
            }
            Err(error)
                if error.kind() == ErrorKind::AddrInUse && begun.elapsed() < PORT_PATIENCE =>
            {
                pause();
            }
            Err(error) => {
                return Err(format!(
                    "admin.listener says {shown}: {error}; write an address of this host with a \
                     port that no other process has, or nothing for no admin listener"
                ));
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the main thread, before any core is started")]
fn pause() {
    std::thread::sleep(PORT_PAUSE);
}

fn resolve(host: &str, port: u16) -> Result<SocketAddr, String> {
    match (host, port).to_socket_addrs() {
        Ok(mut addresses) => {
            addresses.next().ok_or_else(|| format!("this machine finds no address for {host}"))
        }
        Err(error) => Err(format!("this machine cannot resolve {host} ({error})")),
    }
}

/// `HOST:PORT` as a person writes it.
pub fn shown(endpoint: &AdvertisedEndpoint) -> String {
    match endpoint.host.contains(':') {
        true => format!("[{}]:{}", endpoint.host, endpoint.port),
        false => format!("{}:{}", endpoint.host, endpoint.port),
    }
}

/// Says in the log what a person should know about the settings.
pub fn log_warnings(config: &Config) {
    for warning in &config.warnings {
        log::warn("config", warning).emit();
    }
}

pub fn sentence(error: impl std::fmt::Display) -> Sentence {
    error.to_string()
}
