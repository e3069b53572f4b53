//! Sessions without a network: what KIP-227 promises.

use super::*;

fn wanted(partition: i32, fetch_offset: i64) -> Wanted {
    Wanted {
        topic: TopicLabel::Id(Uuid([7; 16])),
        partition,
        fetch_offset,
        bytes_max: 100,
        current_epoch: -1,
        last_fetched_epoch: -1,
    }
}

fn request(session_id: i32, session_epoch: i32, wanted: Vec<Wanted>) -> Request {
    Request { session_id, session_epoch, by_id: true, connection: 1, wanted, forgotten: vec![] }
}

fn told(high_watermark: i64) -> Told {
    Told { high_watermark, last_stable_offset: high_watermark, log_start: 0 }
}

fn new_session(sessions: &mut FetchSessions, partitions: i32) -> i32 {
    let all = (0..partitions).map(|p| wanted(p, 0)).collect();
    match sessions.open(request(0, 0, all), 0).unwrap() {
        Context::Full { session_id, .. } => session_id,
        other => panic!("{other:?}"),
    }
}

fn partitions(context: Context) -> Vec<i32> {
    match context {
        Context::Incremental { wanted, .. } => wanted.iter().map(|w| w.partition).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn session_remembers_partitions_and_takes_changes() {
    let mut sessions = FetchSessions::new(4, 1);
    let id = new_session(&mut sessions, 3);
    assert!(id > 0);
    let mut change = request(id, 1, vec![wanted(1, 50), wanted(9, 0)]);
    change.forgotten = vec![(TopicLabel::Id(Uuid([7; 16])), 0)];
    let Context::Incremental { wanted, .. } = sessions.open(change, 1).unwrap() else { panic!() };
    let seen: Vec<_> = wanted.iter().map(|w| (w.partition, w.fetch_offset)).collect();
    assert_eq!(seen, [(1, 50), (2, 0), (9, 0)]);
    assert_eq!(sessions.partitions, 3);
}

#[test]
fn wrong_epoch_id_and_kind_of_names_have_their_errors() {
    let mut sessions = FetchSessions::new(4, 1);
    let id = new_session(&mut sessions, 1);
    let mut open = |request| sessions.open(request, 1);
    assert_eq!(open(request(id, 5, vec![])), Err(ErrorCode::InvalidFetchSessionEpoch));
    assert_eq!(open(request(id, -2, vec![])), Err(ErrorCode::InvalidFetchSessionEpoch));
    assert_eq!(open(request(id + 1, 1, vec![])), Err(ErrorCode::FetchSessionIdNotFound));
    assert_eq!(open(request(0, 5, vec![])), Err(ErrorCode::FetchSessionIdNotFound));
    let by_name = Request { by_id: false, ..request(id, 1, vec![]) };
    assert_eq!(open(by_name), Err(ErrorCode::FetchSessionTopicIdError));
    assert!(open(request(id, 1, vec![])).is_ok());
    assert_eq!(open(request(id, 1, vec![])), Err(ErrorCode::InvalidFetchSessionEpoch));
    assert!(open(request(id, 2, vec![])).is_ok());
}

#[test]
fn only_changes_are_news() {
    let mut sessions = FetchSessions::new(4, 1);
    let id = new_session(&mut sessions, 1);
    assert!(sessions.tell(id, 0, told(5), false));
    assert!(!sessions.tell(id, 0, told(5), false));
    assert!(sessions.tell(id, 0, told(5), true));
    assert!(sessions.tell(id, 0, told(6), false));
    sessions.tell_error(id, 0);
    assert!(sessions.tell(id, 0, told(6), false), "the end of an error is news");
}

#[test]
fn closing_and_starting_again_leave_nothing_behind() {
    let mut sessions = FetchSessions::new(4, 1);
    let id = new_session(&mut sessions, 2);
    let context = sessions.open(request(id, -1, vec![wanted(0, 0)]), 1).unwrap();
    assert_eq!(context, Context::Sessionless(vec![wanted(0, 0)]));
    assert!(sessions.is_empty());
    let id = new_session(&mut sessions, 2);
    let Context::Full { session_id, .. } =
        sessions.open(request(id, 0, vec![wanted(0, 0)]), 1).unwrap()
    else {
        panic!()
    };
    assert_ne!(session_id, id);
    assert_eq!((sessions.len(), sessions.partitions), (1, 1));
    sessions.close_connection(1);
    assert_eq!((sessions.len(), sessions.partitions), (0, 0));
}

#[test]
fn session_that_forgets_everything_ends() {
    let mut sessions = FetchSessions::new(4, 1);
    let id = new_session(&mut sessions, 1);
    let mut forget = request(id, 1, vec![]);
    forget.forgotten = vec![(TopicLabel::Id(Uuid([7; 16])), 0)];
    assert_eq!(sessions.open(forget, 1), Ok(Context::Sessionless(vec![])));
    assert!(sessions.is_empty());
}

#[test]
fn full_cache_gives_up_only_what_was_unused_for_long() {
    let mut sessions = FetchSessions::new(2, 1);
    let first = new_session(&mut sessions, 1);
    let second = new_session(&mut sessions, 1);
    sessions.open(request(second, 1, vec![]), 1000).unwrap();
    let soon = sessions.open(request(0, 0, vec![wanted(0, 0)]), SESSION_EVICTION_MS_MIN - 1);
    assert!(matches!(soon, Ok(Context::Full { session_id: 0, .. })));
    let late = sessions.open(request(0, 0, vec![wanted(0, 0)]), SESSION_EVICTION_MS_MIN);
    assert!(matches!(late, Ok(Context::Full { session_id: 1.., .. })));
    let gone = sessions.open(request(first, 1, vec![]), SESSION_EVICTION_MS_MIN);
    assert_eq!(gone, Err(ErrorCode::FetchSessionIdNotFound));
    assert!(sessions.open(request(second, 2, vec![]), SESSION_EVICTION_MS_MIN).is_ok());
}

#[test]
fn busy_partition_goes_to_the_end_of_the_next_answer() {
    let mut sessions = FetchSessions::new(2, 1);
    let id = new_session(&mut sessions, 4);
    assert_eq!(partitions(sessions.open(request(id, 1, vec![]), 1).unwrap()), [0, 1, 2, 3]);
    sessions.rotate(id, 1);
    assert_eq!(partitions(sessions.open(request(id, 2, vec![]), 1).unwrap()), [2, 3, 0, 1]);
    sessions.rotate(id, 3);
    assert_eq!(partitions(sessions.open(request(id, 3, vec![]), 1).unwrap()), [0, 1, 2, 3]);
}

#[test]
fn gaps_of_forgotten_partitions_are_swept() {
    let mut sessions = FetchSessions::new(2, 1);
    let id = new_session(&mut sessions, 1);
    for round in 1..200 {
        let mut swap = request(id, round, vec![wanted(round, 0)]);
        swap.forgotten = vec![(TopicLabel::Id(Uuid([7; 16])), round - 1)];
        assert_eq!(partitions(sessions.open(swap, 1).unwrap()), [round]);
        assert!(sessions.sessions[&id].partitions.len() < 20);
    }
    assert_eq!(sessions.partitions, 1);
}

#[test]
fn epoch_wraps_to_one() {
    assert_eq!(next_epoch(i32::MAX), 1);
}
