//! TxnOffsetCommit (key 28): stores how far a group has come, as part of a producer's transaction
//! (KIP-98, KIP-447). It counts once the transaction is committed.
//!
//! The first commit of a transaction in a partition of the offsets topic is verified: its coordinator
//! must know that the partition is part of it (KIP-890), or makes it part from version 5 on.

use super::groups::{allowed, ask, name, named};
use super::to_commit::{ToCommit, Wish};
use super::transactions::{identity, patience};
use super::{Answer, Call, Close, topics};
use crate::authorizer::Resource;
use crate::group::ask::{Ask, Commit, Guard, InTransaction, Verification};
use crate::group::classic::Name;
use crate::group::offsets::CommittedOffset;
use crate::group::placement::OFFSETS_TOPIC;
use crate::txn::handle::Support;
use crate::txn::transaction::Identity;
use crate::wire::ErrorCode;
use crate::wire::apis::AclOperation;
use crate::wire::messages::txn_offset_commit::{
    TxnOffsetCommitRequest, TxnOffsetCommitRequestPartition, TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};

/// Version from which clients know that a coordinator may be loading.
const LOADING_SINCE: i16 = 2;

pub async fn handle(call: &Call) -> Result<Answer, Close> {
    let request: TxnOffsetCommitRequest<'_> = call.request()?;
    let image = call.image();
    let mut sorted = ToCommit::new(call, -1);
    let id = Resource::TransactionalId(request.transactional_id);
    let checked = call.allowed(&image, AclOperation::Write, id);
    let checked = checked.and_then(|()| allowed(call, AclOperation::Read, request.group_id));
    for topic in &request.topics {
        let wishes = topic.partitions.iter().map(|partition| Wish {
            partition: partition.partition_index,
            offset: partition.committed_offset,
            leader_epoch: partition.committed_leader_epoch,
            metadata: partition.committed_metadata,
        });
        let found =
            checked.and_then(|()| topics::named(call, &image, AclOperation::Read, topic.name));
        sorted.topic(found, wishes);
    }
    let offsets = std::mem::take(&mut sorted.offsets);
    let committed = if offsets.is_empty() {
        ErrorCode::None
    } else {
        committed(call, &request, offsets).await.err().unwrap_or(ErrorCode::None)
    };
    let committed = match committed {
        ErrorCode::CoordinatorLoadInProgress if call.version < LOADING_SINCE => {
            ErrorCode::CoordinatorNotAvailable
        }
        other => other,
    };
    let topics = request.topics.iter().zip(&sorted.refused).map(|(topic, refused)| {
        let one =
            |(partition, refused): (&TxnOffsetCommitRequestPartition<'_>, &Option<ErrorCode>)| {
                TxnOffsetCommitResponsePartition {
                    partition_index: partition.partition_index,
                    error_code: refused.unwrap_or(committed).number(),
                }
            };
        let partitions = topic.partitions.iter().zip(refused).map(one).collect();
        TxnOffsetCommitResponseTopic { name: topic.name, partitions }
    });
    call.respond(&TxnOffsetCommitResponse { topics: topics.collect(), ..Default::default() })
}

async fn committed(
    call: &Call,
    request: &TxnOffsetCommitRequest<'_>,
    offsets: Vec<(Name, i32, CommittedOffset)>,
) -> Result<(), ErrorCode> {
    let group = named(request.group_id)?;
    let support = Support::of_txn_offset_commit(call.version);
    let by = match identity(request.producer_id, request.producer_epoch) {
        // Who writes is told by the older word.
        Err(ErrorCode::ProducerFenced) => return Err(ErrorCode::InvalidProducerEpoch),
        by => by?,
    };
    let transaction = InTransaction { producer: by.producer, epoch: by.epoch };
    for may_ask_again in [true, false] {
        let guard = verified(call, request.transactional_id, group, by).await?;
        let commit = Commit {
            member_id: name(request.member_id),
            instance_id: request.group_instance_id.map(name),
            generation: request.generation_id,
            transaction: Some(transaction),
            guard,
            version: call.version,
            offsets: offsets.clone(),
        };
        match ask(call, group, |reply| Ask::Commit(commit, reply)).await? {
            ErrorCode::None => break,
            // The marker of the last transaction came in between. Each has an epoch of its own, so
            // the coordinator knows which one is meant.
            ErrorCode::InvalidTxnState if may_ask_again && support == Support::AddPartitions => {}
            error => return Err(error),
        }
    }
    Ok(())
}

/// Has it that the group's partition of the offsets topic belongs to the transaction of `by`; the
/// guard of the question, where one was needed. The guard comes first: it is good until something
/// ends the transaction.
async fn verified(
    call: &Call,
    transactional_id: &str,
    group: &str,
    by: Identity,
) -> Result<Option<Guard>, ErrorCode> {
    let transaction = InTransaction { producer: by.producer, epoch: by.epoch };
    let guard = match ask(call, group, |reply| Ask::Verify(transaction, reply)).await?? {
        Verification::Open => return Ok(None),
        Verification::Needed(guard) => guard,
    };
    let support = Support::of_txn_offset_commit(call.version);
    let is_wanted =
        support == Support::AddPartitions || call.image().broker.transactions.verification;
    if is_wanted {
        let at = call.core.groups.partition(group).ok_or(ErrorCode::NotCoordinator)?;
        let partitions = vec![(OFFSETS_TOPIC.into(), at.partition.get())];
        let transactions = &call.core.transactions;
        let how = (support, patience(&call.image()));
        let answers = transactions.admit(transactional_id, by, partitions, how).await;
        answers.into_iter().next().unwrap_or(Err(ErrorCode::NotCoordinator))?;
    }
    Ok(Some(guard))
}
