#![no_main]
use millstream::login::ScramMechanism;
use millstream::login::jaas::plain_users;
use millstream::login::plain::PlainUsers;
use millstream::login::scram::exchange::ScramExchange;
use millstream::login::scram::users::ScramUsers;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let users = ScramUsers::default();
    for mechanism in ScramMechanism::ALL {
        let mut first = ScramExchange::begin(mechanism);
        let _ = first.step(data, &users);
        let mut last = ScramExchange::begin(mechanism);
        let _ = last.step(b"n,,n=user,r=nonce", &users);
        assert!(last.step(data, &users).is_err(), "nobody has logged in");
    }
    assert!(PlainUsers::default().login(data).is_err(), "nobody has logged in");
    let _ = std::str::from_utf8(data).map(plain_users);
});
