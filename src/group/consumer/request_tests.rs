use super::*;
use crate::group::consumer::testing::Beat;

fn refusal(beat: &Beat) -> Option<ErrorCode> {
    let settings = ConsumerSettings::default();
    check(&beat.request(), beat.version, &settings).err().map(|error| {
        assert!(!error.to_string().is_empty());
        error.code()
    })
}

#[test]
fn fields_that_kafka_refuses_are_refused() {
    let join = || Beat::join("m1", &["t"]);
    let some = |text: &str| Some(text.to_owned());
    let mut owning = join();
    owning.owned =
        Some([crate::group::consumer::testing::Topics::new(&[("t", 1)]).partition("t", 0)].into());
    let invalid = [
        Beat { group: " ".to_owned(), ..join() },
        Beat { instance: some(""), ..join() },
        Beat { rack: some("\t"), ..join() },
        Beat { rebalance_timeout_ms: -1, ..join() },
        Beat { owned: None, ..join() },
        owning,
        Beat { names: None, ..join() },
        Beat::new(" ", 1),
        Beat::new("", -1),
        Beat::new("", -2).instance("i"),
        Beat::new("m1", -2),
        Beat::new("m1", -3).instance("i"),
        Beat::new("m1", i32::MIN),
    ];
    for beat in invalid {
        assert_eq!(refusal(&beat), Some(ErrorCode::InvalidRequest), "{beat:?}");
    }
    let unsupported = join().assignor("cooperative-sticky");
    assert_eq!(refusal(&unsupported), Some(ErrorCode::UnsupportedAssignor));
}

#[test]
fn fields_that_kafka_takes_are_taken() {
    let join = || Beat::join("m1", &["t"]);
    let taken = [
        join(),
        Beat::join("m1", &[]),
        Beat::join_by_regex("m1", ""),
        Beat { version: 0, ..Beat::join("", &["t"]) },
        join().assignor("uniform"),
        join().assignor("range").instance("i"),
        Beat { rebalance_timeout_ms: 0, ..join() },
        Beat::new("m1", 7),
        Beat::new("m1", -1),
        Beat::new("m1", -2).instance("i"),
    ];
    for beat in taken {
        assert_eq!(refusal(&beat), None, "{beat:?}");
    }
}

#[test]
fn every_refusal_has_the_code_that_clients_act_on() {
    let text = || "x".to_owned();
    let (got, current) = (Epoch::new(1), Epoch::new(2));
    let pattern = PatternError::TooLong { bytes: 1 };
    let codes = [
        (HeartbeatError::Pattern { text: text(), error: pattern }, 128),
        (HeartbeatError::GroupIsFull { members_max: 1 }, 81),
        (HeartbeatError::UnknownMember { member_id: text() }, 25),
        (HeartbeatError::UnknownInstance { instance_id: text() }, 25),
        (HeartbeatError::UnreleasedInstance { instance_id: text(), owner: text() }, 111),
        (HeartbeatError::FencedInstance { instance_id: text(), owner: text() }, 82),
        (HeartbeatError::FencedEpoch { got, current }, 110),
        (HeartbeatError::UnsupportedAssignor { asked: text(), offered: vec![] }, 112),
        (HeartbeatError::Invalid { reason: "" }, 42),
        (HeartbeatError::EpochsUsedUp { epoch: current }, -1),
    ];
    for (error, code) in codes {
        assert_eq!(error.code().number(), code, "{error}");
    }
}
