//! Where the broker listens and what address it tells clients.
//!
//! A client connects by any address that works, asks for Metadata, and from then on uses the
//! address the broker *advertises*. Advertising an address that no client can use is the most
//! common mistake there is, so values that cannot work are refused here, by the name of the
//! setting that was written and, when a value was derived, of the one it was derived from.

use crate::login::LoginRules;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// `[NAME://]HOST:PORT`, as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The listener's name, `PLAINTEXT` unless given.
    pub name: String,
    /// A name or an address; an IPv6 address without its brackets.
    pub host: String,
    pub port: u16,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "{}://[{}]:{}", self.name, self.host, self.port),
            false => write!(f, "{}://{}:{}", self.name, self.host, self.port),
        }
    }
}

/// One listener: where it binds and what it advertises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    pub bind: Endpoint,
    /// Port 0 stands for the port that is really bound; it never reaches a client.
    pub advertised: Endpoint,
    /// Whether `advertised` was derived from `bind`.
    pub derived: bool,
    /// What a login takes; `None` lets everybody in.
    pub login: Option<Arc<LoginRules>>,
}

/// Why the listeners cannot work. The text names the setting and says what to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerError {
    pub what: String,
}

impl fmt::Display for ListenerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

/// Parses `listeners` and `advertised.listeners`; gives the listeners and warnings in words.
pub fn parse(
    listeners: &str,
    advertised: Option<&str>,
) -> Result<(Vec<Listener>, Vec<String>), ListenerError> {
    let binds = endpoints("listeners", listeners)?;
    if binds.is_empty() {
        return refuse("listeners is empty: name at least one HOST:PORT to listen on".to_owned());
    }
    check_unique("listeners", &binds)?;
    let advertised = match advertised {
        Some(text) => endpoints("advertised.listeners", text)?,
        None => Vec::new(),
    };
    check_unique("advertised.listeners", &advertised)?;
    if let Some(stray) = advertised.iter().find(|a| binds.iter().all(|b| b.name != a.name)) {
        let known = binds.iter().map(|bind| bind.name.as_str()).collect::<Vec<_>>().join(", ");
        return refuse(format!(
            "advertised.listeners names {stray}, but listeners has no listener called {}; it has \
             {known}",
            stray.name
        ));
    }
    let mut result = Vec::new();
    let mut warnings = Vec::new();
    for bind in binds {
        let given = advertised.iter().find(|endpoint| endpoint.name == bind.name).cloned();
        let listener = match given {
            Some(advertised) => given_listener(bind, advertised, &mut warnings)?,
            None => derived_listener(bind)?,
        };
        result.push(listener);
    }
    Ok((result, warnings))
}

fn given_listener(
    bind: Endpoint,
    advertised: Endpoint,
    warnings: &mut Vec<String>,
) -> Result<Listener, ListenerError> {
    if is_wildcard(&advertised.host) {
        return refuse(format!(
            "advertised.listeners says {advertised}: no client can connect to {}; write a name or \
             address by which clients reach this machine",
            shown_host(&advertised.host)
        ));
    }
    if advertised.port == 0 {
        return refuse(format!(
            "advertised.listeners says {advertised}: no client can connect to port 0; write the \
             port by which clients reach this machine"
        ));
    }
    if is_loopback(&advertised.host) && !is_loopback(&bind.host) {
        warnings.push(format!(
            "advertised.listeners says {advertised} while listener {bind} takes connections from \
             other machines: their clients will connect to themselves; advertise an address that \
             they can reach"
        ));
    }
    Ok(Listener { bind, advertised, derived: false, login: None })
}

fn derived_listener(bind: Endpoint) -> Result<Listener, ListenerError> {
    if is_wildcard(&bind.host) {
        return refuse(format!(
            "listener {bind} takes connections on every address, and advertised.listeners (derived \
             from listeners) would send clients to {}; set it with --advertise HOST:PORT to a name \
             or address by which clients reach this machine",
            shown_host(&bind.host)
        ));
    }
    let advertised = bind.clone();
    Ok(Listener { bind, advertised, derived: true, login: None })
}

/// Parses `admin.listener`; `None` when it is switched off.
pub fn parse_admin(text: &str) -> Result<Option<Endpoint>, ListenerError> {
    if text.is_empty() {
        return Ok(None);
    }
    if text.contains("://") {
        return refuse(format!(
            "admin.listener says {text}: write HOST:PORT, for example 127.0.0.1:9644"
        ));
    }
    endpoint("admin.listener", text).map(Some)
}

/// Splits a comma-separated list of endpoints.
fn endpoints(key: &str, text: &str) -> Result<Vec<Endpoint>, ListenerError> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts.map(|part| endpoint(key, part)).collect()
}

fn endpoint(key: &str, text: &str) -> Result<Endpoint, ListenerError> {
    let bad = |why: &str| ListenerError {
        what: format!(
            "{key} says {text}: {why}; write [NAME://]HOST:PORT, for example 127.0.0.1:9092 or [::1]:9092"
        ),
    };
    let (name, rest) = text.split_once("://").unwrap_or(("PLAINTEXT", text));
    let name_ok = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() || !name.chars().all(name_ok) {
        return Err(bad("the listener's name is not made of letters, digits, - and _"));
    }
    let upper = name.to_ascii_uppercase();
    let (host, port) = match rest.strip_prefix('[') {
        Some(bracketed) => {
            let (host, after) =
                bracketed.split_once(']').ok_or_else(|| bad("the closing ] is missing"))?;
            if host.parse::<std::net::Ipv6Addr>().is_err() {
                return Err(bad("between [ and ] an IPv6 address is expected"));
            }
            (host, after.strip_prefix(':').ok_or_else(|| bad("the port is missing"))?)
        }
        None => {
            let (host, port) = rest.rsplit_once(':').ok_or_else(|| bad("the port is missing"))?;
            if host.contains(':') {
                return Err(bad("an IPv6 address stands in brackets"));
            }
            (host, port)
        }
    };
    let host_ok = |c: char| c.is_ascii_alphanumeric() || ".-_:".contains(c);
    if host.is_empty() {
        return Err(bad("the host is empty"));
    }
    if host.len() > 253 || !host.chars().all(host_ok) {
        return Err(bad("the host is neither a name nor an address"));
    }
    let port = port.parse().map_err(|_| bad("the port is not a number from 0 to 65535"))?;
    Ok(Endpoint { name: upper, host: host.to_owned(), port })
}

/// No two of one name, no two of one host and port (port 0 is another each time).
fn check_unique(key: &str, endpoints: &[Endpoint]) -> Result<(), ListenerError> {
    for (index, this) in endpoints.iter().enumerate() {
        for other in &endpoints[..index] {
            if this.name == other.name {
                return refuse(format!(
                    "{key} has two entries called {}: {other} and {this}; give each its own name",
                    this.name
                ));
            }
            let same_host = this.host == other.host
                || (key == "listeners" && (is_wildcard(&this.host) || is_wildcard(&other.host)));
            if this.port != 0 && this.port == other.port && same_host {
                return refuse(format!(
                    "{key} has two entries on one port: {other} and {this}; give each its own port"
                ));
            }
        }
    }
    Ok(())
}

fn is_wildcard(host: &str) -> bool {
    host.parse::<IpAddr>().is_ok_and(|address| address.is_unspecified())
}

fn is_loopback(host: &str) -> bool {
    let by_name = host.eq_ignore_ascii_case("localhost");
    by_name || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn shown_host(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

fn refuse<T>(what: String) -> Result<T, ListenerError> {
    Err(ListenerError { what })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(listeners: &str, advertised: Option<&str>) -> Listener {
        parse(listeners, advertised).unwrap().0.remove(0)
    }

    fn refused(listeners: &str, advertised: Option<&str>) -> String {
        parse(listeners, advertised).unwrap_err().to_string()
    }

    #[test]
    fn plain_host_and_port_advertises_itself() {
        let listener = one("127.0.0.1:9092", None);
        assert_eq!(listener.advertised.to_string(), "PLAINTEXT://127.0.0.1:9092");
        assert!(listener.derived);
        assert_eq!(one("[::1]:0", None).bind.to_string(), "PLAINTEXT://[::1]:0");
        assert_eq!(one("localhost:9092", None).bind.host, "localhost");
    }

    #[test]
    fn two_listeners_advertise_each_its_own() {
        let (listeners, warnings) = parse(
            "INTERNAL://0.0.0.0:9092,external://0.0.0.0:9093",
            Some("EXTERNAL://kafka.example.org:19093, INTERNAL://10.0.0.1:9092"),
        )
        .unwrap();
        assert_eq!(listeners[0].advertised.host, "10.0.0.1");
        assert_eq!(listeners[1].advertised.port, 19093);
        assert!(warnings.is_empty());
    }

    #[test]
    fn address_that_no_client_can_use_is_refused_by_key_and_listener() {
        for host in ["0.0.0.0", "[::]"] {
            let text = refused(&format!("{host}:9092"), None);
            assert!(text.contains("derived from listeners"), "{text}");
            assert!(text.contains(host) && text.contains("--advertise"), "{text}");
            let text = refused("127.0.0.1:9092", Some(&format!("{host}:9092")));
            assert!(text.contains("advertised.listeners says"), "{text}");
        }
        assert!(refused("0.0.0.0:9092", Some("broker:0")).contains("port 0"));
        assert!(
            refused("127.0.0.1:9092", Some("OTHER://x:1")).contains("no listener called OTHER")
        );
        assert!(refused("A://127.0.0.1:1,A://127.0.0.1:2", None).contains("called A"));
        assert!(refused("A://127.0.0.1:1,B://127.0.0.1:1", None).contains("one port"));
        assert!(refused("A://0.0.0.0:1,B://127.0.0.1:1", Some("A://h:1")).contains("one port"));
    }

    #[test]
    fn malformed_address_is_refused_with_the_right_form() {
        for bad in [
            "9092",
            ":9092",
            "host",
            "host:",
            "host:x",
            "host:65536",
            "::1:9092",
            "[::1:9092",
            "[::1]9092",
            "[host]:1",
            "a b:1",
            "://h:1",
            "ho$t:1",
            "",
        ] {
            let text = refused(bad, None);
            assert!(text.contains("HOST:PORT"), "{bad}: {text}");
        }
    }

    #[test]
    fn loopback_advertised_to_other_machines_is_a_warning() {
        let (_, warnings) = parse("0.0.0.0:9092", Some("localhost:9092")).unwrap();
        assert!(warnings[0].contains("connect to themselves"), "{warnings:?}");
        assert!(parse("127.0.0.1:9092", Some("localhost:9092")).unwrap().1.is_empty());
    }
}
