//! Our codec against the crate `kafka-protocol`, which knows nothing of ours: every key, every
//! version, requests and responses, byte for byte and field by field.
//!
//! Method: bytes are generated from our schemas by a third hand (`wire_support`), decoded by both,
//! compared by field name and value, and encoded by both. A field that one codec reads elsewhere,
//! at other versions or under another name shows.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod wire_support;

use std::fmt::Write as _;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages as theirs;
use kafka_protocol::messages::{RequestKind, ResponseKind};
use kafka_protocol::protocol::{Decodable, Encodable};
use millstream::wire::header::{request_header_version, response_header_version};
use millstream::wire::messages::consumer_protocol::{
    ConsumerProtocolAssignment, ConsumerProtocolSubscription,
};
use millstream::wire::messages::end_txn_marker::EndTxnMarker;
use millstream::wire::schema::{Field, Schema, Shape};
use millstream::wire::{
    AnyRequest, AnyResponse, ApiKey, EncodeError, Message, Reader, RequestHeader, ResponseHeader,
    Writer,
};
use wire_support::tree::{Tree, parse};
use wire_support::{Plan, generate};

const SEEDS: u64 = 40;

/// Requests that the oracle lists and yet refuses to encode or decode, because they were not yet
/// stable in the Kafka it was made for. `requests_by_topic_id_are_kafkas_bytes` stands in.
const REQUESTS_THEY_REFUSE: &[(ApiKey, i16)] =
    &[(ApiKey::OffsetCommit, 10), (ApiKey::OffsetFetch, 10)];

/// Versions that the oracle lists and we do not know: two-phase commit (KIP-939) is unstable in
/// Kafka 4.3, and the oracle refuses the request too.
const UNKNOWN_TO_US: &[(ApiKey, i16)] = &[(ApiKey::InitProducerId, 6)];

/// Versions that the oracle does not know yet. `markers_with_their_transactions_version_are_kafkas_bytes`
/// stands in.
const UNKNOWN_TO_THEM: &[(ApiKey, i16)] = &[(ApiKey::WriteTxnMarkers, 2)];

/// The fields of these versions alone.
const FIELDS_UNKNOWN_TO_THEM: &[&str] = &["transaction_version"];

/// Fields that the oracle declares although none of the versions we share carries them: those of
/// InitProducerId 6, and one of ShareFetch 0, which Kafka no longer has.
const FIELDS_OF_NO_VERSION: &[&str] = &[
    "enable_2_pc",
    "keep_prepared_txn",
    "ongoing_txn_producer_id",
    "ongoing_txn_producer_epoch",
    "partition_max_bytes",
];

/// One direction of an API, as seen by either codec.
trait Direction {
    const NAME: &'static str;
    const THEY_REFUSE: &'static [(ApiKey, i16)];
    /// Debug text and encodings at every version of what `bytes` hold.
    fn ours(key: ApiKey, bytes: &[u8], version: i16) -> Result<Seen, String>;
    fn theirs(key: ApiKey, bytes: &[u8], version: i16) -> Result<Seen, String>;
    fn our_default(key: ApiKey) -> Seen;
    fn their_default(key: ApiKey) -> Seen;
    fn schema(key: ApiKey) -> &'static Schema;
}

/// What a codec makes of a message.
struct Seen {
    tree: Tree,
    /// By version from 0 on: the encoding, or why the version cannot carry the value.
    encodings: Vec<Result<Vec<u8>, Refusal>>,
    rest: usize,
}

#[derive(Debug)]
struct Refusal {
    why: String,
    /// Whether this is one of the two faults of the oracle: it drops a tagged field that the
    /// version does not have and whose loss matters, where Kafka's own writer refuses ("Attempted
    /// to write a non-default replicaState at version 13"); and it writes null where the version
    /// does not allow null (Metadata 0 with null topics), where Kafka's writer fails.
    oracle_is_lax: bool,
}

macro_rules! direction {
    ($name:ident, $ours:ident, $theirs:ident, $schema:ident, $refused:expr, [$($key:ident)*]) => {
        struct $name;

        impl Direction for $name {
            const NAME: &'static str = stringify!($name);
            const THEY_REFUSE: &'static [(ApiKey, i16)] = $refused;

            fn ours(key: ApiKey, bytes: &[u8], version: i16) -> Result<Seen, String> {
                let mut reader = Reader::new(bytes);
                let value =
                    $ours::decode(key, &mut reader, version).map_err(|error| error.to_string())?;
                Ok(Self::see_ours(key, &value, reader.remaining()))
            }

            fn theirs(key: ApiKey, bytes: &[u8], version: i16) -> Result<Seen, String> {
                let mut bytes = Bytes::copy_from_slice(bytes);
                let their_key = theirs::ApiKey::try_from(key.number()).unwrap();
                let value = $theirs::decode(their_key, &mut bytes, version)
                    .map_err(|error| format!("{error:?}"))?;
                Ok(Self::see_theirs(key, &value, bytes.len()))
            }

            fn our_default(key: ApiKey) -> Seen {
                Self::see_ours(key, &$ours::default_of(key), 0)
            }

            fn their_default(key: ApiKey) -> Seen {
                let value = match key {
                    $(ApiKey::$key => $theirs::$key(Default::default()),)*
                };
                Self::see_theirs(key, &value, 0)
            }

            fn schema(key: ApiKey) -> &'static Schema {
                key.$schema()
            }
        }

        impl $name {
            fn see_ours(key: ApiKey, value: &$ours<'_>, rest: usize) -> Seen {
                let encodings = (0..=key.versions().max).map(|version| {
                    let mut writer = Writer::new();
                    match value.encode(&mut writer, version) {
                        Ok(()) => Ok(writer.into_bytes()),
                        Err(error) => Err(refusal(&error, Self::schema(key))),
                    }
                });
                let tree = parse(&format!("{value:?}"));
                Seen { tree, encodings: encodings.collect(), rest }
            }

            fn see_theirs(key: ApiKey, value: &$theirs, rest: usize) -> Seen {
                let encodings = (0..=key.versions().max).map(|version| {
                    let mut out = BytesMut::new();
                    match value.encode(&mut out, version) {
                        Ok(()) => Ok(out.to_vec()),
                        Err(error) => Err(Refusal { why: format!("{error:#}"), oracle_is_lax: false }),
                    }
                });
                let tree = parse(&format!("{value:?}"));
                Seen { tree, encodings: encodings.collect(), rest }
            }
        }
    };
}

macro_rules! directions {
    ($($key:ident)*) => {
        direction!(
            Requests, AnyRequest, RequestKind, request_schema, REQUESTS_THEY_REFUSE, [$($key)*]
        );
        direction!(
            Responses, AnyResponse, ResponseKind, response_schema, &[], [$($key)*]
        );
    };
}

directions! {
    Produce Fetch ListOffsets Metadata OffsetCommit OffsetFetch FindCoordinator JoinGroup
    Heartbeat LeaveGroup SyncGroup DescribeGroups ListGroups SaslHandshake ApiVersions
    CreateTopics DeleteTopics DeleteRecords InitProducerId OffsetForLeaderEpoch AddPartitionsToTxn
    AddOffsetsToTxn EndTxn WriteTxnMarkers TxnOffsetCommit DescribeAcls CreateAcls DeleteAcls
    DescribeConfigs AlterConfigs AlterReplicaLogDirs DescribeLogDirs SaslAuthenticate
    CreatePartitions CreateDelegationToken RenewDelegationToken ExpireDelegationToken
    DescribeDelegationToken DeleteGroups ElectLeaders IncrementalAlterConfigs
    AlterPartitionReassignments ListPartitionReassignments OffsetDelete DescribeClientQuotas
    AlterClientQuotas DescribeUserScramCredentials AlterUserScramCredentials Vote BeginQuorumEpoch
    EndQuorumEpoch DescribeQuorum AlterPartition UpdateFeatures Envelope FetchSnapshot
    DescribeCluster DescribeProducers BrokerRegistration BrokerHeartbeat UnregisterBroker
    DescribeTransactions ListTransactions AllocateProducerIds ConsumerGroupHeartbeat
    ConsumerGroupDescribe ControllerRegistration GetTelemetrySubscriptions PushTelemetry
    AssignReplicasToDirs ListConfigResources DescribeTopicPartitions ShareGroupHeartbeat
    ShareGroupDescribe ShareFetch ShareAcknowledge AddRaftVoter RemoveRaftVoter UpdateRaftVoter
    InitializeShareGroupState ReadShareGroupState WriteShareGroupState DeleteShareGroupState
    ReadShareGroupStateSummary DescribeShareGroupOffsets AlterShareGroupOffsets
    DeleteShareGroupOffsets
}

fn plan(key: ApiKey, version: i16, unknown_tags: bool) -> Plan {
    let flexible = key.flexible_versions().contains(version);
    Plan { version, flexible, unknown_tags, smallest: false }
}

/// The differences between what two codecs made of the same bytes.
fn compare<D: Direction>(
    ours: &Seen,
    theirs: &Seen,
    key: ApiKey,
    faults: &mut String,
    place: &str,
) {
    if let Some(path) = first_difference(&ours.tree, &theirs.tree) {
        writeln!(faults, "{place}: values differ at {path}").unwrap();
    }
    if ours.rest != theirs.rest {
        writeln!(faults, "{place}: unread {} against {}", ours.rest, theirs.rest).unwrap();
    }
    for version in 0..=key.versions().max {
        if D::THEY_REFUSE.contains(&(key, version)) || UNKNOWN_TO_THEM.contains(&(key, version)) {
            continue;
        }
        let (one, other) = (&ours.encodings[version as usize], &theirs.encodings[version as usize]);
        let agree = match (one, other) {
            (Ok(one), Ok(other)) => one == other,
            (Err(refusal), Ok(_)) => refusal.oracle_is_lax,
            (Ok(_), Err(_)) => false,
            (Err(_), Err(_)) => true,
        };
        if !agree {
            let told = |bytes: &Result<Vec<u8>, Refusal>| match bytes {
                Ok(bytes) => format!("{bytes:02x?}"),
                Err(refusal) => format!("refused: {}", refusal.why),
            };
            writeln!(
                faults,
                "{place}: encoded at {version}:\n  ours   {}\n  theirs {}",
                told(one),
                told(other)
            )
            .unwrap();
        }
    }
}

fn refusal(error: &EncodeError, schema: &Schema) -> Refusal {
    let oracle_is_lax = match error {
        EncodeError::FieldNotInVersion { message, field, .. } => {
            find_field(schema, message, field).is_some_and(|field| field.tag.is_some())
        }
        EncodeError::UnexpectedNull { .. } => true,
        EncodeError::TooLong { .. } | EncodeError::UnknownVersion { .. } => false,
    };
    Refusal { why: error.to_string(), oracle_is_lax }
}

fn find_field(schema: &Schema, message: &str, name: &str) -> Option<&'static Field> {
    schema.fields.iter().find_map(|field| {
        if schema.name == message && field.name == name {
            return Some(field);
        }
        let mut shape = &field.shape;
        loop {
            match shape {
                Shape::Array(inner) | Shape::Nullable(inner) => shape = inner,
                Shape::Struct(inner) => return find_field(inner, message, name),
                _ => return None,
            }
        }
    })
}

fn first_difference(one: &Tree, other: &Tree) -> Option<String> {
    match (one, other) {
        (Tree::Struct(a), Tree::Struct(b)) => {
            let known = |name: &str| {
                !FIELDS_OF_NO_VERSION.contains(&name) || a.iter().any(|(ours, _)| ours == name)
            };
            let known_to_them = |name: &str| {
                !FIELDS_UNKNOWN_TO_THEM.contains(&name)
                    || b.iter().any(|(theirs, _)| theirs == name)
            };
            let a: Vec<_> = a.iter().filter(|(name, _)| known_to_them(name)).collect();
            let b: Vec<_> = b.iter().filter(|(name, _)| known(name)).collect();
            if a.len() != b.len() {
                return Some(format!(": {a:?} against {b:?}"));
            }
            a.into_iter().zip(b).find_map(|((name, x), (their_name, y))| {
                if name != their_name {
                    return Some(format!("{name} (they call it {their_name})"));
                }
                first_difference(x, y).map(|path| format!("{name}.{path}"))
            })
        }
        (Tree::List(a), Tree::List(b)) if a.len() == b.len() => a
            .iter()
            .zip(b)
            .enumerate()
            .find_map(|(index, (x, y))| Some(format!("{index}.{}", first_difference(x, y)?))),
        (Tree::Some(a), Tree::Some(b)) => first_difference(a, b),
        _ if one == other => None,
        _ => Some(format!(": {one:?} against {other:?}")),
    }
}

/// Runs one direction over every key and version; returns how many were compared.
fn sweep<D: Direction>(faults: &mut String) -> usize {
    let mut compared = 0;
    for key in ApiKey::ALL {
        for version in key.versions().min..=key.versions().max {
            let place = (*key, version);
            if D::THEY_REFUSE.contains(&place) || UNKNOWN_TO_THEM.contains(&place) {
                continue;
            }
            compared += 1;
            for seed in 0..SEEDS {
                let place = format!("{} {} v{version} seed {seed}", D::NAME, key.name());
                let plain = generate(D::schema(*key), plan(*key, version, false), seed);
                let seen =
                    (D::ours(*key, &plain.bytes, version), D::theirs(*key, &plain.bytes, version));
                let (ours, theirs) = match seen {
                    (Ok(ours), Ok(theirs)) => (ours, theirs),
                    (ours, theirs) => {
                        let told = |seen: Result<Seen, String>| seen.err();
                        let (ours, theirs) = (told(ours), told(theirs));
                        writeln!(faults, "{place}: ours {ours:?}, theirs {theirs:?}").unwrap();
                        continue;
                    }
                };
                compare::<D>(&ours, &theirs, *key, faults, &place);

                // What we write, they read as the same value; and the other way round.
                if let Some(Ok(encoded)) = theirs.encodings.get(version as usize) {
                    let again = D::ours(*key, encoded, version).map(|seen| seen.tree);
                    if again.as_ref() != Ok(&ours.tree) {
                        writeln!(faults, "{place}: we read their bytes as {again:?}").unwrap();
                    }
                }
                let strewn = generate(D::schema(*key), plan(*key, version, true), seed);
                let tree = D::ours(*key, &strewn.bytes, version).map(|seen| seen.tree);
                if tree.as_ref() != Ok(&ours.tree) {
                    writeln!(faults, "{place}: unknown tags are not skipped: {tree:?}").unwrap();
                }
            }
        }
    }
    compared
}

fn report(faults: String) {
    let lines: Vec<&str> = faults.lines().collect();
    let shown = lines.iter().take(60).fold(String::new(), |text, line| {
        text + &line.chars().take(400).collect::<String>() + "\n"
    });
    assert!(faults.is_empty(), "{} lines of differences, first:\n{shown}", lines.len());
}

#[test]
fn requests_are_the_oracles_byte_for_byte_and_field_by_field() {
    let mut faults = String::new();
    let compared = sweep::<Requests>(&mut faults);
    report(faults);
    assert_eq!(compared, VERSIONS_EXPECTED - UNKNOWN_TO_US.len() - REQUESTS_THEY_REFUSE.len());
}

#[test]
fn responses_are_the_oracles_byte_for_byte_and_field_by_field() {
    let mut faults = String::new();
    let compared = sweep::<Responses>(&mut faults);
    report(faults);
    assert_eq!(compared, VERSIONS_EXPECTED - UNKNOWN_TO_US.len());
}

/// Versions of all keys of the oracle together: a tripwire for a changed oracle.
const VERSIONS_EXPECTED: usize = 290;

/// Goal: no key and no version of the oracle is missing in silence.
#[test]
fn every_key_and_version_of_the_oracle_is_known() {
    let ours: Vec<i16> = ApiKey::ALL.iter().map(|key| key.number()).collect();
    let theirs_all: Vec<i16> = theirs::ApiKey::iter().map(|key| key as i16).collect();
    assert_eq!(ours, theirs_all);
    let mut versions = 0;
    for their_key in theirs::ApiKey::iter() {
        let key = ApiKey::from_number(their_key as i16).unwrap();
        let theirs = their_key.valid_versions();
        for version in theirs.min..=theirs.max {
            versions += 1;
            let known = key.versions().contains(version);
            assert_eq!(
                known,
                !UNKNOWN_TO_US.contains(&(key, version)),
                "{} v{version}",
                key.name()
            );
        }
        let ours = key.versions();
        let known = (ours.min..=ours.max).filter(|v| !UNKNOWN_TO_THEM.contains(&(key, *v))).max();
        assert!(
            theirs.min <= ours.min && known <= Some(theirs.max),
            "{}: more than theirs",
            key.name()
        );
    }
    assert_eq!(versions, VERSIONS_EXPECTED);
}

/// Goal: the requests that the oracle refuses are right too. Method: bytes that the Java client of
/// Kafka 4.3.1 wrote for the values in the comments.
#[test]
fn requests_by_topic_id_are_kafkas_bytes() {
    // Group "readers", epoch 5, member "m1", no instance; topic 0102..10: partition 3 at offset 42,
    // leader epoch 7, metadata "note".
    let commit = "087265616465727300000005036d3100020102030405060708090a0b0c0d0e0f100200000003\
                  000000000000002a00000007056e6f7465000000";
    // Stable; group "readers", no member, epoch -1, topic 0102..10 with partitions 0 and 3; group
    // "all" with null topics.
    let fetch = "03087265616465727300ffffffff020102030405060708090a0b0c0d0e0f100300000000000000\
                 03000004616c6c00ffffffff00000100";
    let seen = |key, bytes: &str| {
        let bytes: Vec<u8> = (0..bytes.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&bytes[at..at + 2], 16).unwrap())
            .collect();
        let seen = Requests::ours(key, &bytes, 10).unwrap();
        assert_eq!(seen.rest, 0);
        assert_eq!(seen.encodings[10].as_ref().unwrap(), &bytes);
        format!("{:?}", seen.tree)
    };
    let commit = seen(ApiKey::OffsetCommit, commit);
    for part in ["readers", "m1", "01020304-0506-0708-090a-0b0c0d0e0f10", "42", "note"] {
        assert!(commit.contains(part), "{part} in {commit}");
    }
    let fetch = seen(ApiKey::OffsetFetch, fetch);
    for part in ["readers", "01020304-0506-0708-090a-0b0c0d0e0f10", "all", "true"] {
        assert!(fetch.contains(part), "{part} in {fetch}");
    }
}

/// Goal: the version that the oracle does not know is right too. Method: bytes that the Java client of
/// Kafka 4.3.1 wrote: producer 7 of epoch 3 commits in partitions 0 and 3 of t, by a coordinator of
/// epoch 5, with transaction version 2.
#[test]
fn markers_with_their_transactions_version_are_kafkas_bytes() {
    let bytes = [
        &[2][..],
        &7_i64.to_be_bytes(),
        &3_i16.to_be_bytes(),
        &[1, 2, 2, b't', 3],
        &[0; 4],
        &3_i32.to_be_bytes(),
        &[0],
        &5_i32.to_be_bytes(),
        &[2, 0, 0],
    ]
    .concat();
    let seen = Requests::ours(ApiKey::WriteTxnMarkers, &bytes, 2).unwrap();
    assert_eq!((seen.rest, seen.encodings[2].as_ref().unwrap()), (0, &bytes));
    // Before, there is no place for the version.
    let before = seen.encodings[1].as_ref().unwrap();
    assert_eq!(before.len(), bytes.len() - 1);
}

#[test]
fn defaults_are_the_oracles() {
    let mut faults = String::new();
    for key in ApiKey::ALL {
        let place = format!("default request of {}", key.name());
        let (ours, theirs) = (Requests::our_default(*key), Requests::their_default(*key));
        compare::<Requests>(&ours, &theirs, *key, &mut faults, &place);
        let place = format!("default response of {}", key.name());
        let (ours, theirs) = (Responses::our_default(*key), Responses::their_default(*key));
        compare::<Responses>(&ours, &theirs, *key, &mut faults, &place);
    }
    report(faults);
}

/// Goal: values outside of requests are right too.
#[test]
fn embedded_values_are_the_oracles() {
    fn sweep<'a, O: Message<'a> + std::fmt::Debug, T: Decodable + Encodable + std::fmt::Debug>() {
        let Shape::Struct(schema) = O::SHAPE else { panic!("{} is no struct", O::NAME) };
        for version in O::VERSIONS.min..=O::VERSIONS.max {
            for seed in 0..SEEDS {
                let flexible = O::FLEXIBLE.contains(version);
                let plan = Plan { version, flexible, unknown_tags: false, smallest: false };
                let bytes: &'static [u8] = generate(schema, plan, seed).bytes.leak();
                let ours = O::decode(&mut Reader::new(bytes), version).unwrap();
                let theirs = T::decode(&mut Bytes::from_static(bytes), version).unwrap();
                let (tree, their_tree) =
                    (parse(&format!("{ours:?}")), parse(&format!("{theirs:?}")));
                assert_eq!(first_difference(&tree, &their_tree), None, "{} {version}", O::NAME);
                let mut writer = Writer::new();
                ours.encode(&mut writer, version).unwrap();
                let mut out = BytesMut::new();
                theirs.encode(&mut out, version).unwrap();
                assert_eq!(writer.into_bytes(), out, "{} {version}", O::NAME);
            }
        }
    }
    sweep::<ConsumerProtocolSubscription<'_>, theirs::ConsumerProtocolSubscription>();
    sweep::<ConsumerProtocolAssignment<'_>, theirs::ConsumerProtocolAssignment>();
    sweep::<EndTxnMarker, theirs::EndTxnMarker>();
}

#[test]
fn headers_are_the_oracles() {
    for their_key in theirs::ApiKey::iter() {
        let key = ApiKey::from_number(their_key as i16).unwrap();
        for version in key.versions().min..=key.versions().max {
            let request_version = their_key.request_header_version(version);
            assert_eq!(request_header_version(key, version), request_version, "{}", key.name());
            let response_version = their_key.response_header_version(version);
            assert_eq!(response_header_version(key, version), response_version, "{}", key.name());

            for client_id in [None, Some(""), Some("client")] {
                let ours = RequestHeader {
                    api_key: key,
                    api_version: version,
                    correlation_id: 77,
                    client_id,
                };
                let their_header = theirs::RequestHeader::default()
                    .with_request_api_key(key.number())
                    .with_request_api_version(version)
                    .with_correlation_id(77)
                    .with_client_id(
                        client_id.map(kafka_protocol::protocol::StrBytes::from_static_str),
                    );
                let mut bytes = BytesMut::new();
                their_header.encode(&mut bytes, request_version).unwrap();
                let mut writer = Writer::new();
                ours.encode(&mut writer).unwrap();
                assert_eq!(writer.into_bytes(), bytes, "{} v{version}", key.name());
                let read = RequestHeader::decode(&mut Reader::new(&bytes));
                assert_eq!(read, Ok(ours), "{} v{version}", key.name());
            }

            let mut writer = Writer::new();
            ResponseHeader { correlation_id: 77 }.encode(&mut writer, key, version);
            let mut bytes = Bytes::from(writer.into_bytes());
            let whole = bytes.clone();
            let read = theirs::ResponseHeader::decode(&mut bytes, response_version).unwrap();
            assert_eq!((read.correlation_id, bytes.len()), (77, 0), "{} v{version}", key.name());
            let read = ResponseHeader::decode(&mut Reader::new(&whole), key, version);
            assert_eq!(read, Ok(ResponseHeader { correlation_id: 77 }));
        }
    }
}
