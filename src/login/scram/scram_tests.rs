//! The exchange against the vectors of the RFC, a client of the test's own, and strangers.

use super::credential::ScramCredential;
use super::exchange::{self, ScramExchange};
use super::hash::{hash, hash_bytes, hmac, salted_password};
use super::message::{ClientFinal, ClientFirst};
use super::users::ScramUsers;
use crate::login::{LoginError, ScramMechanism, Step};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;

const SECRET: &[u8] = b"kept from strangers";

fn users(mechanism: ScramMechanism, user: &str, password: &str, salt: &[u8]) -> ScramUsers {
    let mut users = ScramUsers::new(SECRET.to_vec());
    let credential = ScramCredential::from_password(mechanism, password.as_bytes(), salt, 4096);
    users.put(mechanism, user, Some(credential));
    users
}

/// A client after RFC 5802, section 3.
struct Client {
    mechanism: ScramMechanism,
    bare: String,
    password: String,
    signature: String,
}

impl Client {
    fn new(mechanism: ScramMechanism, user: &str, password: &str) -> Client {
        let user = user.replace('=', "=3D").replace(',', "=2C");
        let (bare, password) =
            (format!("n={user},r=fyko+d2lbbFgONRv9qkxdawL"), password.to_owned());
        Client { mechanism, bare, password, signature: String::new() }
    }

    fn first(&self) -> String {
        format!("n,,{}", self.bare)
    }

    fn last(&mut self, server_first: &str) -> String {
        let part = |key: &str| server_first.split(',').find_map(|part| part.strip_prefix(key));
        let salt = STANDARD.decode(part("s=").unwrap()).unwrap();
        let iterations = part("i=").unwrap().parse().unwrap();
        let salted = salted_password(self.mechanism, self.password.as_bytes(), &salt, iterations);
        let key = hmac(self.mechanism, &salted, &[b"Client Key"]);
        let without_proof = format!("c=biws,r={}", part("r=").unwrap());
        let auth = format!("{},{server_first},{without_proof}", self.bare);
        let signature = hmac(self.mechanism, &hash(self.mechanism, &key), &[auth.as_bytes()]);
        let proof: Vec<u8> = key.iter().zip(&signature).map(|(k, s)| k ^ s).collect();
        let server_key = hmac(self.mechanism, &salted, &[b"Server Key"]);
        let expected = hmac(self.mechanism, &server_key, &[auth.as_bytes()]);
        self.signature = format!("v={}", STANDARD.encode(expected));
        format!("{without_proof},p={}", STANDARD.encode(proof))
    }
}

fn log_in(client: &mut Client, users: &ScramUsers) -> Result<Step, LoginError> {
    let mut exchange = ScramExchange::begin(client.mechanism);
    let Step::Continue(first) = exchange.step(client.first().as_bytes(), users)? else {
        panic!("one message is not enough");
    };
    let last = client.last(std::str::from_utf8(&first).unwrap());
    let answer = exchange.step(last.as_bytes(), users);
    assert!(exchange.step(last.as_bytes(), users).is_err(), "an exchange was used twice");
    answer
}

/// RFC 7677, section 3, byte for byte.
#[test]
fn example_of_the_rfc_is_answered_as_it_says() {
    let sha256 = ScramMechanism::Sha256;
    let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
    let users = users(sha256, "user", "pencil", &salt);
    let (answer, next) = exchange::first(
        sha256,
        b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
        "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
        &users,
    )
    .unwrap();
    let nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
    let expected = format!("r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096");
    assert_eq!(std::str::from_utf8(&answer).unwrap(), expected);
    let last = format!("c=biws,r={nonce},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=");
    let token = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=".to_vec();
    let done = Step::Done { user: "user".to_owned(), token };
    assert_eq!(next.finish(last.as_bytes(), &users), Ok(done));
}

/// The same, and Apache Kafka's own vector of SHA-512.
#[test]
fn stored_keys_are_those_that_others_compute() {
    let sha512 = ScramMechanism::Sha512;
    let credential = ScramCredential::from_password(sha512, b"pencil", b"salt", 4096);
    let salted = salted_password(sha512, b"pencil", b"salt", 4096);
    let again = ScramCredential::from_salted_password(sha512, &salted, b"salt", 4096);
    assert_eq!(credential, again);
    assert_eq!(credential.stored_key.len(), hash_bytes(sha512));
    assert!(!format!("{credential:?}").contains("key"));
}

#[test]
fn unknown_user_is_told_the_same_each_time_in_the_form_of_the_known_and_fails_like_a_wrong_password()
 {
    for mechanism in ScramMechanism::ALL {
        let known = users(mechanism, "alice", "secret", b"0123456789abcdef01");
        let mut wrong = Client::new(mechanism, "alice", "Secret");
        assert_eq!(log_in(&mut wrong, &known), Err(LoginError::WrongCredentials));
        let mut nobody = Client::new(mechanism, "bob", "secret");
        assert_eq!(log_in(&mut nobody, &known), Err(LoginError::WrongCredentials));
        let (told, again) = (known.salt_of(mechanism, "bob"), known.salt_of(mechanism, "bob"));
        assert_eq!(told, again);
        assert_ne!(told, known.salt_of(mechanism, "carol"));
        assert_eq!((told.0.len(), told.1), (18, 4096));
        assert!(told.0.iter().all(u8::is_ascii_alphanumeric));
        let other_secret = ScramUsers::new(b"another".to_vec());
        let nobody_yet = ScramUsers::new(SECRET.to_vec());
        let none = nobody_yet.salt_of(mechanism, "bob");
        assert_eq!((none.0.len(), none.1), (32, 4096));
        assert_ne!(none, other_secret.salt_of(mechanism, "bob"));
    }
}

#[test]
fn user_that_is_deleted_in_the_middle_is_not_logged_in() {
    let sha256 = ScramMechanism::Sha256;
    let mut known = users(sha256, "alice", "secret", b"salt");
    let mut client = Client::new(sha256, "alice", "secret");
    let mut exchange = ScramExchange::begin(sha256);
    let Ok(Step::Continue(first)) = exchange.step(client.first().as_bytes(), &known) else {
        panic!()
    };
    let last = client.last(std::str::from_utf8(&first).unwrap());
    known.put(sha256, "alice", None);
    assert!(known.is_empty());
    assert_eq!(exchange.step(last.as_bytes(), &known), Err(LoginError::WrongCredentials));
}

#[test]
fn header_and_extensions_are_read_as_the_rfc_says() {
    let parsed = ClientFirst::parse(b"y,a=x=2Cy=3D,n=x=2Cy=3D,r=n0nce,ext=1,x=").unwrap();
    assert_eq!((&*parsed.user, &*parsed.authorization_id), ("x,y=", "x,y="));
    assert_eq!((parsed.header, parsed.nonce), ("y,a=x=2Cy=3D,", "n0nce"));
    assert!(ClientFirst::parse(b"n,,n=t,r=x,tokenauth=true").unwrap().is_token);
    for bad in [
        &b""[..],
        b",",
        b"n",
        b"n,",
        b"n,,",
        b"p=tls-unique,,n=user,r=x",
        b"n,b=x,n=user,r=x",
        b"n,,r=x",
        b"n,,n=,r=x",
        b"n,,n=user",
        b"n,,n=user,r=",
        b"n,,n=user,r=a b",
        b"n,,n=us=er,r=x",
        b"n,,n=us=2cer,r=x",
        b"n,,m=x,n=user,r=x",
        b"n,,n=user,r=x,m=x",
        b"n,,n=user,r=x,1=x",
        b"n,,n=us\xffer,r=x",
        b"n,,n=user,r=x\0",
    ] {
        let parsed = ClientFirst::parse(bad);
        assert!(matches!(parsed, Err(LoginError::Malformed { .. })), "{bad:?}: {parsed:?}");
    }
    for bad in [&b""[..], b"c=biws,r=x", b"r=x,c=biws,p=eA==", b"c=*,r=x,p=eA==", b"c=biws,r=x,p=*"]
    {
        assert!(ClientFinal::parse(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn another_user_another_nonce_and_another_header_are_refused() {
    let sha256 = ScramMechanism::Sha256;
    let known = users(sha256, "alice", "secret", b"salt");
    let begin = |message: &[u8]| exchange::first(sha256, message, "more", &known);
    let other = begin(b"n,a=bob,n=alice,r=x").err();
    assert_eq!(other, Some(LoginError::AuthorizationId));
    for last in ["c=biws,r=x,p=eA==", "c=eSws,r=xmore,p=eA==", "c=biws,r=xmoremore,p=eA=="] {
        let (_, next) = begin(b"n,,n=alice,r=x").unwrap();
        let outcome = next.finish(last.as_bytes(), &known);
        assert!(matches!(outcome, Err(LoginError::Malformed { .. })), "{last}: {outcome:?}");
    }
    let (_, next) = begin(b"n,,n=alice,r=x").unwrap();
    let short = next.finish(b"c=biws,r=xmore,p=eA==", &known);
    assert_eq!(short, Err(LoginError::WrongCredentials));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_name_and_password_log_in_and_no_other_password_does(
        user in "[^\u{0}]{1,20}", password in ".{1,30}", other in ".{1,30}", salt in prop::collection::vec(any::<u8>(), 1..40)
    ) {
        for mechanism in ScramMechanism::ALL {
            let known = users(mechanism, &user, &password, &salt);
            let mut client = Client::new(mechanism, &user, &password);
            let token = |client: &Client| client.signature.clone().into_bytes();
            let outcome = log_in(&mut client, &known);
            prop_assert_eq!(outcome, Ok(Step::Done { user: user.clone(), token: token(&client) }));
            if other != password {
                let mut client = Client::new(mechanism, &user, &other);
                prop_assert_eq!(log_in(&mut client, &known), Err(LoginError::WrongCredentials));
            }
        }
    }
}

proptest! {
    /// A stranger's bytes, near and far from what is right.
    #[test]
    fn nothing_that_is_sent_panics(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        near in "[npy,a-z=0-9+/]{0,60}",
        head in prop::sample::select(vec!["", "n,,", "n,,n=u,r=", "n,a=", "c=biws,r=", "c=biws,r=x,p="]),
    ) {
        let users = ScramUsers::new(SECRET.to_vec());
        for message in [bytes, format!("{head}{near}").into_bytes()] {
            let _ = ClientFirst::parse(&message);
            let _ = ClientFinal::parse(&message);
            let mut exchange = ScramExchange::begin(ScramMechanism::Sha256);
            let _ = exchange.step(&message, &users);
            let mut exchange = ScramExchange::begin(ScramMechanism::Sha512);
            let _ = exchange.step(b"n,,n=u,r=x", &users);
            let _ = exchange.step(&message, &users);
        }
    }
}
