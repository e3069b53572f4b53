//! OffsetForLeaderEpoch (key 23): where an epoch ends. KIP-101, KIP-279, KIP-320.

use super::topics::{by_name, current_epoch, named, partition};
use super::{Answer, Call, Close, error_codes};
use crate::authorizer::Resource;
use crate::wire::ErrorCode;
use crate::wire::apis::AclOperation;
use crate::wire::messages::offset_for_leader_epoch::{
    EpochEndOffset, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
};
use millstream_io::units::LeaderEpoch;
use millstream_shards::message::EpochEnd;
use millstream_shards::query::EpochQuery;

pub async fn handle(call: &Call) -> Result<Answer, Close> {
    let request: OffsetForLeaderEpochRequest<'_> = call.request()?;
    let image = call.image();
    let mut queries = Vec::new();
    let mut planned = Vec::new();
    // A broker may ask for all.
    let may_all = call.may_see(&image, AclOperation::ClusterAction, Resource::Cluster);
    for topic in &request.topics {
        let found = match may_all {
            true => by_name(&image, topic.topic),
            false => named(call, &image, AclOperation::Describe, topic.topic),
        };
        for asked in &topic.partitions {
            // `None` is an epoch that no log can have: answered as unknown, without an error.
            let plan = partition(found, asked.partition).map(|at| {
                let epoch = LeaderEpoch::new(asked.leader_epoch)?;
                let current = current_epoch(asked.current_leader_epoch);
                queries.push(EpochQuery { at, current, epoch });
                Some(())
            });
            planned.push(plan);
        }
    }
    let mut found = call.core.router.epoch_end(queries).await.into_iter();
    let mut answers = planned.into_iter().map(|plan| {
        if plan?.is_none() {
            return Ok(None);
        }
        let found = found.next().ok_or(ErrorCode::UnknownServerError)?;
        found.map_err(|error| error_codes::of_query(&error))
    });
    let topics: Vec<OffsetForLeaderTopicResult<'_>> = request
        .topics
        .iter()
        .map(|topic| OffsetForLeaderTopicResult {
            topic: topic.topic,
            partitions: topic
                .partitions
                .iter()
                .zip(answers.by_ref())
                .map(|(asked, answer)| described(asked.partition, answer))
                .collect(),
        })
        .collect();
    call.respond(&OffsetForLeaderEpochResponse { topics, ..Default::default() })
}

fn described(partition: i32, answer: Result<Option<EpochEnd>, ErrorCode>) -> EpochEndOffset {
    match answer {
        Ok(Some(end)) => EpochEndOffset {
            partition,
            leader_epoch: end.epoch.get(),
            end_offset: end.end.get(),
            ..Default::default()
        },
        Ok(None) => EpochEndOffset { partition, ..Default::default() },
        Err(code) => EpochEndOffset { partition, error_code: code.into(), ..Default::default() },
    }
}
