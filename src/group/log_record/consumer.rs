//! Records of groups of the consumer protocol (KIP-848), to and from bytes.

use crate::group::consumer::Epoch;
use crate::group::consumer::member::{
    ClassicMember, CurrentAssignment, HeldPartitions, MemberMetadata, MemberState, Partitions,
};
use crate::group::consumer::record::{ConsumerRecord, GroupMetadata};
use crate::wire::messages::group_log::{
    ClassicMemberMetadata, ClassicProtocol, ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupKey, ConsumerGroupMemberKey, ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue, ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue, ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue, LoggedPartitions, decode_key, decode_value,
    encode_key, encode_value,
};
use crate::wire::schema::Message;
use crate::wire::{DecodeError, EncodeError, Reader, Uuid};
use millstream_io::batch::NewRecord;
use millstream_io::units::{PartitionIndex, TopicId, TopicPartition};
use std::sync::Arc;

/// Record types, which stand in front of the keys.
mod kind {
    pub const GROUP: i16 = 3;
    pub const PARTITION_METADATA: i16 = 4;
    pub const MEMBER: i16 = 5;
    pub const TARGET: i16 = 6;
    pub const TARGET_MEMBER: i16 = 7;
    pub const CURRENT: i16 = 8;
    pub const REGULAR_EXPRESSION: i16 = 16;
}

/// The one version of all values.
const VERSION: i16 = 0;

/// The bytes of a record of `group`.
///
/// # Errors
/// A text too long for its field.
///
/// # Panics
/// With partition metadata that is no tombstone: this broker only ever removes it.
pub fn encode(group: &str, record: &ConsumerRecord) -> Result<NewRecord, EncodeError> {
    let of_group = |kind| encode_key(kind, &ConsumerGroupKey { group_id: group });
    let of_member = |kind, member_id: &Arc<str>| {
        encode_key(kind, &ConsumerGroupMemberKey { group_id: group, member_id })
    };
    let (key, value) = match record {
        ConsumerRecord::GroupMetadata(value) => {
            let value = value.map(|value| ConsumerGroupMetadataValue {
                epoch: value.epoch.get(),
                metadata_hash: value.metadata_hash,
            });
            (of_group(kind::GROUP)?, optional(value)?)
        }
        ConsumerRecord::PartitionMetadata { is_tombstone } => {
            assert!(is_tombstone, "{group:?}: partition metadata is only ever removed");
            (of_group(kind::PARTITION_METADATA)?, None)
        }
        ConsumerRecord::MemberMetadata { member, value } => {
            (of_member(kind::MEMBER, member)?, optional(value.as_ref().map(metadata_value))?)
        }
        ConsumerRecord::TargetAssignmentMetadata(epoch) => {
            let value = epoch.map(|epoch| ConsumerGroupTargetAssignmentMetadataValue {
                assignment_epoch: epoch.get(),
            });
            (of_group(kind::TARGET)?, optional(value)?)
        }
        ConsumerRecord::TargetAssignmentMember { member, value } => {
            let value = value.as_ref().map(|partitions| ConsumerGroupTargetAssignmentMemberValue {
                topic_partitions: logged(partitions.iter().map(|at| (at, None))),
            });
            (of_member(kind::TARGET_MEMBER, member)?, optional(value)?)
        }
        ConsumerRecord::CurrentMemberAssignment { member, value } => {
            let value = value.as_ref().map(|current| ConsumerGroupCurrentMemberAssignmentValue {
                member_epoch: current.epoch.get(),
                previous_member_epoch: current.previous_epoch.get(),
                state: current.state.number(),
                assigned_partitions: logged_held(&current.assigned),
                partitions_pending_revocation: logged_held(&current.revoking),
            });
            (of_member(kind::CURRENT, member)?, optional(value)?)
        }
        ConsumerRecord::RegularExpression { pattern, value } => {
            let (group_id, regular_expression) = (group, &**pattern);
            let key = ConsumerGroupRegularExpressionKey { group_id, regular_expression };
            let value = value.as_ref().map(|names| ConsumerGroupRegularExpressionValue {
                topics: names.iter().map(|name| &**name).collect(),
                version: 0,
                timestamp: 0,
            });
            (encode_key(kind::REGULAR_EXPRESSION, &key)?, optional(value)?)
        }
    };
    Ok(NewRecord { key: Some(key), value })
}

fn optional<'a, M: Message<'a>>(value: Option<M>) -> Result<Option<Vec<u8>>, EncodeError> {
    value.map(|value| encode_value(&value, VERSION)).transpose()
}

fn metadata_value(metadata: &MemberMetadata) -> ConsumerGroupMemberMetadataValue<'_> {
    let classic = metadata.classic.as_ref().map(|classic| ClassicMemberMetadata {
        session_timeout_ms: classic.session_timeout_ms,
        supported_protocols: classic
            .protocols
            .iter()
            .map(|(name, metadata)| ClassicProtocol { name, metadata })
            .collect(),
    });
    ConsumerGroupMemberMetadataValue {
        instance_id: metadata.instance_id.as_deref(),
        rack_id: metadata.rack_id.as_deref(),
        client_id: &metadata.client_id,
        client_host: &metadata.client_host,
        subscribed_topic_names: metadata.topic_names.iter().map(|name| &**name).collect(),
        subscribed_topic_regex: metadata.topic_regex.as_deref(),
        rebalance_timeout_ms: metadata.rebalance_timeout_ms,
        server_assignor: metadata.server_assignor.as_deref(),
        classic_member_metadata: classic,
    }
}

fn logged_held(held: &HeldPartitions) -> Vec<LoggedPartitions> {
    logged(held.iter().map(|(at, epoch)| (at, Some(epoch.get()))))
}

/// Partitions by topic; they come in order.
fn logged<'p>(
    partitions: impl Iterator<Item = (&'p TopicPartition, Option<i32>)>,
) -> Vec<LoggedPartitions> {
    let mut topics: Vec<LoggedPartitions> = Vec::new();
    for (at, epoch) in partitions {
        let topic_id = Uuid(*at.topic.as_bytes());
        if topics.last().is_none_or(|last| last.topic_id != topic_id) {
            let assignment_epochs = epoch.map(|_| Vec::new());
            topics.push(LoggedPartitions { topic_id, partitions: Vec::new(), assignment_epochs });
        }
        let Some(last) = topics.last_mut() else { continue };
        last.partitions.push(at.partition.get());
        if let (Some(epochs), Some(epoch)) = (&mut last.assignment_epochs, epoch) {
            epochs.push(epoch);
        }
    }
    topics
}

/// A record of the log; `None` for a kind that is not of this protocol.
///
/// # Errors
/// Bytes that are no such record, or a value of a version from tomorrow.
pub fn decode(
    kind: i16,
    key: &mut Reader<'_>,
    value: Option<&[u8]>,
) -> Result<Option<(String, ConsumerRecord)>, DecodeError> {
    let (group, record) = match kind {
        kind::GROUP => {
            let value: Option<ConsumerGroupMetadataValue> = value.map(decode_value).transpose()?;
            let value = value.map(|value| GroupMetadata {
                epoch: Epoch::new(value.epoch),
                metadata_hash: value.metadata_hash,
            });
            (group_of(key)?, ConsumerRecord::GroupMetadata(value))
        }
        kind::PARTITION_METADATA => {
            let is_tombstone = value.is_none();
            (group_of(key)?, ConsumerRecord::PartitionMetadata { is_tombstone })
        }
        kind::MEMBER => {
            let (group, member) = member_of(key)?;
            let value = value.map(decode_value).transpose()?.map(metadata);
            (group, ConsumerRecord::MemberMetadata { member, value })
        }
        kind::TARGET => {
            let value: Option<ConsumerGroupTargetAssignmentMetadataValue> =
                value.map(decode_value).transpose()?;
            let epoch = value.map(|value| Epoch::new(value.assignment_epoch));
            (group_of(key)?, ConsumerRecord::TargetAssignmentMetadata(epoch))
        }
        kind::TARGET_MEMBER => {
            let (group, member) = member_of(key)?;
            let value: Option<ConsumerGroupTargetAssignmentMemberValue> =
                value.map(decode_value).transpose()?;
            let value = value.map(|value| partitions(&value.topic_partitions));
            (group, ConsumerRecord::TargetAssignmentMember { member, value })
        }
        kind::CURRENT => {
            let (group, member) = member_of(key)?;
            let value: Option<ConsumerGroupCurrentMemberAssignmentValue> =
                value.map(decode_value).transpose()?;
            let value = value.as_ref().map(current);
            (group, ConsumerRecord::CurrentMemberAssignment { member, value })
        }
        kind::REGULAR_EXPRESSION => {
            let key: ConsumerGroupRegularExpressionKey<'_> = decode_key(key)?;
            let value: Option<ConsumerGroupRegularExpressionValue<'_>> =
                value.map(decode_value).transpose()?;
            let value = value.map(|value| value.topics.into_iter().map(Arc::from).collect());
            let pattern = Arc::from(key.regular_expression);
            (key.group_id.to_owned(), ConsumerRecord::RegularExpression { pattern, value })
        }
        _ => return Ok(None),
    };
    Ok(Some((group, record)))
}

fn group_of(key: &mut Reader<'_>) -> Result<String, DecodeError> {
    Ok(decode_key::<ConsumerGroupKey<'_>>(key)?.group_id.to_owned())
}

fn member_of(key: &mut Reader<'_>) -> Result<(String, Arc<str>), DecodeError> {
    let key: ConsumerGroupMemberKey<'_> = decode_key(key)?;
    Ok((key.group_id.to_owned(), Arc::from(key.member_id)))
}

fn metadata(value: ConsumerGroupMemberMetadataValue<'_>) -> MemberMetadata {
    let classic = value.classic_member_metadata.map(|classic| ClassicMember {
        session_timeout_ms: classic.session_timeout_ms,
        protocols: classic
            .supported_protocols
            .into_iter()
            .map(|protocol| (Arc::from(protocol.name), Arc::from(protocol.metadata)))
            .collect(),
    });
    MemberMetadata {
        instance_id: value.instance_id.map(Arc::from),
        rack_id: value.rack_id.map(Arc::from),
        client_id: Arc::from(value.client_id),
        client_host: Arc::from(value.client_host),
        topic_names: value.subscribed_topic_names.into_iter().map(Arc::from).collect(),
        topic_regex: value.subscribed_topic_regex.map(Arc::from),
        rebalance_timeout_ms: value.rebalance_timeout_ms,
        server_assignor: value.server_assignor.map(Arc::from),
        classic,
    }
}

/// A state of a later version counts as the one in which a member waits for others.
fn current(value: &ConsumerGroupCurrentMemberAssignmentValue) -> CurrentAssignment {
    let epoch = Epoch::new(value.member_epoch);
    CurrentAssignment {
        epoch,
        previous_epoch: Epoch::new(value.previous_member_epoch),
        state: MemberState::from_number(value.state).unwrap_or(MemberState::UnreleasedPartitions),
        assigned: held(&value.assigned_partitions, epoch),
        revoking: held(&value.partitions_pending_revocation, epoch),
    }
}

fn partitions(topics: &[LoggedPartitions]) -> Partitions {
    topics.iter().flat_map(of_topic).map(|(at, _)| at).collect()
}

/// Without epochs of their own, partitions have that of their member.
fn held(topics: &[LoggedPartitions], member: Epoch) -> HeldPartitions {
    let all = topics.iter().flat_map(of_topic);
    all.map(|(at, epoch)| (at, epoch.map_or(member, Epoch::new))).collect()
}

fn of_topic(
    topic: &LoggedPartitions,
) -> impl Iterator<Item = (TopicPartition, Option<i32>)> + use<'_> {
    let id = TopicId::from_bytes(topic.topic_id.0);
    topic.partitions.iter().enumerate().filter_map(move |(i, index)| {
        let partition = PartitionIndex::new(*index)?;
        let epoch = topic.assignment_epochs.as_ref().and_then(|epochs| epochs.get(i)).copied();
        Some((TopicPartition { topic: id, partition }, epoch))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    fn at(topic: u8, partition: i32) -> TopicPartition {
        TopicPartition {
            topic: TopicId::from_bytes([topic; 16]),
            partition: PartitionIndex::at(partition),
        }
    }

    fn name(text: &str) -> Arc<str> {
        Arc::from(text)
    }

    #[test]
    fn every_record_comes_back_as_it_was() {
        let metadata = MemberMetadata {
            instance_id: Some(name("i")),
            rack_id: None,
            client_id: name("c"),
            client_host: name("/h"),
            topic_names: BTreeSet::from([name("a"), name("b")]),
            topic_regex: Some(name("x.*")),
            rebalance_timeout_ms: 9,
            server_assignor: Some(name("range")),
            classic: Some(ClassicMember {
                session_timeout_ms: 7,
                protocols: vec![(name("range"), Arc::from(&b"bytes"[..]))],
            }),
        };
        let current = CurrentAssignment {
            epoch: Epoch::new(4),
            previous_epoch: Epoch::new(3),
            state: MemberState::UnrevokedPartitions,
            assigned: BTreeMap::from([(at(1, 0), Epoch::new(2)), (at(1, 5), Epoch::new(4))]),
            revoking: BTreeMap::from([(at(2, 1), Epoch::new(1))]),
        };
        let member = name("m");
        let group = GroupMetadata { epoch: Epoch::new(5), metadata_hash: -3 };
        let target = BTreeSet::from([at(1, 0), at(2, 2), at(2, 3)]);
        let names = BTreeSet::from([name("x1")]);
        let records = [
            ConsumerRecord::GroupMetadata(Some(group)),
            ConsumerRecord::GroupMetadata(None),
            ConsumerRecord::PartitionMetadata { is_tombstone: true },
            ConsumerRecord::MemberMetadata { member: member.clone(), value: Some(metadata) },
            ConsumerRecord::MemberMetadata { member: member.clone(), value: None },
            ConsumerRecord::TargetAssignmentMetadata(Some(Epoch::new(5))),
            ConsumerRecord::TargetAssignmentMember { member: member.clone(), value: Some(target) },
            ConsumerRecord::CurrentMemberAssignment { member, value: Some(current) },
            ConsumerRecord::RegularExpression { pattern: name("x.*"), value: Some(names) },
            ConsumerRecord::RegularExpression { pattern: name("x.*"), value: None },
        ];
        for record in records {
            let bytes = encode("g", &record).unwrap();
            let key = bytes.key.unwrap();
            let mut reader = Reader::new(&key);
            let kind = reader.i16().unwrap();
            let back = decode(kind, &mut reader, bytes.value.as_deref()).unwrap();
            assert_eq!(back, Some(("g".to_owned(), record)));
        }
    }
}
