//! Logins call by call: what is served before one, how it fails, how it ends.

use crate::support::{Broker, Client, refused};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use millstream::login::ScramMechanism;
use millstream::wire::messages::*;
use millstream::wire::{ApiKey, ErrorCode, RequestHeader, Writer};
use sha2::{Digest, Sha256};
use std::io::{Read, Write};
use std::time::{Duration, Instant};

const JAAS: &str = "listener.name.sasl_plaintext.plain.sasl.jaas.config=\
    org.apache.kafka.common.security.plain.PlainLoginModule required user_alice=\"secret\" \
    user_bob=\"other\";";
const ALICE: &[u8] = b"\0alice\0secret";

/// A broker whose first listener asks for a login, and whose second does not; its address.
fn broker_with(more: &[&str]) -> (Broker, String) {
    let mut arguments = vec![
        "--listen",
        "SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
        "--cores",
        "1",
        "--set",
        "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "--set",
        JAAS,
    ];
    arguments.extend(more);
    let broker = Broker::with(&arguments);
    let open = open_address(&broker);
    (broker, open)
}

fn open_address(broker: &Broker) -> String {
    let mut words = broker.ready.split_whitespace().filter(|word| word.starts_with("127.0.0.1:"));
    words.nth(2).unwrap().trim_end_matches([',', ';', ')']).to_owned()
}

fn handshake(client: &mut Client, version: i16, mechanism: &str) -> (i16, Vec<String>) {
    let body = client.call(version, &SaslHandshakeRequest { mechanism });
    let response: SaslHandshakeResponse<'_> = body.decode(version);
    let offered = response.mechanisms.iter().map(|name| (*name).to_owned());
    (response.error_code, offered.collect())
}

/// Error, its words, the token and the session's length.
fn authenticate(client: &mut Client, token: &[u8]) -> (i16, String, Vec<u8>, i64) {
    let request = SaslAuthenticateRequest { auth_bytes: token };
    let body = client.call(2, &request);
    let response: SaslAuthenticateResponse<'_> = body.decode(2);
    let said = response.error_message.unwrap_or_default().to_owned();
    (response.error_code, said, response.auth_bytes.to_vec(), response.session_lifetime_ms)
}

fn log_in(client: &mut Client, token: &[u8]) -> i64 {
    assert_eq!(handshake(client, 1, "PLAIN").0, 0);
    let (code, said, _, session_ms) = authenticate(client, token);
    assert_eq!(code, 0, "{said}");
    session_ms
}

fn is_served(client: &mut Client) -> bool {
    let body = client.call(9, &MetadataRequest::default());
    !body.decode::<MetadataResponse<'_>>(9).brokers.is_empty()
}

fn code(code: ErrorCode) -> i16 {
    code.number()
}

/// Adds, changes or deletes a user; the code.
fn alter(client: &mut Client, user: &str, password: Option<&str>) -> i16 {
    let mechanism = ScramMechanism::Sha256;
    let salted = salted_password(password.unwrap_or_default());
    let upsertion = alter_user_scram_credentials::ScramCredentialUpsertion {
        name: user,
        mechanism: mechanism.number(),
        iterations: 4096,
        salt: b"salt",
        salted_password: &salted,
    };
    let deletion = alter_user_scram_credentials::ScramCredentialDeletion {
        name: user,
        mechanism: mechanism.number(),
    };
    let (deletions, upsertions) = match password {
        Some(_) => (Vec::new(), vec![upsertion]),
        None => (vec![deletion], Vec::new()),
    };
    let body = client.call(0, &AlterUserScramCredentialsRequest { deletions, upsertions });
    body.decode::<AlterUserScramCredentialsResponse<'_>>(0).results[0].error_code
}

fn salted_password(password: &str) -> [u8; 32] {
    let mut salted = [0; 32];
    pbkdf2::pbkdf2_hmac::<Sha256>(password.as_bytes(), b"salt", 4096, &mut salted);
    salted
}

fn hmac(key: &[u8], message: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(message.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

/// A SCRAM-SHA-256 login from the handshake on; the code of its end.
fn scram(client: &mut Client, user: &str, password: &str) -> i16 {
    assert_eq!(handshake(client, 1, "SCRAM-SHA-256").0, 0);
    let bare = format!("n={user},r=abc");
    let (code, _, first, _) = authenticate(client, format!("n,,{bare}").as_bytes());
    assert_eq!(code, 0);
    let first = String::from_utf8(first).unwrap();
    let nonce = first.split(',').next().unwrap();
    let without_proof = format!("c=biws,{nonce}");
    // With another salt than ours the proof is wrong, as it has to be for a user that is not there.
    let client_key = hmac(&salted_password(password), "Client Key");
    let auth = format!("{bare},{first},{without_proof}");
    let signature = hmac(&Sha256::digest(&client_key), &auth);
    let proof: Vec<u8> = client_key.iter().zip(&signature).map(|(k, s)| k ^ s).collect();
    let last = format!("{without_proof},p={}", STANDARD.encode(proof));
    let (code, _, signed, _) = authenticate(client, last.as_bytes());
    if code == 0 {
        let expected = hmac(&hmac(&salted_password(password), "Server Key"), &auth);
        assert_eq!(signed, format!("v={}", STANDARD.encode(expected)).into_bytes());
    }
    code
}

#[test]
fn nothing_but_the_login_is_served_before_it() {
    let (broker, _) = broker_with(&[]);
    for api in millstream::wire::apis::TABLE {
        let mut client = broker.connect();
        let version = api.served.max;
        let header = RequestHeader {
            api_key: api.key,
            api_version: version,
            correlation_id: 1,
            client_id: Some("x"),
        };
        let mut writer = Writer::new();
        header.encode(&mut writer).unwrap();
        let body = millstream::wire::AnyRequest::default_of(api.key);
        let whole = writer.len();
        if body.encode(&mut writer, version).is_err() {
            let mut again = Writer::new();
            header.encode(&mut again).unwrap();
            assert_eq!(again.len(), whole);
            writer = again;
        }
        let bytes = writer.into_bytes();
        let length = i32::try_from(bytes.len()).unwrap().to_be_bytes();
        client.stream.write_all(&[&length[..], &bytes].concat()).unwrap();
        let answered = client.read_frame().is_ok();
        let may = [ApiKey::ApiVersions, ApiKey::SaslHandshake, ApiKey::SaslAuthenticate];
        assert_eq!(answered, may.contains(&api.key), "{}", api.key.name());
    }
    assert!(broker.logs("came before the login was done"));
}

#[test]
fn login_by_plain_opens_the_connection_and_asking_again_harms_nothing() {
    let (broker, _) = broker_with(&[]);
    let mut client = broker.connect();
    for _ in 0..2 {
        let body = client.call(0, &ApiVersionsRequest::default());
        assert_eq!(body.decode::<ApiVersionsResponse<'_>>(0).error_code, 0);
    }
    let (code_of, offered) = handshake(&mut client, 1, "PLAIN");
    assert_eq!((code_of, offered.len()), (0, 3));
    assert_eq!(authenticate(&mut client, ALICE), (0, String::new(), Vec::new(), 0));
    assert!(is_served(&mut client));
    assert_eq!(handshake(&mut client, 1, "PLAIN"), (code(ErrorCode::IllegalSaslState), vec![]));
    assert_eq!(authenticate(&mut client, ALICE).0, code(ErrorCode::IllegalSaslState));
    assert!(is_served(&mut client));
}

#[test]
fn tokens_by_themselves_follow_an_old_handshake() {
    let (broker, _) = broker_with(&[]);
    let mut client = broker.connect();
    assert_eq!(handshake(&mut client, 0, "PLAIN").0, 0);
    let length = i32::try_from(ALICE.len()).unwrap().to_be_bytes();
    client.stream.write_all(&[&length[..], ALICE].concat()).unwrap();
    assert_eq!(client.read_frame().unwrap(), b"");
    assert!(is_served(&mut client));
    let mut client = broker.connect();
    handshake(&mut client, 0, "PLAIN");
    client.stream.write_all(&[0, 0, 0, 3, 0, b'x', 0]).unwrap();
    assert!(client.is_closed());
}

#[test]
fn listener_without_login_says_so_and_goes_on() {
    let (_broker, open) = broker_with(&[]);
    let mut client = Client::connect(&open);
    assert_eq!(handshake(&mut client, 1, "PLAIN"), (code(ErrorCode::IllegalSaslState), vec![]));
    assert_eq!(authenticate(&mut client, ALICE).0, code(ErrorCode::IllegalSaslState));
    assert!(is_served(&mut client));
}

#[test]
fn what_is_out_of_turn_is_answered_once_and_ends_the_connection() {
    let (broker, _) = broker_with(&[]);
    let mut client = broker.connect();
    let (refusal, offered) = handshake(&mut client, 1, "GSSAPI");
    assert_eq!(refusal, code(ErrorCode::UnsupportedSaslMechanism));
    assert_eq!(offered, ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]);
    assert!(client.is_closed());

    let mut client = broker.connect();
    assert_eq!(authenticate(&mut client, ALICE).0, code(ErrorCode::IllegalSaslState));
    assert!(client.is_closed());

    let mut client = broker.connect();
    handshake(&mut client, 1, "PLAIN");
    assert_eq!(handshake(&mut client, 1, "PLAIN").0, code(ErrorCode::IllegalSaslState));
    assert!(client.is_closed());

    // A request between the tokens.
    let mut client = broker.connect();
    handshake(&mut client, 1, "SCRAM-SHA-256");
    assert_eq!(authenticate(&mut client, b"n,,n=alice,r=x").0, 0);
    client.send(9, &MetadataRequest::default());
    assert!(client.is_closed());
}

#[test]
fn wrong_password_and_unknown_user_are_told_apart_by_nothing_and_cost_time() {
    let (broker, open) = broker_with(&[]);
    let mut admin = Client::connect(&open);
    assert_eq!(alter(&mut admin, "carol", Some("secret")), 0);
    let failed = code(ErrorCode::SaslAuthenticationFailed);
    let mut said = Vec::new();
    for token in [&b"\0alice\0wrong"[..], b"\0nobody\0wrong"] {
        let mut client = broker.connect();
        handshake(&mut client, 1, "PLAIN");
        let begun = Instant::now();
        let (code_of, words, token, _) = authenticate(&mut client, token);
        assert_eq!((code_of, token), (failed, Vec::new()));
        assert!(begun.elapsed() >= Duration::from_millis(100));
        said.push(words);
        assert!(client.is_closed());
    }
    assert_eq!(said[0], said[1]);
    for (user, password) in [("carol", "wrong"), ("nobody", "secret")] {
        let mut client = broker.connect();
        assert_eq!(scram(&mut client, user, password), failed);
        assert!(client.is_closed());
    }
    // Strangers at the messages themselves.
    for token in [&b""[..], b"n,,", b"p=x,,n=a,r=b", &[0xff; 100], &[b'n'; 20_000]] {
        let mut client = broker.connect();
        handshake(&mut client, 1, "SCRAM-SHA-512");
        assert_eq!(authenticate(&mut client, token).0, failed);
        assert!(client.is_closed());
    }
    assert!(!broker.log().contains("secret"), "the log holds a password");
}

#[test]
fn credential_is_in_force_at_once_survives_a_kill_and_is_gone_when_deleted() {
    let (mut broker, open) = broker_with(&["--set", "admin.listener=127.0.0.1:0"]);
    let mut admin = Client::connect(&open);
    assert_eq!(alter(&mut admin, "carol", Some("one")), 0);
    assert_eq!(scram(&mut broker.connect(), "carol", "one"), 0);
    assert_eq!(alter(&mut admin, "carol", Some("two")), 0);
    let failed = code(ErrorCode::SaslAuthenticationFailed);
    assert_eq!(scram(&mut broker.connect(), "carol", "one"), failed);
    broker.kill();
    broker.start_again();
    let mut client = broker.connect();
    assert_eq!(scram(&mut client, "carol", "two"), 0);
    assert!(is_served(&mut client));
    let request = DescribeUserScramCredentialsRequest::default();
    let body = client.call(0, &request);
    let response: DescribeUserScramCredentialsResponse<'_> = body.decode(0);
    assert_eq!(response.results[0].user, "carol");
    assert_eq!(response.results[0].credential_infos[0].iterations, 4096);
    assert_eq!(alter(&mut client, "carol", None), 0);
    assert_eq!(alter(&mut client, "carol", None), code(ErrorCode::ResourceNotFound));
    assert_eq!(scram(&mut broker.connect(), "carol", "two"), failed);
    // Who is in stays in.
    assert!(is_served(&mut client));
}

#[test]
fn session_ends_unless_the_same_user_renews_it() {
    let (broker, open) = broker_with(&["--set", "connections.max.reauth.ms=2000"]);
    let mut admin = Client::connect(&open);
    let mut renewed = broker.connect();
    assert_eq!(log_in(&mut renewed, ALICE), 2000);
    let mut silent = broker.connect();
    log_in(&mut silent, ALICE);
    let mut other = broker.connect();
    log_in(&mut other, ALICE);
    let mut deleted = broker.connect();
    assert_eq!(alter(&mut admin, "carol", Some("one")), 0);
    assert_eq!(scram(&mut deleted, "carol", "one"), 0);
    assert_eq!(alter(&mut admin, "carol", None), 0);
    let failed = code(ErrorCode::SaslAuthenticationFailed);

    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(4) {
        std::thread::sleep(Duration::from_millis(1100));
        assert!(is_served(&mut renewed));
        assert_eq!(log_in(&mut renewed, ALICE), 2000);
    }
    assert!(is_served(&mut renewed));
    silent.send(9, &MetadataRequest::default());
    assert!(silent.is_closed());
    assert!(broker.logs("was not renewed"));

    handshake(&mut other, 1, "PLAIN");
    let (code_of, said, ..) = authenticate(&mut other, b"\0bob\0other");
    assert_eq!(code_of, failed);
    assert!(said.contains("Cannot change principals"), "{said}");
    assert!(other.is_closed());
    assert_eq!(scram(&mut deleted, "carol", "one"), failed);
    assert!(deleted.is_closed());
}

#[test]
fn stranger_before_the_login_gets_little_room() {
    let (broker, open) = broker_with(&["--set", "sasl.server.max.receive.size=2000"]);
    let mut client = broker.connect();
    client.stream.write_all(&2001_i32.to_be_bytes()).unwrap();
    assert!(client.is_closed());
    let mut admin = Client::connect(&open);
    admin.create("t", 1);
    let mut client = broker.connect();
    log_in(&mut client, ALICE);
    assert_eq!(client.produce("t", 0, &[&"x".repeat(5000)]).0, 0);
}

#[test]
fn hundreds_of_wrong_passwords_leave_nothing_behind() {
    let (broker, _) = broker_with(&["--set", "connection.failed.authentication.delay.ms=0"]);
    for round in 0..200 {
        let mut client = broker.connect();
        handshake(&mut client, 1, "PLAIN");
        let token = format!("\0alice\0wrong{round}");
        let failed = code(ErrorCode::SaslAuthenticationFailed);
        assert_eq!(authenticate(&mut client, token.as_bytes()).0, failed);
    }
    let mut client = broker.connect();
    log_in(&mut client, ALICE);
    assert!(is_served(&mut client));
}

#[test]
fn first_user_is_added_before_the_first_start_and_nothing_shows_a_password() {
    let data = tempfile::tempdir().unwrap();
    let add = |spec: &str| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_millstream"));
        command.arg("add-scram").arg("--data-dir").arg(data.path().join("data")).arg(spec);
        command.output().unwrap()
    };
    let added = add("SCRAM-SHA-256=[name=carol,password=hunter2,salt=c2FsdA==]");
    assert!(added.status.success(), "{added:?}");
    assert!(!String::from_utf8_lossy(&added.stdout).contains("hunter2"));
    let bad = add("SCRAM-SHA-256=[name=carol,password=hunter2,iterations=1]");
    assert!(!bad.status.success() && !String::from_utf8_lossy(&bad.stderr).contains("hunter2"));
    let listen = ["--listen", "SASL_PLAINTEXT://127.0.0.1:0"];
    let broker = Broker::on(data, &listen);
    let mut client = broker.connect();
    assert_eq!(scram(&mut client, "carol", "hunter2"), 0);
    assert!(is_served(&mut client));
    let running = std::process::Command::new(env!("CARGO_BIN_EXE_millstream"))
        .arg("add-scram")
        .arg("--data-dir")
        .arg(broker.data.path().join("data"))
        .arg("SCRAM-SHA-256=[name=dave,password=hunter2]")
        .output()
        .unwrap();
    assert!(!running.status.success());
}

#[test]
fn settings_of_a_listener_are_shown_and_its_passwords_are_not() {
    let (_broker, open) = broker_with(&[]);
    let mut client = Client::connect(&open);
    let resource = describe_configs::DescribeConfigsResource {
        resource_type: 4,
        resource_name: "1",
        configuration_keys: None,
    };
    let request = DescribeConfigsRequest {
        resources: vec![resource],
        include_synonyms: true,
        include_documentation: true,
    };
    let body = client.call(4, &request);
    let response: DescribeConfigsResponse<'_> = body.decode(4);
    let find =
        |name: &str| response.results[0].configs.iter().find(|config| config.name == name).unwrap();
    let jaas = find("listener.name.sasl_plaintext.plain.sasl.jaas.config");
    assert_eq!((jaas.value, jaas.is_sensitive, jaas.config_type), (None, true, 9));
    assert!(jaas.synonyms.iter().all(|synonym| synonym.value.is_none()));
    let kerberos = find("sasl.kerberos.min.time.before.relogin");
    assert!(kerberos.documentation.unwrap().contains("No effect") && !kerberos.read_only);
}

#[test]
fn time_of_kerberos_is_kept_and_said_to_have_no_effect() {
    let (broker, open) = broker_with(&[]);
    let mut client = Client::connect(&open);
    let key = "sasl.kerberos.min.time.before.relogin";
    assert_eq!(crate::config::alter(&mut client, 4, "1", &[(key, 0, Some("58000"))]).0, 0);
    assert!(broker.logs("a setting was changed that has no effect"));
}

#[test]
fn start_is_refused_for_a_listener_of_tls_with_the_reason() {
    let data = tempfile::tempdir().unwrap();
    let (status, said) = refused(data.path(), &["--listen", "SASL_SSL://127.0.0.1:0"]);
    assert!(!status.success() && said.contains("TLS is not served yet"), "{said}");
}

/// One byte a second: the deadline counts, not the last byte.
#[test]
#[ignore = "takes half a minute; ./tests/run --long"]
fn slow_login_has_a_deadline() {
    let (broker, _) = broker_with(&[]);
    let mut client = broker.connect();
    let begun = Instant::now();
    client.stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    client.stream.write_all(&256_i32.to_be_bytes()).unwrap();
    loop {
        let sent = client.stream.write_all(&[0]);
        let closed = matches!(client.stream.read(&mut [0]), Ok(0)) || sent.is_err();
        if closed {
            assert!(begun.elapsed() > Duration::from_secs(20), "it was not the deadline");
            assert!(broker.logs("its login took too long"));
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(40));
    }
}
