//! Listeners with logins, from the settings as they are written.

use crate::config::{Config, Layer};
use crate::login::{Mechanism, ScramMechanism};

const JAAS: &str =
    "org.apache.kafka.common.security.plain.PlainLoginModule required user_alice=\"hunter2\";";

fn load(settings: &[(&str, &str)]) -> Result<Config, String> {
    let settings = settings.iter().enumerate().map(|(index, (name, value))| {
        ((*name).to_owned(), (*value).to_owned(), format!("line {}", index + 1))
    });
    let layer = Layer { place: "file a.toml".to_owned(), settings: settings.collect() };
    Config::load(&[layer]).map_err(|error| error.0)
}

#[test]
fn each_listener_has_its_own_mechanisms_users_and_sessions() {
    let config = load(&[
        ("listeners", "IN://127.0.0.1:1,OUT://127.0.0.1:2,SASL_PLAINTEXT://127.0.0.1:3"),
        (
            "listener.security.protocol.map",
            "in:PLAINTEXT, OUT:SASL_PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
        ),
        ("connections.max.reauth.ms", "7000"),
        ("listener.name.out.sasl.enabled.mechanisms", "PLAIN, SCRAM-SHA-512"),
        ("listener.name.out.plain.sasl.jaas.config", JAAS),
        ("listener.name.out.connections.max.reauth.ms", "8000"),
        ("listener.name.out.scram-sha-512.connections.max.reauth.ms", "9000"),
    ])
    .unwrap();
    assert_eq!(config.listeners[0].login, None);
    let out = config.listeners[1].login.clone().unwrap();
    let sha256 = Mechanism::Scram(ScramMechanism::Sha256);
    let sha512 = Mechanism::Scram(ScramMechanism::Sha512);
    assert_eq!(out.mechanisms, [Mechanism::Plain, sha512]);
    assert_eq!(out.session_ms, [8000, 8000, 9000]);
    assert!(out.plain.login(b"\0alice\0hunter2").is_ok());
    let other = config.listeners[2].login.clone().unwrap();
    assert_eq!((&*other.mechanisms, other.session_ms), (&[sha256, sha512][..], [7000; 3]));
    assert!(config.warnings.len() == 1 && config.warnings[0].contains("PLAIN without TLS"));
    assert!(!format!("{config:?}").contains("hunter2"));
}

#[test]
fn listener_that_cannot_be_refuses_the_start_with_the_reason() {
    let on = |name: &str| format!("{name}://127.0.0.1:1");
    let sasl = on("SASL_PLAINTEXT");
    let enabled = ("listener.name.sasl_plaintext.sasl.enabled.mechanisms", "PLAIN");
    let jaas = "listener.name.sasl_plaintext.plain.sasl.jaas.config";
    for (settings, part) in [
        (&[("listeners", &*on("SSL"))][..], "TLS is not served yet"),
        (&[("listeners", &*on("SASL_SSL"))], "TLS is not served yet"),
        (&[("listeners", &*on("OUT"))], "OUT:SASL_PLAINTEXT"),
        (&[("listener.security.protocol.map", "PLAINTEXT")], "NAME:PROTOCOL"),
        (&[("listener.security.protocol.map", "PLAINTEXT:TLS")], "one of PLAINTEXT"),
        (&[("listener.security.protocol.map", "A:SSL,a:SSL")], "two entries for A"),
        (&[("listener.security.protocol.map", "A:PLAINTEXT")], "PLAINTEXT has no security"),
        (&[("listeners", &*sasl), enabled], "has no users"),
        (&[("listeners", &*sasl), (jaas, "PlainLoginModule hunter2")], "another login module"),
        (&[("sasl.enabled.mechanisms", "GSSAPI")], "SCRAM-SHA-256"),
        (&[("listener.name.a.connections.max.reauth.ms", "-1")], "from 0 to"),
        (&[("listener.name.a.sasl.enabled.mechanisms", "PLAIN,PLAIN")], "none twice"),
    ] {
        let error = load(settings).unwrap_err();
        assert!(error.contains(part) && !error.contains("hunter2"), "{settings:?}: {error}");
    }
}

#[test]
fn setting_of_no_listener_and_unknown_setting_of_one_are_reported() {
    let config = load(&[
        ("listener.name.gone.connections.max.reauth.ms", "1000"),
        ("listener.name.plaintext.ssl.keystore.location", "/x"),
        ("listener.name.plaintext.gssapi.sasl.jaas.config", "x"),
        ("listener.name.plaintext.PLAIN.sasl.jaas.config", JAAS),
        ("listener.name.plaintext.scram-sha-256.sasl.jaas.config", "ScramLoginModule required;"),
    ])
    .unwrap();
    assert_eq!(config.warnings.len(), 5, "{:?}", config.warnings);
    assert!(config.warnings.iter().all(|warning| warning.contains("no effect")));
    assert!(config.warnings.iter().any(|warning| warning.contains("no listener called GONE")));
}
