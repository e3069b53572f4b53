//! Which Kafka error code each of our own errors is answered with. No arm is a wildcard: a new
//! cause needs a decision here.

use crate::cluster::change::Refused;
use crate::cluster::scram_change::BadCredential;
use crate::cluster::store::StoreError;
use crate::wire::ErrorCode;
use millstream_io::batch::BatchError;
use millstream_shards::deletion::DeleteError;
use millstream_shards::message::{AppendError, ReadError};
use millstream_shards::query::QueryError;

/// A refused change of the metadata.
pub fn of_refused(refused: &Refused) -> ErrorCode {
    match refused {
        Refused::BadName(_) | Refused::NameCollides { .. } => ErrorCode::InvalidTopicException,
        Refused::TopicExists { .. } => ErrorCode::TopicAlreadyExists,
        Refused::UnknownTopic => ErrorCode::UnknownTopicOrPartition,
        Refused::UnknownTopicId { .. } => ErrorCode::UnknownTopicId,
        Refused::DeletionDisabled => ErrorCode::TopicDeletionDisabled,
        Refused::Partitions { .. } => ErrorCode::InvalidPartitions,
        Refused::ReplicationFactor { .. } => ErrorCode::InvalidReplicationFactor,
        Refused::Assignment { .. } => ErrorCode::InvalidReplicaAssignment,
        Refused::TopicConfig(_)
        | Refused::BrokerConfig { .. }
        | Refused::GroupConfig(_)
        | Refused::BadValue(_) => ErrorCode::InvalidConfig,
        Refused::UnknownBroker { .. } | Refused::Request { .. } => ErrorCode::InvalidRequest,
        Refused::TooMany { .. } => ErrorCode::PolicyViolation,
        Refused::Credential(bad) => of_credential(*bad),
        Refused::NameNotFree { .. } => ErrorCode::KafkaStorageError,
        Refused::NotAllowed { kind } => super::rights::refusal(*kind),
        Refused::Store(error) => of_store(error),
        Refused::TimedOut { .. } => ErrorCode::RequestTimedOut,
        Refused::Busy => ErrorCode::ThrottlingQuotaExceeded,
        Refused::Stopping => ErrorCode::NotController,
    }
}

fn of_credential(bad: BadCredential) -> ErrorCode {
    match bad {
        BadCredential::Twice => ErrorCode::DuplicateResource,
        BadCredential::NotThere => ErrorCode::ResourceNotFound,
        BadCredential::Mechanism => ErrorCode::UnsupportedSaslMechanism,
        BadCredential::NoName
        | BadCredential::LongName
        | BadCredential::TooFewIterations
        | BadCredential::TooManyIterations
        | BadCredential::Salt
        | BadCredential::SaltedPassword { .. } => ErrorCode::UnacceptableCredential,
    }
}

fn of_store(error: &StoreError) -> ErrorCode {
    match error {
        StoreError::InUse { .. }
        | StoreError::Newer { .. }
        | StoreError::Damaged { .. }
        | StoreError::Full { .. }
        | StoreError::Failed { .. } => ErrorCode::KafkaStorageError,
    }
}

/// A batch that a producer may not send, as Apache Kafka answers it.
pub fn of_batch(error: &BatchError) -> ErrorCode {
    match error {
        BatchError::TooShort { .. }
        | BatchError::Length { .. }
        | BatchError::UnknownMagic { .. }
        | BatchError::Crc { .. } => ErrorCode::CorruptMessage,
        BatchError::UnknownCodec { .. } => ErrorCode::UnsupportedCompressionType,
        BatchError::LogAppendTime => ErrorCode::InvalidTimestamp,
        BatchError::Empty
        | BatchError::Truncated { .. }
        | BatchError::OldMagic { .. }
        | BatchError::MoreThanOne { .. }
        | BatchError::Attributes { .. }
        | BatchError::BaseOffset { .. }
        | BatchError::Count { .. }
        | BatchError::CountMismatch { .. }
        | BatchError::CountImpossible { .. }
        | BatchError::Control
        | BatchError::Producer { .. }
        | BatchError::Sequence { .. }
        | BatchError::TransactionalWithoutProducer => ErrorCode::InvalidRecord,
    }
}

/// A batch that its partition did not take. `version` is that of Produce: before 4 clients do not
/// know KAFKA_STORAGE_ERROR.
pub fn of_append(error: &AppendError, version: i16) -> ErrorCode {
    match error {
        AppendError::UnknownPartition { .. } => ErrorCode::UnknownTopicOrPartition,
        AppendError::FencedEpoch { .. } => ErrorCode::FencedLeaderEpoch,
        AppendError::UnknownEpoch { .. } => ErrorCode::UnknownLeaderEpoch,
        AppendError::OutOfOrderSequence { .. } => ErrorCode::OutOfOrderSequenceNumber,
        AppendError::InvalidProducerEpoch { .. } => ErrorCode::InvalidProducerEpoch,
        AppendError::InvalidTxnState { .. } => ErrorCode::InvalidTxnState,
        AppendError::TransactionCoordinatorFenced { .. } => ErrorCode::TransactionCoordinatorFenced,
        // Clients send again until there is room.
        AppendError::TooManyTransactions { .. } => ErrorCode::NotEnoughReplicas,
        AppendError::TooLarge { .. } => ErrorCode::MessageTooLarge,
        AppendError::LargerThanSegment { .. } => ErrorCode::RecordListTooLarge,
        AppendError::InvalidRecord { .. } => ErrorCode::InvalidRecord,
        AppendError::InvalidTimestamp { .. } => ErrorCode::InvalidTimestamp,
        AppendError::Storage { .. } | AppendError::DiskFull { .. } if version < 4 => {
            ErrorCode::NotLeaderOrFollower
        }
        AppendError::Storage { .. } | AppendError::DiskFull { .. } => ErrorCode::KafkaStorageError,
        AppendError::Stalled { .. } => ErrorCode::RequestTimedOut,
        AppendError::Stopping => ErrorCode::NotLeaderOrFollower,
    }
}

/// A partition that could not be read.
pub fn of_read(error: &ReadError) -> ErrorCode {
    match error {
        ReadError::UnknownPartition { .. } => ErrorCode::UnknownTopicOrPartition,
        ReadError::FencedEpoch { .. } => ErrorCode::FencedLeaderEpoch,
        ReadError::UnknownEpoch { .. } => ErrorCode::UnknownLeaderEpoch,
        ReadError::OffsetOutOfRange { .. } => ErrorCode::OffsetOutOfRange,
        ReadError::Corrupt { .. } => ErrorCode::CorruptMessage,
        ReadError::Storage { .. } | ReadError::TooManyFiles { .. } => ErrorCode::KafkaStorageError,
        ReadError::Stopping => ErrorCode::NotLeaderOrFollower,
    }
}

/// Records that were not deleted.
pub fn of_delete(error: &DeleteError) -> ErrorCode {
    match error {
        DeleteError::UnknownPartition { .. } => ErrorCode::UnknownTopicOrPartition,
        DeleteError::OutOfRange { .. } => ErrorCode::OffsetOutOfRange,
        DeleteError::Storage { .. } | DeleteError::NoRoom { .. } => ErrorCode::KafkaStorageError,
        DeleteError::TooManyWaiting { .. } | DeleteError::TimedOut => ErrorCode::RequestTimedOut,
        DeleteError::Stopping => ErrorCode::NotLeaderOrFollower,
    }
}

/// A question about a partition that has no answer.
pub fn of_query(error: &QueryError) -> ErrorCode {
    match error {
        QueryError::UnknownPartition { .. } => ErrorCode::UnknownTopicOrPartition,
        QueryError::FencedEpoch { .. } => ErrorCode::FencedLeaderEpoch,
        QueryError::UnknownEpoch { .. } => ErrorCode::UnknownLeaderEpoch,
        QueryError::Corrupt { .. } => ErrorCode::CorruptMessage,
        QueryError::Storage { .. } => ErrorCode::KafkaStorageError,
        QueryError::Stopping => ErrorCode::NotLeaderOrFollower,
    }
}
