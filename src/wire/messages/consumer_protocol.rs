//! What consumers of classic groups say to each other through the coordinator: the embedded
//! protocol "consumer", carried as bytes in JoinGroup and SyncGroup.
//!
//! On the wire its version (`i16`) stands in front. A broker passes the bytes on unread, except
//! where it must know which topics a group still subscribes to (OffsetDelete, KIP-496), and where
//! it speaks for the leader: in groups that have members of both protocols (KIP-848).

use crate::wire::codec_error::{DecodeError, EncodeError};
use crate::wire::declare::wire;
use crate::wire::reader::Reader;
use crate::wire::schema::{Message, Versions};
use crate::wire::writer::Writer;

wire! {
    /// What a member wants: its bytes in JoinGroup.
    data ConsumerProtocolSubscription<'a> versions 0-3 {
        topics: Vec<&'a str>;
        user_data: Option<&'a [u8]> = None;
        owned_partitions: Vec<TopicPartitions<'a>>, in 1+, else ignored;
        generation_id: i32 = -1, in 2+, else ignored;
        rack_id: Option<&'a str> = None, in 3+, else ignored;
    }

    /// What a member gets: its bytes in SyncGroup.
    data ConsumerProtocolAssignment<'a> versions 0-3 {
        assigned_partitions: Vec<TopicPartitions<'a>>;
        user_data: Option<&'a [u8]> = None;
    }

    /// Partitions of a topic.
    struct TopicPartitions<'a> {
        topic: &'a str;
        partitions: Vec<i32>;
    }
}

/// Reads a value with its version in front. A version newer than the known ones is read as the
/// newest known one, as Kafka's consumers do: later versions only append fields.
///
/// # Errors
///
/// [`DecodeError`] also for bytes that never were of this protocol; other embedded protocols
/// (Connect) are opaque.
pub fn decode_prefixed<'a, M: Message<'a>>(bytes: &'a [u8]) -> Result<M, DecodeError> {
    let mut reader = Reader::new(bytes);
    let version = reader.i16()?;
    M::decode(&mut reader, version.min(M::VERSIONS.max))
}

/// The version in front of a value, as it is written for somebody who sent it: a newer one than the
/// known ones is written as the newest known.
///
/// # Errors
///
/// [`DecodeError`] when there is none, or none that was ever used.
pub fn version_to_write<'a, M: Message<'a>>(bytes: &[u8]) -> Result<i16, DecodeError> {
    let Versions { min, max } = M::VERSIONS;
    let version = Reader::new(bytes).i16()?;
    if version < min {
        return Err(DecodeError::UnknownVersion { message: M::NAME, version, min, max });
    }
    Ok(version.min(max))
}

/// A value with its version in front.
///
/// # Errors
///
/// [`EncodeError`] for a text too long for its field, or a version that is not known.
pub fn encode_prefixed<'a, M: Message<'a>>(
    value: &M,
    version: i16,
) -> Result<Vec<u8>, EncodeError> {
    let mut writer = Writer::new();
    writer.i16(version);
    value.encode(&mut writer, version)?;
    Ok(writer.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_subscriptions_are_read_as_the_newest_known() {
        // Version 9, one topic "t", no user data, nothing owned, generation 5, rack "r", and more.
        let bytes = [
            0, 9, 0, 0, 0, 1, 0, 1, b't', 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 5, 0, 1,
            b'r', 0xaa,
        ];
        let subscription: ConsumerProtocolSubscription<'_> = decode_prefixed(&bytes).unwrap();
        assert_eq!(subscription.topics, ["t"]);
        assert_eq!((subscription.generation_id, subscription.rack_id), (5, Some("r")));
    }

    /// The bytes that Apache Kafka 4.3.1 answers to a SyncGroup in a group of both protocols.
    #[test]
    fn assignments_are_written_in_the_version_that_the_member_wrote() {
        let topics = vec![TopicPartitions { topic: "t", partitions: vec![0, 1] }];
        let assignment =
            ConsumerProtocolAssignment { assigned_partitions: topics, user_data: None };
        let version = version_to_write::<ConsumerProtocolAssignment<'_>>(&[0, 9, 0xaa]).unwrap();
        let bytes = encode_prefixed(&assignment, version).unwrap();
        let rest =
            [0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(bytes[..2], [0, 3]);
        assert_eq!(bytes[2..], rest);
        assert_eq!(decode_prefixed::<ConsumerProtocolAssignment<'_>>(&bytes), Ok(assignment));
        for bytes in [&[0][..], &[0xff, 0xff]] {
            assert!(version_to_write::<ConsumerProtocolAssignment<'_>>(bytes).is_err());
        }
    }

    #[test]
    fn negative_versions_are_refused() {
        let refused = decode_prefixed::<ConsumerProtocolAssignment<'_>>(&[0xff, 0xff, 0, 0]);
        assert!(matches!(refused, Err(DecodeError::UnknownVersion { version: -1, .. })));
    }
}
