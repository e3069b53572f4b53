//! Records of `__consumer_offsets` as the coordinator thinks of them, to and from bytes.

mod consumer;

pub use consumer::encode as consumer;

use super::classic::{GroupSnapshot, MemberSnapshot, Name};
use super::consumer::ConsumerRecord;
use super::offsets::CommittedOffset;
use crate::wire::messages::group_log::{
    GroupMetadataKey, GroupMetadataValue, MemberMetadata, OffsetCommitKey, OffsetCommitValue,
    decode_key, decode_value, encode_key, encode_value,
};
use crate::wire::{DecodeError, EncodeError, Reader, Uuid};
use bytes::Bytes;
use millstream_io::batch::NewRecord;
use millstream_io::units::{TimestampMs, TopicId};

/// One record. A missing value is a tombstone: what stands under the key is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogRecord {
    Offset {
        group: String,
        topic: String,
        partition: i32,
        committed: Option<CommittedOffset>,
    },
    Group {
        group: String,
        snapshot: Option<Box<GroupSnapshot>>,
    },
    /// A group of the consumer protocol (KIP-848).
    Consumer {
        group: String,
        record: ConsumerRecord,
    },
    /// A kind that this broker does not write: groups of other protocols.
    Other {
        kind: i16,
    },
}

/// Record types, which stand in front of the keys.
mod kind {
    pub const OFFSET_OLD: i16 = 0;
    pub const OFFSET: i16 = 1;
    pub const GROUP: i16 = 2;
}

/// Versions of the values that we write: for offsets the one that carries the topic id.
const OFFSET_VALUE_VERSION: i16 = 4;
const GROUP_VALUE_VERSION: i16 = 3;

/// The record of a commit; `None` removes it.
///
/// # Errors
/// A text too long for its field.
pub fn offset(
    group: &str,
    topic: &str,
    partition: i32,
    committed: Option<&CommittedOffset>,
) -> Result<NewRecord, EncodeError> {
    let key = encode_key(kind::OFFSET, &OffsetCommitKey { group, topic, partition })?;
    let value = committed.map(|committed| {
        let value = OffsetCommitValue {
            offset: committed.offset,
            leader_epoch: committed.leader_epoch,
            metadata: &committed.metadata,
            commit_timestamp: committed.committed_at.get(),
            expire_timestamp: committed.expires_at,
            topic_id: Uuid(*committed.topic_id.as_bytes()),
        };
        // Only version 1 has a place for the time that old clients give.
        let version = if committed.expires_at < 0 { OFFSET_VALUE_VERSION } else { 1 };
        encode_value(&value, version)
    });
    Ok(NewRecord { key: Some(key), value: value.transpose()? })
}

/// The record of a classic group; `None` removes it.
///
/// # Errors
/// A text or bytes too long for their field.
pub fn group(group: &str, snapshot: Option<&GroupSnapshot>) -> Result<NewRecord, EncodeError> {
    let key = encode_key(kind::GROUP, &GroupMetadataKey { group })?;
    let value = snapshot.map(|snapshot| {
        let members = snapshot.members.iter().map(member_value).collect();
        let value = GroupMetadataValue {
            protocol_type: snapshot.protocol_type.as_deref().unwrap_or(""),
            generation: snapshot.generation,
            protocol: snapshot.protocol.as_deref(),
            leader: snapshot.leader.as_deref(),
            current_state_timestamp: snapshot.state_since.map_or(-1, TimestampMs::get),
            members,
        };
        encode_value(&value, GROUP_VALUE_VERSION)
    });
    Ok(NewRecord { key: Some(key), value: value.transpose()? })
}

fn member_value(member: &MemberSnapshot) -> MemberMetadata<'_> {
    MemberMetadata {
        member_id: &member.member_id,
        group_instance_id: member.instance_id.as_deref(),
        client_id: &member.client_id,
        client_host: &member.client_host,
        rebalance_timeout: member.rebalance_timeout_ms,
        session_timeout: member.session_timeout_ms,
        subscription: &member.subscription,
        assignment: &member.assignment,
    }
}

impl LogRecord {
    /// Reads a record of the log.
    ///
    /// # Errors
    /// Bytes that are no such record, or a value of a version from tomorrow.
    pub fn decode(key: &[u8], value: Option<&[u8]>) -> Result<LogRecord, DecodeError> {
        let mut reader = Reader::new(key);
        match reader.i16()? {
            kind::OFFSET_OLD | kind::OFFSET => {
                let OffsetCommitKey { group, topic, partition } = decode_key(&mut reader)?;
                let committed = value.map(committed).transpose()?;
                let (group, topic) = (group.to_owned(), topic.to_owned());
                Ok(LogRecord::Offset { group, topic, partition, committed })
            }
            kind::GROUP => {
                let key: GroupMetadataKey<'_> = decode_key(&mut reader)?;
                let snapshot = value.map(snapshot).transpose()?.map(Box::new);
                Ok(LogRecord::Group { group: key.group.to_owned(), snapshot })
            }
            kind => Ok(match consumer::decode(kind, &mut reader, value)? {
                Some((group, record)) => LogRecord::Consumer { group, record },
                None => LogRecord::Other { kind },
            }),
        }
    }
}

fn committed(bytes: &[u8]) -> Result<CommittedOffset, DecodeError> {
    let value: OffsetCommitValue<'_> = decode_value(bytes)?;
    Ok(CommittedOffset {
        offset: value.offset,
        leader_epoch: value.leader_epoch,
        metadata: value.metadata.into(),
        committed_at: TimestampMs::new(value.commit_timestamp),
        expires_at: value.expire_timestamp,
        topic_id: TopicId::from_bytes(value.topic_id.0),
    })
}

fn snapshot(bytes: &[u8]) -> Result<GroupSnapshot, DecodeError> {
    let value: GroupMetadataValue<'_> = decode_value(bytes)?;
    let member = |member: &MemberMetadata<'_>| MemberSnapshot {
        member_id: Name::from(member.member_id),
        instance_id: member.group_instance_id.map(Name::from),
        client_id: Name::from(member.client_id),
        client_host: Name::from(member.client_host),
        rebalance_timeout_ms: member.rebalance_timeout,
        session_timeout_ms: member.session_timeout,
        subscription: Bytes::copy_from_slice(member.subscription),
        assignment: Bytes::copy_from_slice(member.assignment),
    };
    let since = value.current_state_timestamp;
    Ok(GroupSnapshot {
        protocol_type: Some(value.protocol_type).filter(|t| !t.is_empty()).map(Name::from),
        generation: value.generation,
        protocol: value.protocol.map(Name::from),
        leader: value.leader.map(Name::from),
        state_since: (since >= 0).then(|| TimestampMs::new(since)),
        members: value.members.iter().map(member).collect(),
    })
}
