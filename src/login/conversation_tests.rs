use super::*;
use crate::login::ScramMechanism;

const PLAIN: Mechanism = Mechanism::Plain;
const TOKEN: &[u8] = b"\0alice\0secret";

fn login(session_ms: u64) -> Login {
    let rules = LoginRules {
        mechanisms: vec![PLAIN, Mechanism::Scram(ScramMechanism::Sha256)],
        plain: PlainUsers::new([("alice", "secret"), ("bob", "secret")].into_iter()),
        session_ms: [session_ms, 0, 0],
    };
    Login::new(Arc::new(rules), 0)
}

fn token(login: &Login, token: &[u8], now_ms: u64) -> Result<Answered, Refusal> {
    login.token(token, &ScramUsers::default(), now_ms)
}

fn done(session_ms: u64) -> Result<Answered, Refusal> {
    let (user, token) = ("alice".to_owned(), Vec::new());
    Ok(Answered::Done { user, mechanism: PLAIN, token, session_ms })
}

#[test]
fn requests_are_open_from_the_last_token_on() {
    let login = login(0);
    assert!(!login.is_open());
    assert_eq!(login.handshake("PLAIN", 1, 1), HandshakeAnswer::Begun);
    assert!(!login.is_open() && login.is_exchanging() && !login.expects_raw_token());
    assert_eq!(token(&login, TOKEN, 2), done(0));
    assert!(login.is_open());
    assert_eq!(login.look(u64::MAX), None);
    // A session that does not end is not renewed, and the connection goes on.
    assert_eq!(login.handshake("PLAIN", 1, 3), HandshakeAnswer::LoggedIn);
    assert_eq!(token(&login, TOKEN, 3), Err(Refusal::LoggedIn));
    assert!(login.is_open());
}

#[test]
fn token_without_a_handshake_and_second_handshake_are_out_of_turn() {
    assert_eq!(token(&login(0), TOKEN, 0), Err(Refusal::NoHandshake));
    let twice = login(0);
    assert_eq!(twice.handshake("PLAIN", 0, 0), HandshakeAnswer::Begun);
    assert!(twice.expects_raw_token());
    assert_eq!(twice.handshake("PLAIN", 0, 0), HandshakeAnswer::OutOfTurn);
    assert_eq!(token(&twice, TOKEN, 0), Err(Refusal::NoHandshake));
    for name in ["plain", "SCRAM-SHA-512", "GSSAPI", ""] {
        let login = login(0);
        assert_eq!(login.handshake(name, 1, 0), HandshakeAnswer::Unsupported);
        assert_eq!(token(&login, TOKEN, 0), Err(Refusal::NoHandshake));
    }
}

#[test]
fn failed_login_is_over() {
    let login = login(0);
    login.handshake("PLAIN", 1, 0);
    let error = LoginError::WrongCredentials;
    let failed = Err(Refusal::Failed { mechanism: PLAIN, error });
    assert_eq!(token(&login, b"\0alice\0Secret", 0), failed);
    assert_eq!(login.handshake("PLAIN", 1, 0), HandshakeAnswer::OutOfTurn);
    assert!(!login.is_open());
    let long = super::super::limits::TOKEN_BYTES_MAX + 1;
    let login = self::login(0);
    login.handshake("SCRAM-SHA-256", 1, 0);
    let refusal = token(&login, &vec![b'n'; long], 0).unwrap_err();
    let Refusal::Failed { error: LoginError::Malformed { .. }, .. } = refusal else { panic!() };
}

#[test]
fn login_has_a_deadline() {
    let login = login(0);
    login.handshake("PLAIN", 1, 10);
    assert_eq!(login.look(LOGIN_MS_MAX - 1), None);
    assert_eq!(login.look(LOGIN_MS_MAX), Some(Overdue::Login));
}

#[test]
fn session_ends_unless_it_is_renewed_by_the_same_user_and_mechanism() {
    let login = login(5000);
    login.handshake("PLAIN", 1, 0);
    assert_eq!(token(&login, TOKEN, 100), done(5000));
    assert_eq!(login.look(5099), None);
    assert_eq!(login.handshake("PLAIN", 0, 4000), HandshakeAnswer::LoggedIn);
    assert_eq!(login.handshake("PLAIN", 1, 4000), HandshakeAnswer::Begun);
    assert!(!login.is_open());
    assert_eq!(token(&login, TOKEN, 4100), done(5000));
    assert!(login.is_open());
    // Not more than once a second.
    assert_eq!(login.handshake("PLAIN", 1, 4999), HandshakeAnswer::LoggedIn);
    assert!(login.is_open());
    assert_eq!(login.look(9100), Some(Overdue::Session));
    assert_eq!(login.look(9200), None);
    assert!(!login.is_open() && login.is_settled());
    // The client may still renew it, late.
    assert_eq!(login.handshake("PLAIN", 1, 9300), HandshakeAnswer::Begun);
    assert_eq!(token(&login, TOKEN, 9300), done(5000));
    assert!(login.is_open());

    login.handshake("PLAIN", 1, 12_000);
    let refusal = token(&login, b"\0bob\0secret", 12_000).unwrap_err();
    let Refusal::Failed { error: LoginError::Changed { what }, .. } = refusal else { panic!() };
    assert!(what.contains("User.alice to User.bob"), "{what}");
    assert!(!login.is_open());
}

#[test]
fn session_is_not_renewed_by_another_mechanism() {
    let login = login(5000);
    login.handshake("PLAIN", 1, 0);
    token(&login, TOKEN, 0).unwrap();
    assert_eq!(login.handshake("SCRAM-SHA-256", 1, 100), HandshakeAnswer::Begun);
    let refusal = token(&login, b"n,,n=alice,r=x", 100).unwrap_err();
    let Refusal::Failed { error: LoginError::Changed { what }, .. } = refusal else { panic!() };
    assert!(what.contains("'SCRAM-SHA-256'") && what.contains("'PLAIN'"), "{what}");
    // A renewal that does not come to its end ends the connection.
    let login = self::login(5000);
    login.handshake("PLAIN", 1, 0);
    token(&login, TOKEN, 0).unwrap();
    login.handshake("PLAIN", 1, 100);
    assert_eq!(login.look(100 + LOGIN_MS_MAX), Some(Overdue::Login));
}
