use super::super::testing::{Topics, assignment as told, subscription as wanted};
use super::*;

#[test]
fn subscription_is_read_with_what_exists_of_what_is_owned() {
    let topics = Topics::new(&[("t", 2)]);
    let bytes = wanted(&["t", "u"], &[("t", &[1, 2, -1]), ("gone", &[0])]);
    let read = subscription(&bytes, &topics).unwrap();
    assert_eq!(read.topic_names, ["t".into(), "u".into()].into());
    assert_eq!(read.owned, [topics.partition("t", 1)].into());
    assert_eq!((read.generation, read.rack_id), (-1, None));
    for bytes in [&b""[..], b"\0\x01", b"\xff\xff\0\0\0\0", b"xx"] {
        assert_eq!(subscription(bytes, &topics), Err(EmbeddedError::Malformed), "{bytes:?}");
    }
}

#[test]
fn assignment_goes_there_and_back() {
    let topics = Topics::new(&[("t", 2), ("u", 1)]);
    let all = topics.all(&["t", "u"]);
    let bytes = assignment_bytes(&all, &wanted(&["t"], &[]), &topics).unwrap();
    assert_eq!(bytes[..2], [0, 1], "the version of the subscription");
    assert_eq!(assignment(&bytes, &topics), Ok(all));
    assert_eq!(
        assignment(&told(&[("gone", &[0]), ("u", &[0, 1])]), &topics),
        Ok(topics.all(&["u"]))
    );
    assert_eq!(assignment(b"", &topics), Ok(Partitions::new()));
    assert_eq!(assignment(b"xx", &topics), Err(EmbeddedError::Malformed));
    assert_eq!(assignment_bytes(&Partitions::new(), b"", &topics), Err(EmbeddedError::Malformed));
}

#[test]
fn assignment_with_words_of_the_clients_own_is_told_apart() {
    let topics = Topics::default();
    let with = |data| {
        let value =
            ConsumerProtocolAssignment { assigned_partitions: Vec::new(), user_data: Some(data) };
        encode_prefixed(&value, 1).unwrap()
    };
    assert_eq!(assignment(&with(b"x"), &topics), Err(EmbeddedError::HasUserData));
    assert_eq!(assignment(&with(b""), &topics), Ok(Partitions::new()));
}
