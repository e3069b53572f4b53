//! Fetch (key 1): record batches as they lie. KIP-74, KIP-227, KIP-320, KIP-516.
//!
//! A fetch plans its reads with the owners, waits on their shards until enough is readable, and
//! answers with pieces: heads from memory, records as refcounted memory or as ranges of files.

mod response;

use super::fetch_session::{Context, FINAL_EPOCH, Request as SessionRequest, TopicLabel, Wanted};
use super::topics::{by_id, by_name, current_epoch, partition};
use super::{Answer, Call, Close, error_codes};
use crate::authorizer::Resource;
use crate::cluster::image::{MetadataImage, Topic};
use crate::wire::ErrorCode;
use crate::wire::apis::AclOperation;
use crate::wire::messages::fetch::{FetchRequest, FetchTopic};
use millstream_io::clock::Clock;
use millstream_io::units::{LeaderEpoch, Offset};
use millstream_shards::message::{Isolation, Read, ReadLimits, ReadPlan, Want};
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// What the partitions of a fetch came to, in the order of [`Wanted`].
pub(super) type Outcome = Result<ReadPlan, ErrorCode>;

pub async fn handle(call: &Call) -> Result<Answer, Close> {
    let request: FetchRequest<'_> = call.request()?;
    let isolation = match request.isolation_level {
        0 => Isolation::ReadUncommitted,
        1 => Isolation::ReadCommitted,
        _ => return response::refused(call, ErrorCode::InvalidRequest),
    };
    let context = match open_session(call, &request) {
        Ok(context) => context,
        Err(code) => return response::refused(call, code),
    };
    let wanted = match &context {
        Context::Sessionless(wanted)
        | Context::Full { wanted, .. }
        | Context::Incremental { wanted, .. } => wanted,
    };
    let outcomes = match is_follower(&request) {
        true => {
            let refused = as_follower(call);
            wanted.iter().map(|_| Err(refused)).collect()
        }
        false => Fetching::new(call, &request, wanted, isolation).run().await,
    };
    response::respond(call, &context, outcomes)
}

/// Replicas fetch with their number; this broker has none.
fn is_follower(request: &FetchRequest<'_>) -> bool {
    request.replica_id >= 0 || request.replica_state.replica_id >= 0
}

fn as_follower(call: &Call) -> ErrorCode {
    match call.may(&call.image(), AclOperation::ClusterAction, Resource::Cluster) {
        true => ErrorCode::NotLeaderOrFollower,
        false => ErrorCode::TopicAuthorizationFailed,
    }
}

fn open_session(call: &Call, request: &FetchRequest<'_>) -> Result<Context, ErrorCode> {
    let by_id = call.version >= 13;
    let forgotten = request.forgotten_topics_data.iter().flat_map(|topic| {
        let label = label(by_id, topic.topic, topic.topic_id);
        topic.partitions.iter().map(move |partition| (label.clone(), *partition))
    });
    let session = SessionRequest {
        session_id: request.session_id,
        session_epoch: if call.version < 7 { FINAL_EPOCH } else { request.session_epoch },
        by_id,
        connection: call.caller.connection,
        wanted: wanted(by_id, &request.topics),
        forgotten: forgotten.collect(),
    };
    let now_ms = u64::try_from(call.core.clock.monotonic().as_millis()).unwrap_or(u64::MAX);
    call.core.fetch_sessions.borrow_mut().open(session, now_ms)
}

/// The partitions of a request; of one that is named twice the last naming counts.
fn wanted(by_id: bool, topics: &[FetchTopic<'_>]) -> Vec<Wanted> {
    let count = topics.iter().map(|topic| topic.partitions.len()).sum();
    let mut wanted = Vec::with_capacity(count);
    for topic in topics {
        let label = label(by_id, topic.topic, topic.topic_id);
        wanted.extend(topic.partitions.iter().map(|one| Wanted {
            topic: label.clone(),
            partition: one.partition,
            fetch_offset: one.fetch_offset,
            bytes_max: one.partition_max_bytes,
            current_epoch: one.current_leader_epoch,
            last_fetched_epoch: one.last_fetched_epoch,
        }));
    }
    if count > 1 {
        let mut seen = HashSet::with_capacity(count);
        let first_of_its_kind =
            wanted.iter().rev().map(|one| seen.insert((one.topic.clone(), one.partition)));
        let mut keep: Vec<bool> = first_of_its_kind.collect();
        if keep.contains(&false) {
            wanted.retain(|_| keep.pop().unwrap_or(true));
        }
    }
    wanted
}

fn label(by_id: bool, name: &str, id: crate::wire::Uuid) -> TopicLabel {
    if by_id { TopicLabel::Id(id) } else { TopicLabel::Name(Rc::from(name)) }
}

/// One fetch under way.
struct Fetching<'c> {
    call: &'c Call,
    wanted: &'c [Wanted],
    limits: ReadLimits,
    bytes_min: u64,
    wait: Duration,
}

impl<'c> Fetching<'c> {
    fn new(
        call: &'c Call,
        request: &FetchRequest<'_>,
        wanted: &'c [Wanted],
        isolation: Isolation,
    ) -> Fetching<'c> {
        let allowed = u64::from(call.image().broker.fetch_bytes_max);
        let bytes_max = natural(request.max_bytes).min(allowed);
        let limits = ReadLimits { bytes_max, isolation };
        let bytes_min = natural(request.min_bytes).min(bytes_max);
        let wait = Duration::from_millis(natural(request.max_wait_ms));
        Fetching { call, wanted, limits, bytes_min, wait }
    }

    /// Reads, and waits and reads again while there is too little and time is left. An error ends
    /// the wait: the client should learn of it now.
    async fn run(&self) -> Vec<Outcome> {
        let clock = self.call.core.clock;
        let begun = clock.monotonic();
        loop {
            let image = self.call.image();
            let outcomes = self.read(&image).await;
            let bytes: u64 = outcomes.iter().flatten().map(ReadPlan::bytes).sum();
            let has_error = outcomes.iter().any(Result::is_err);
            let diverges = outcomes.iter().flatten().any(|plan| plan.diverging.is_some());
            let waited = clock.monotonic().saturating_sub(begun);
            let is_done = bytes >= self.bytes_min || has_error || diverges || outcomes.is_empty();
            if is_done || waited >= self.wait || self.call.caller.hurry.is_set() {
                return outcomes;
            }
            self.wait_for_more(&image, &outcomes, bytes, self.wait - waited).await;
        }
    }

    /// One plan of all partitions, as of now.
    async fn read(&self, image: &MetadataImage) -> Vec<Outcome> {
        let mut reads = Vec::with_capacity(self.wanted.len());
        let mut topics = Readable { call: self.call, image, last: None };
        let planned: Vec<Result<(), ErrorCode>> = self
            .wanted
            .iter()
            .map(|one| read_of(topics.find(&one.topic), one).map(|read| reads.push(read)))
            .collect();
        let mut plans = self.call.core.router.read(reads, self.limits).await.into_iter();
        let outcome = |planned: Result<(), ErrorCode>| {
            planned?;
            match plans.next() {
                Some(plan) => plan.map_err(|error| error_codes::of_read(&error)),
                None => panic!("the router answered fewer reads than it was given"),
            }
        };
        planned.into_iter().map(outcome).collect()
    }

    async fn wait_for_more(
        &self,
        image: &MetadataImage,
        outcomes: &[Outcome],
        bytes: u64,
        patience: Duration,
    ) {
        let wants = self.wanted.iter().zip(outcomes).filter_map(|(one, outcome)| {
            let seen = outcome.as_ref().ok()?.readable_end;
            let at = partition(topic_of(image, &one.topic), one.partition).ok()?;
            Some(Want { at, isolation: self.limits.isolation, seen })
        });
        let router = &self.call.core.router;
        let more = async {
            router.wait_readable(wants.collect(), self.bytes_min - bytes, patience).await;
        };
        futures_lite::future::or(more, self.call.caller.hurry.wait()).await;
    }
}

/// Finds the topics of a fetch that the caller may read: one look-up for each, since partitions of a
/// topic come one after the other.
struct Readable<'c, 'i, 'w> {
    call: &'c Call,
    image: &'i MetadataImage,
    last: Option<(&'w TopicLabel, Result<&'i Arc<Topic>, ErrorCode>)>,
}

impl<'i, 'w> Readable<'_, 'i, 'w> {
    /// Whether a topic exists that the caller may not read is not told, unless it goes by id.
    fn find(&mut self, label: &'w TopicLabel) -> Result<&'i Arc<Topic>, ErrorCode> {
        if let Some((_, found)) = self.last.filter(|(last, _)| *last == label) {
            return found;
        }
        let found = topic_of(self.image, label);
        let name = match (label, found) {
            (_, Ok(topic)) => Some(&*topic.name),
            (TopicLabel::Name(name), Err(_)) => Some(&**name),
            (TopicLabel::Id(_), Err(_)) => None,
        };
        let allowed = name.map_or(Ok(()), |name| {
            self.call.allowed(self.image, AclOperation::Read, Resource::Topic(name))
        });
        let found = allowed.and(found);
        self.last = Some((label, found));
        found
    }
}

fn read_of(topic: Result<&Arc<Topic>, ErrorCode>, wanted: &Wanted) -> Result<Read, ErrorCode> {
    Ok(Read {
        at: partition(topic, wanted.partition)?,
        offset: Offset::new(wanted.fetch_offset).ok_or(ErrorCode::OffsetOutOfRange)?,
        bytes_max: natural(wanted.bytes_max),
        current: current_epoch(wanted.current_epoch),
        last_fetched: LeaderEpoch::new(wanted.last_fetched_epoch),
    })
}

fn topic_of<'i>(image: &'i MetadataImage, label: &TopicLabel) -> Result<&'i Arc<Topic>, ErrorCode> {
    match label {
        TopicLabel::Name(name) => by_name(image, name),
        TopicLabel::Id(id) => by_id(image, *id),
    }
}

/// Negative sizes and times count as none.
fn natural(value: i32) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::messages::fetch::FetchPartition;

    #[test]
    fn partition_named_twice_is_wanted_once_as_last_named() {
        let one = |partition, fetch_offset| FetchPartition {
            partition,
            fetch_offset,
            ..Default::default()
        };
        let topics = [
            FetchTopic { topic: "a", partitions: vec![one(0, 1), one(1, 2)], ..Default::default() },
            FetchTopic { topic: "a", partitions: vec![one(0, 3)], ..Default::default() },
            FetchTopic { topic: "b", partitions: vec![one(0, 4)], ..Default::default() },
        ];
        let wanted = wanted(false, &topics);
        let seen: Vec<_> = wanted.iter().map(|w| (w.partition, w.fetch_offset)).collect();
        assert_eq!(seen, [(1, 2), (0, 3), (0, 4)]);
    }
}
