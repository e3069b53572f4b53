//! Which listeners ask for a login, and what for: the settings, and those of one listener that stand
//! behind its name.
//!
//! ```text
//! listener.security.protocol.map = "OUTSIDE:SASL_PLAINTEXT"
//! listener.name.outside.sasl.enabled.mechanisms = "SCRAM-SHA-512"
//! listener.name.outside.connections.max.reauth.ms = 3600000
//! listener.name.outside.scram-sha-512.connections.max.reauth.ms = 60000
//! listener.name.outside.plain.sasl.jaas.config = "...PlainLoginModule required user_alice=\"...\";"
//! ```

use super::broker::{NO_MAX, broker_setting, live, start};
use super::setting::{Allowed, Change, Setting};
use crate::login::jaas;
use crate::login::plain::PlainUsers;
use crate::login::{LoginRules, Mechanism};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Part of the broker's table of settings.
pub(super) const LOGIN_SETTINGS: &[Setting] = &[
    start(
        "connection.failed.authentication.delay.ms",
        Allowed::Int { min: 0, max: 10_000 },
        Some("100"),
        "How long the answer to a failed login is held back; then the connection is closed.",
    ),
    start(
        REAUTH_NAME,
        Allowed::Long { min: 0, max: NO_MAX },
        Some("0"),
        "How long a login counts. A client that knows so logs in anew on the same connection before \
         that; any other request then closes the connection. 0 is for ever. One listener has its \
         own by listener.name.NAME. before this name, and one of its mechanisms by \
         listener.name.NAME.MECHANISM. before it, in small letters.",
    ),
    start(
        "listener.security.protocol.map",
        Allowed::List,
        Some("PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"),
        "What each listener speaks, as NAME:PROTOCOL, separated by commas: PLAINTEXT lets everybody \
         in, SASL_PLAINTEXT those who log in. SSL and SASL_SSL are refused at a start, as TLS is not \
         served yet.",
    ),
    start(
        MECHANISMS_NAME,
        Allowed::ListOf(&["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]),
        Some("SCRAM-SHA-256,SCRAM-SHA-512"),
        "How clients may log in on listeners of SASL_PLAINTEXT. One listener has its own by \
         listener.name.NAME. before this name. The users of PLAIN stand in \
         listener.name.NAME.plain.sasl.jaas.config, those of SCRAM are made by clients or by \
         millstream add-scram.",
    ),
    live(
        KERBEROS_NAME,
        Allowed::Long { min: 0, max: i64::MAX },
        Some("60000"),
        "No effect: Kerberos is not served. The value is kept and shown because tools set it to try \
         out whether settings can be changed; each change of it is a warning in the log.",
    ),
    start(
        "sasl.server.max.receive.size",
        Allowed::Int { min: 1024, max: NO_MAX },
        Some("524288"),
        "The largest request before a login and during one; a connection that announces a larger one \
         is closed.",
    ),
];

const REAUTH_NAME: &str = "connections.max.reauth.ms";
const MECHANISMS_NAME: &str = "sasl.enabled.mechanisms";
const JAAS_NAME: &str = "sasl.jaas.config";
const LISTENER_PREFIX: &str = "listener.name.";

/// Kept, shown, and without any effect.
pub const KERBEROS_NAME: &str = "sasl.kerberos.min.time.before.relogin";

/// The row that stands for values that nobody is shown.
static JAAS_SETTING: Setting = Setting {
    name: JAAS_NAME,
    allowed: Allowed::Password,
    default: None,
    change: Change::AtStart,
    broker_name: None,
    doc: "The users of PLAIN on one listener, as options user_NAME=\"PASSWORD\" of Kafka's \
          PlainLoginModule. It is shown to nobody.",
};

/// A setting of one listener.
#[derive(Clone, Debug)]
pub struct ListenerSetting {
    /// In capitals.
    pub listener: String,
    /// Of one mechanism alone.
    mechanism: Option<Mechanism>,
    pub setting: &'static Setting,
    /// Checked; of a password nothing.
    pub value: Option<String>,
    users: PlainUsers,
}

/// Why a setting of a listener is not taken.
pub enum BadListenerSetting {
    /// There is none of this name.
    Unknown,
    /// In words, without the value if that is a password.
    Value(String),
}

/// Whether a name is one of a listener's.
pub fn is_listener_name(name: &str) -> bool {
    name.starts_with(LISTENER_PREFIX)
}

impl ListenerSetting {
    /// Reads `listener.name.…`.
    pub fn parse(name: &str, value: &str) -> Result<ListenerSetting, BadListenerSetting> {
        let unknown = BadListenerSetting::Unknown;
        let Some(rest) = name.strip_prefix(LISTENER_PREFIX) else { return Err(unknown) };
        let Some((listener, key)) = rest.split_once('.') else { return Err(unknown) };
        let (first, behind) = key.split_once('.').unwrap_or((key, ""));
        let mechanism = Mechanism::from_name(&first.to_ascii_uppercase());
        let mechanism = mechanism.filter(|_| first == first.to_ascii_lowercase());
        let key = if mechanism.is_some() { behind } else { key };
        let mut found = ListenerSetting {
            listener: listener.to_ascii_uppercase(),
            mechanism,
            setting: &JAAS_SETTING,
            value: None,
            users: PlainUsers::default(),
        };
        match (key, mechanism) {
            (JAAS_NAME, Some(Mechanism::Plain)) => {
                let users = jaas::plain_users(value)
                    .map_err(|error| BadListenerSetting::Value(format!("{name}: {error}")))?;
                let users = users.iter().map(|(user, password)| (&**user, &**password));
                found.users = PlainUsers::new(users);
                return Ok(found);
            }
            (REAUTH_NAME, _) | (MECHANISMS_NAME, None) => {}
            _ => return Err(unknown),
        }
        let Some(setting) = broker_setting(key) else { return Err(unknown) };
        let bad = |bad: super::BadValue| BadListenerSetting::Value(bad.to_string());
        found.value = Some(setting.check(value).map_err(bad)?);
        found.setting = setting;
        Ok(found)
    }
}

/// What a listener asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Plaintext,
    SaslPlaintext,
}

/// The protocol of each listener by name, as `listener.security.protocol.map` says.
///
/// # Errors
/// In words.
pub fn protocols(map: &str) -> Result<BTreeMap<String, String>, String> {
    let key = "listener.security.protocol.map";
    let mut protocols = BTreeMap::new();
    for part in map.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let Some((name, protocol)) = part.split_once(':') else {
            return Err(format!("{key} says {part}: write NAME:PROTOCOL"));
        };
        let (name, protocol) =
            (name.trim().to_ascii_uppercase(), protocol.trim().to_ascii_uppercase());
        if !["PLAINTEXT", "SASL_PLAINTEXT", "SSL", "SASL_SSL"].contains(&&*protocol) {
            return Err(format!(
                "{key} says {part}: the protocol is one of PLAINTEXT and SASL_PLAINTEXT"
            ));
        }
        if protocols.insert(name.clone(), protocol).is_some() {
            return Err(format!("{key} has two entries for {name}; keep one"));
        }
    }
    Ok(protocols)
}

/// The protocol of one listener.
///
/// # Errors
/// In words.
pub fn protocol_of(listener: &str, map: &BTreeMap<String, String>) -> Result<Protocol, String> {
    match map.get(listener).map(String::as_str) {
        Some("PLAINTEXT") => Ok(Protocol::Plaintext),
        Some("SASL_PLAINTEXT") => Ok(Protocol::SaslPlaintext),
        Some(other) => Err(format!(
            "listener {listener} speaks {other}, and TLS is not served yet; use PLAINTEXT or \
             SASL_PLAINTEXT on a network that you trust"
        )),
        None => Err(format!(
            "listener {listener} has no security protocol; set listener.security.protocol.map to \
             {listener}:PLAINTEXT, which lets everybody in, or {listener}:SASL_PLAINTEXT, which \
             asks for a login"
        )),
    }
}

/// What a listener of SASL asks of who comes in. `value` gives the settings of all listeners, and
/// `own` those of single ones.
///
/// # Errors
/// In words.
pub fn rules_of(
    listener: &str,
    value: impl Fn(&str) -> Option<String>,
    own: &BTreeMap<String, ListenerSetting>,
    warnings: &mut Vec<String>,
) -> Result<Arc<LoginRules>, String> {
    let own: Vec<_> = own.values().filter(|own| own.listener == listener).collect();
    let find = |name: &str, mechanism: Option<Mechanism>| {
        let found = own.iter().find(|o| o.setting.name == name && o.mechanism == mechanism)?;
        found.value.clone()
    };
    let mechanisms = find(MECHANISMS_NAME, None).or_else(|| value(MECHANISMS_NAME));
    let mechanisms = mechanisms.unwrap_or_default();
    let mechanisms: Vec<_> = mechanisms.split(',').filter_map(Mechanism::from_name).collect();
    let plain = own.iter().find(|own| own.setting.name == JAAS_NAME);
    let plain = plain.map(|own| own.users.clone()).unwrap_or_default();
    if mechanisms.contains(&Mechanism::Plain) {
        let name = format!("{LISTENER_PREFIX}{}.plain.{JAAS_NAME}", listener.to_ascii_lowercase());
        if plain.is_empty() {
            return Err(format!(
                "listener {listener} offers PLAIN and has no users for it; set {name}, or take \
                 PLAIN out of {MECHANISMS_NAME}"
            ));
        }
        warnings.push(format!(
            "listener {listener} offers PLAIN without TLS: whoever is on the way to a client can \
             read its password; offer SCRAM-SHA-512 instead, or keep this listener to a network \
             that you trust"
        ));
    }
    let mut session_ms = [0; 3];
    for mechanism in Mechanism::ALL {
        let found = find(REAUTH_NAME, Some(mechanism)).or_else(|| find(REAUTH_NAME, None));
        let found = found.or_else(|| value(REAUTH_NAME)).and_then(|text| text.parse().ok());
        session_ms[mechanism.index()] = found.unwrap_or_default();
    }
    Ok(Arc::new(LoginRules { mechanisms, plain, session_ms }))
}

#[cfg(test)]
#[path = "logins_tests.rs"]
mod tests;
