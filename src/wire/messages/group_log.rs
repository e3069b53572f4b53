//! What the group coordinator writes to `__consumer_offsets`: keys and values of its records, in
//! Apache Kafka's own schemas, so that its tools read our topic and ours reads its.
//!
//! In front of each key stands the record type (`i16`), in front of each value its version. The
//! value of a tombstone is null.

use crate::wire::codec_error::{DecodeError, EncodeError};
use crate::wire::declare::{wire, wire_nullable};
use crate::wire::primitives::Uuid;
use crate::wire::reader::Reader;
use crate::wire::schema::Message;
use crate::wire::writer::Writer;

wire! {
    /// Type 0 and 1: the offset that a group committed for a partition.
    data OffsetCommitKey<'a> versions 0-1 {
        group: &'a str;
        topic: &'a str;
        partition: i32;
    }

    /// Value of [`OffsetCommitKey`].
    data OffsetCommitValue<'a> versions 0-4, flexible 4 {
        offset: i64;
        leader_epoch: i32 = -1, in 3+, else ignored;
        metadata: &'a str;
        commit_timestamp: i64;
        expire_timestamp: i64 = -1, in 1-1, else ignored;
        topic_id: Uuid, in 4+, tag 0, else ignored;
    }

    /// Type 2: a group of the classic protocol.
    data GroupMetadataKey<'a> versions 2-2 {
        group: &'a str;
    }

    /// Value of [`GroupMetadataKey`].
    data GroupMetadataValue<'a> versions 0-4, flexible 4 {
        protocol_type: &'a str;
        generation: i32;
        protocol: Option<&'a str>;
        leader: Option<&'a str>;
        current_state_timestamp: i64 = -1, in 2+, else ignored;
        members: Vec<MemberMetadata<'a>>;
    }

    /// An element of `members` in [`GroupMetadataValue`].
    struct MemberMetadata<'a> {
        member_id: &'a str;
        group_instance_id: Option<&'a str> = None, in 3+, else ignored;
        client_id: &'a str;
        client_host: &'a str;
        rebalance_timeout: i32, in 1+, else ignored;
        session_timeout: i32;
        subscription: &'a [u8];
        assignment: &'a [u8];
    }

    /// Types 3, 4 and 6: what there is once a group of the consumer protocol (KIP-848).
    data ConsumerGroupKey<'a> versions 0-0 {
        group_id: &'a str;
    }

    /// Types 5, 7 and 8: what there is once a member.
    data ConsumerGroupMemberKey<'a> versions 0-0 {
        group_id: &'a str;
        member_id: &'a str;
    }

    /// Type 16: the topics that a regular expression means.
    data ConsumerGroupRegularExpressionKey<'a> versions 0-0 {
        group_id: &'a str;
        regular_expression: &'a str;
    }

    /// Value of type 3.
    data ConsumerGroupMetadataValue versions 0-0, flexible 0 {
        epoch: i32;
        metadata_hash: i64, tag 0;
    }

    /// Value of type 5.
    data ConsumerGroupMemberMetadataValue<'a> versions 0-0, flexible 0 {
        instance_id: Option<&'a str>;
        rack_id: Option<&'a str>;
        client_id: &'a str;
        client_host: &'a str;
        subscribed_topic_names: Vec<&'a str>;
        subscribed_topic_regex: Option<&'a str>;
        rebalance_timeout_ms: i32 = -1;
        server_assignor: Option<&'a str>;
        classic_member_metadata: Option<ClassicMemberMetadata<'a>> = None, tag 0;
    }

    /// What a member of the classic protocol says in a group of the consumer protocol.
    struct ClassicMemberMetadata<'a> {
        session_timeout_ms: i32;
        supported_protocols: Vec<ClassicProtocol<'a>>;
    }

    /// An element of `supported_protocols` in [`ClassicMemberMetadata`].
    struct ClassicProtocol<'a> {
        name: &'a str;
        metadata: &'a [u8];
    }

    /// Value of type 6.
    data ConsumerGroupTargetAssignmentMetadataValue versions 0-0, flexible 0 {
        assignment_epoch: i32;
    }

    /// Value of type 7.
    data ConsumerGroupTargetAssignmentMemberValue versions 0-0, flexible 0 {
        topic_partitions: Vec<LoggedPartitions>;
    }

    /// Value of type 8.
    data ConsumerGroupCurrentMemberAssignmentValue versions 0-0, flexible 0 {
        member_epoch: i32;
        previous_member_epoch: i32;
        state: i8;
        assigned_partitions: Vec<LoggedPartitions>;
        partitions_pending_revocation: Vec<LoggedPartitions>;
    }

    /// Partitions of a topic.
    struct LoggedPartitions {
        topic_id: Uuid;
        partitions: Vec<i32>;
        /// Of type 8: the epoch at which each partition was given, in the same order (KIP-1251).
        assignment_epochs: Option<Vec<i32>> = None, tag 0;
    }

    /// Value of type 16.
    data ConsumerGroupRegularExpressionValue<'a> versions 0-0, flexible 0 {
        topics: Vec<&'a str>;
        version: i64;
        timestamp: i64;
    }
}

wire_nullable!(ClassicMemberMetadata<'a>);

/// A key with the record type in front. Keys are never flexible, and the types 0 and 1 are versions
/// of one key.
///
/// # Errors
/// A text that does not fit its length field.
pub fn encode_key<'a, M: Message<'a>>(kind: i16, key: &M) -> Result<Vec<u8>, EncodeError> {
    let mut writer = Writer::new();
    writer.i16(kind);
    key.encode(&mut writer, M::VERSIONS.max)?;
    Ok(writer.into_bytes())
}

/// A value with its version in front.
///
/// # Errors
/// As [`encode_key`].
pub fn encode_value<'a, M: Message<'a>>(value: &M, version: i16) -> Result<Vec<u8>, EncodeError> {
    let mut writer = Writer::new();
    writer.i16(version);
    value.encode(&mut writer, version)?;
    Ok(writer.into_bytes())
}

/// The rest of a key behind its record type.
///
/// # Errors
/// Bytes that are no such key.
pub fn decode_key<'a, M: Message<'a>>(reader: &mut Reader<'a>) -> Result<M, DecodeError> {
    M::decode(reader, M::VERSIONS.max)
}

/// A value with its version in front.
///
/// # Errors
/// A version from tomorrow, or bytes that are no such value.
pub fn decode_value<'a, M: Message<'a>>(bytes: &'a [u8]) -> Result<M, DecodeError> {
    let mut reader = Reader::new(bytes);
    let version = reader.i16()?;
    M::decode(&mut reader, version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commit_has_these_bytes() {
        let key = OffsetCommitKey { group: "g", topic: "t", partition: 3 };
        let bytes = encode_key(1, &key).unwrap();
        assert_eq!(bytes, [0, 1, 0, 1, b'g', 0, 1, b't', 0, 0, 0, 3]);
        let value = OffsetCommitValue {
            offset: 7,
            metadata: "m",
            commit_timestamp: 9,
            ..Default::default()
        };
        let bytes = encode_value(&value, 3).unwrap();
        let due = [
            0, 3, 0, 0, 0, 0, 0, 0, 0, 7, 0xff, 0xff, 0xff, 0xff, 0, 1, b'm', 0, 0, 0, 0, 0, 0, 0,
            9,
        ];
        assert_eq!(bytes, due);
        assert_eq!(decode_value::<OffsetCommitValue<'_>>(&bytes).unwrap(), value);
    }

    #[test]
    fn topic_id_of_a_commit_is_a_tagged_field_that_old_readers_skip() {
        let topic_id = Uuid([5; 16]);
        let value = OffsetCommitValue { offset: 1, topic_id, ..Default::default() };
        let bytes = encode_value(&value, 4).unwrap();
        assert_eq!(bytes.last_chunk(), Some(&[5; 16]));
        assert_eq!(decode_value::<OffsetCommitValue<'_>>(&bytes).unwrap().topic_id, topic_id);
    }

    #[test]
    fn values_from_tomorrow_and_rubbish_are_errors() {
        assert!(decode_value::<GroupMetadataValue<'_>>(&[0, 5, 0, 0]).is_err());
        assert!(decode_value::<GroupMetadataValue<'_>>(&[0]).is_err());
        assert!(decode_value::<ConsumerGroupMetadataValue>(&[0, 0, 0]).is_err());
    }
}
