//! Which offsets of a request may be committed: what OffsetCommit and TxnOffsetCommit share.

use super::Call;
use super::topics::partition as partition_of;
use crate::cluster::image::Topic;
use crate::group::classic::Name;
use crate::group::offsets::CommittedOffset;
use crate::wire::ErrorCode;
use millstream_io::clock::Clock;
use millstream_io::units::TimestampMs;
use std::sync::Arc;

/// One offset as a request has it.
pub struct Wish<'a> {
    pub partition: i32,
    pub offset: i64,
    pub leader_epoch: i32,
    pub metadata: Option<&'a str>,
}

/// The offsets of one request, sorted.
pub struct ToCommit {
    /// Those that may be committed.
    pub offsets: Vec<(Name, i32, CommittedOffset)>,
    /// For each partition of each topic why it may not.
    pub refused: Vec<Vec<Option<ErrorCode>>>,
    now: TimestampMs,
    expires_at: i64,
    metadata_max: usize,
}

impl ToCommit {
    /// Of a request none of which was looked at yet. `kept_ms` is how long its client wants the
    /// offsets kept; below 0 for the broker's rule.
    pub fn new(call: &Call, kept_ms: i64) -> ToCommit {
        let now = call.core.clock.wall();
        let metadata_max = call.image().broker.offset_metadata_chars_max;
        ToCommit {
            offsets: Vec::new(),
            refused: Vec::new(),
            now,
            expires_at: if kept_ms < 0 { -1 } else { now.plus(kept_ms).get() },
            metadata_max: usize::try_from(metadata_max).unwrap_or(usize::MAX),
        }
    }

    /// Sorts the offsets of a topic that was found, or was not.
    pub fn topic<'a>(
        &mut self,
        found: Result<&Arc<Topic>, ErrorCode>,
        wishes: impl ExactSizeIterator<Item = Wish<'a>>,
    ) {
        let mut refused = Vec::with_capacity(wishes.len());
        for wish in wishes {
            let metadata = wish.metadata.unwrap_or("");
            let error = match partition_of(found, wish.partition) {
                Err(error) => Some(error),
                Ok(_) if is_longer(metadata, self.metadata_max) => {
                    Some(ErrorCode::OffsetMetadataTooLarge)
                }
                Ok(_) => None,
            };
            if let (Ok(topic), None) = (found, error) {
                let committed = CommittedOffset {
                    offset: wish.offset,
                    leader_epoch: wish.leader_epoch,
                    metadata: metadata.into(),
                    committed_at: self.now,
                    expires_at: self.expires_at,
                    topic_id: topic.id,
                };
                self.offsets.push((topic.name.clone(), wish.partition, committed));
            }
            refused.push(error);
        }
        self.refused.push(refused);
    }

    /// Whether everything was refused, so that there is nothing to ask the group for.
    pub fn is_settled(&self) -> bool {
        self.offsets.is_empty() && self.refused.iter().flatten().any(Option::is_some)
    }
}

/// Whether a text has more characters than `max`, counted as Java counts them: in units of UTF-16.
fn is_longer(text: &str, max: usize) -> bool {
    // No character takes more units than bytes, so most texts need no count.
    text.len() > max && text.encode_utf16().nth(max).is_some()
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
