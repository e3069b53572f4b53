//! OffsetCommit (key 8): stores how far a group has come. Durable before the answer.

use super::groups::{ask, name};
use super::topics::{by_id, by_name, partition as partition_of};
use super::{Answer, Call, Close};
use crate::group::ask::{Ask, Commit};
use crate::group::classic::{CommitKind, Name};
use crate::group::offsets::CommittedOffset;
use crate::wire::ErrorCode;
use crate::wire::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitResponse,
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use millstream_io::clock::Clock;

/// Version from which topics go by id (KIP-848).
const IDS_SINCE: i16 = 10;

pub async fn handle(call: &Call) -> Result<Answer, Close> {
    let request: OffsetCommitRequest<'_> = call.request()?;
    let (offsets, refused) = sorted(call, &request);
    let committed = if offsets.is_empty() && refused.iter().flatten().any(Option::is_some) {
        ErrorCode::None
    } else {
        let commit = Commit {
            member_id: name(request.member_id),
            instance_id: request.group_instance_id.map(name),
            generation: request.generation_id_or_member_epoch,
            kind: CommitKind::Plain,
            version: call.version,
            offsets,
        };
        let answered = ask(call, request.group_id, |reply| Ask::Commit(commit, reply)).await;
        answered.unwrap_or_else(|error| error)
    };
    let topics = request.topics.iter().zip(&refused).map(|(topic, refused)| {
        let one =
            |(partition, refused): (&OffsetCommitRequestPartition<'_>, &Option<ErrorCode>)| {
                let error_code = refused.unwrap_or(committed).number();
                OffsetCommitResponsePartition {
                    partition_index: partition.partition_index,
                    error_code,
                }
            };
        let partitions = topic.partitions.iter().zip(refused).map(one).collect();
        OffsetCommitResponseTopic { name: topic.name, topic_id: topic.topic_id, partitions }
    });
    call.respond(&OffsetCommitResponse { topics: topics.collect(), ..Default::default() })
}

/// Whether a text has more characters than `max`, counted as Java counts them: in units of UTF-16.
fn is_longer(text: &str, max: usize) -> bool {
    // No character takes more units than bytes, so most texts need no count.
    text.len() > max && text.encode_utf16().nth(max).is_some()
}

type Refused = Vec<Vec<Option<ErrorCode>>>;

/// What may be committed, and for each partition why it may not.
fn sorted(
    call: &Call,
    request: &OffsetCommitRequest<'_>,
) -> (Vec<(Name, i32, CommittedOffset)>, Refused) {
    let image = call.image();
    let now = call.core.clock.wall();
    let metadata_max =
        usize::try_from(image.broker.offset_metadata_chars_max).unwrap_or(usize::MAX);
    let expires_at = match request.retention_time_ms {
        ..0 => -1,
        kept => now.plus(kept).get(),
    };
    let mut offsets = Vec::new();
    let mut all = Vec::with_capacity(request.topics.len());
    for topic in &request.topics {
        let found = match call.version {
            IDS_SINCE.. => by_id(&image, topic.topic_id),
            _ => by_name(&image, topic.name),
        };
        let mut refused = Vec::with_capacity(topic.partitions.len());
        for partition in &topic.partitions {
            let metadata = partition.committed_metadata.unwrap_or("");
            let error = match partition_of(found, partition.partition_index) {
                Err(error) => Some(error),
                Ok(_) if is_longer(metadata, metadata_max) => {
                    Some(ErrorCode::OffsetMetadataTooLarge)
                }
                Ok(_) => None,
            };
            if let (Ok(topic), None) = (found, error) {
                let committed = CommittedOffset {
                    offset: partition.committed_offset,
                    leader_epoch: partition.committed_leader_epoch,
                    metadata: metadata.into(),
                    committed_at: now,
                    expires_at,
                    topic_id: topic.id,
                };
                offsets.push((topic.name.clone(), partition.partition_index, committed));
            }
            refused.push(error);
        }
        all.push(refused);
    }
    (offsets, all)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Apache Kafka 4.3.1 takes and refuses with its limit of 4096.
    #[test]
    fn metadata_is_measured_in_units_of_utf_16() {
        for (text, fits, too_long) in
            [("a", 4096, 4097), ("\u{e9}", 4096, 4097), ("\u{1f600}", 2048, 2049)]
        {
            assert!(!is_longer(&text.repeat(fits), 4096), "{fits} times {text}");
            assert!(is_longer(&text.repeat(too_long), 4096), "{too_long} times {text}");
        }
        assert!(!is_longer("", 0));
        assert!(is_longer("a", 0));
    }
}
