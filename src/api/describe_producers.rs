//! DescribeProducers (key 61): whom the partitions remember. KIP-664.

use super::topics::{named, partition};
use super::{Answer, Call, Close, error_codes};
use crate::cluster::topic_name::check_topic_name;
use crate::wire::ErrorCode;
use crate::wire::apis::AclOperation;
use crate::wire::messages::describe_producers::{
    DescribeProducersRequest, DescribeProducersResponse, PartitionResponse, ProducerState,
    TopicResponse,
};
use millstream_io::units::TopicPartition;
use millstream_shards::query::{ActiveProducer, QueryError};

pub async fn handle(call: &Call) -> Result<Answer, Close> {
    let request: DescribeProducersRequest<'_> = call.request()?;
    let image = call.image();
    let asked: Vec<Result<TopicPartition, ErrorCode>> = request
        .topics
        .iter()
        .flat_map(|topic| {
            // A name that no topic can have is told as such, as Apache Kafka does.
            let found = match check_topic_name(topic.name) {
                Err(_) => Err(ErrorCode::InvalidTopicException),
                Ok(()) => named(call, &image, AclOperation::Read, topic.name),
            };
            topic.partition_indexes.iter().map(move |index| partition(found, *index))
        })
        .collect();
    let known: Vec<TopicPartition> = asked.iter().flatten().copied().collect();
    let mut found = call.core.router.producers(known).await.into_iter();
    let mut asked = asked.into_iter();
    let mut answers = asked.by_ref().map(|asked| match asked {
        Ok(_) => found.next().map_or(Err(ErrorCode::UnknownServerError), |f| f.map_err(code)),
        Err(code) => Err(code),
    });
    let topics: Vec<TopicResponse<'_>> = request
        .topics
        .iter()
        .map(|topic| TopicResponse {
            name: topic.name,
            partitions: topic
                .partition_indexes
                .iter()
                .zip(answers.by_ref())
                .map(|(index, answer)| described(*index, answer))
                .collect(),
        })
        .collect();
    call.respond(&DescribeProducersResponse { topics, ..Default::default() })
}

fn code(error: QueryError) -> ErrorCode {
    error_codes::of_query(&error)
}

fn described(
    partition_index: i32,
    answer: Result<Vec<ActiveProducer>, ErrorCode>,
) -> PartitionResponse<'static> {
    match answer {
        Ok(producers) => PartitionResponse {
            partition_index,
            active_producers: producers.iter().map(state).collect(),
            ..Default::default()
        },
        Err(code) => {
            PartitionResponse { partition_index, error_code: code.into(), ..Default::default() }
        }
    }
}

fn state(producer: &ActiveProducer) -> ProducerState {
    ProducerState {
        producer_id: producer.id.get(),
        producer_epoch: i32::from(producer.epoch.get()),
        last_sequence: producer.last_sequence.map_or(-1, |sequence| sequence.get()),
        last_timestamp: producer.last_timestamp.get(),
        coordinator_epoch: producer.coordinator_epoch.unwrap_or(-1),
        current_txn_start_offset: producer.transaction_start.map_or(-1, |offset| offset.get()),
    }
}
