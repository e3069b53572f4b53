//! What consumers of classic groups say to each other through the coordinator: the embedded
//! protocol "consumer", carried as bytes in JoinGroup and SyncGroup.
//!
//! On the wire its version (`i16`) stands in front. A broker passes the bytes on unread, except
//! where it must know which topics a group still subscribes to (OffsetDelete, KIP-496).

use crate::wire::codec_error::DecodeError;
use crate::wire::declare::wire;
use crate::wire::reader::Reader;
use crate::wire::schema::Message;

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

    #[test]
    fn negative_versions_are_refused() {
        let refused = decode_prefixed::<ConsumerProtocolAssignment<'_>>(&[0xff, 0xff, 0, 0]);
        assert!(matches!(refused, Err(DecodeError::UnknownVersion { version: -1, .. })));
    }
}
