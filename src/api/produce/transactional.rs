//! Batches of transactions: before the first one in a partition, the transaction's coordinator is asked
//! whether the partition belongs to it, or told so (KIP-890).

use super::{Planned, RefusedBatch};
use crate::api::Call;
use crate::cluster::image::MetadataImage;
use crate::txn::handle::Support;
use crate::txn::transaction::{Identity, Participant};
use crate::wire::ErrorCode;
use millstream_io::runtime::sleep;
use millstream_io::units::ProducerStamp;
use millstream_shards::message::{Append, TransactionQuery, TransactionState, VerificationGuard};
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// Takes out of `appends` what may not be written, and says so in `plan`; gives the others what they
/// need. Without a transactional batch it does nothing. Costs one look at each owner of a partition;
/// the coordinator is asked for the first batch of a transaction in a partition only.
pub async fn admit(
    call: &Call,
    transactional_id: Option<&str>,
    plan: &mut [Planned],
    appends: &mut Vec<Append>,
) {
    let Some(transactional_id) = transactional_id else { return };
    let places: Vec<usize> = (0..appends.len())
        .filter(|place| appends[*place].batch.attributes().is_transactional())
        .collect();
    if places.is_empty() {
        return;
    }
    let mut refused: Vec<Option<RefusedBatch>> = Vec::new();
    refused.resize_with(appends.len(), || None);
    match one_producer(&places, appends) {
        Some(by) => verify(call, transactional_id, by, &places, appends, &mut refused).await,
        None => {
            let message = "one request carries transactional batches of several producers";
            for refused in &mut refused {
                let code = ErrorCode::InvalidProducerIdMapping;
                *refused = Some(RefusedBatch::new(code, Some(message.to_owned())));
            }
        }
    }
    take_out(plan, appends, refused);
}

/// Whose the transactional batches are, if all of them are of one.
fn one_producer(places: &[usize], appends: &[Append]) -> Option<Identity> {
    let identity = |stamp: ProducerStamp| Identity { producer: stamp.id, epoch: stamp.epoch };
    let all: Option<HashSet<Identity>> =
        places.iter().map(|place| appends[*place].batch.producer().map(identity)).collect();
    let mut all = all?.into_iter();
    all.next().filter(|_| all.next().is_none())
}

/// The partition gives out a guard before the coordinator is asked: it is good until the producer's
/// next marker there, so that a batch that comes late opens nothing. The marker of the last transaction
/// may be on its way, too. When it came in between, all is asked once more.
async fn verify(
    call: &Call,
    transactional_id: &str,
    by: Identity,
    places: &[usize],
    appends: &mut [Append],
    refused: &mut [Option<RefusedBatch>],
) {
    let support = Support::of_produce(call.version);
    let image = call.image();
    let config = &image.broker.transactions;
    let until = Instant::now() + Duration::from_millis(config.add_retry_ms_max);
    let pause = Duration::from_millis(config.add_retry_ms);
    let mut guards = guards(call, &image, by, places, appends, refused).await;
    while !guards.is_empty() && (support == Support::AddPartitions || config.verification) {
        let partitions = participants(&image, &guards, appends);
        let transactions = &call.core.transactions;
        let again = Instant::now() + pause;
        let answers = transactions.admit(transactional_id, by, partitions, (support, pause)).await;
        // While the last transaction is not complete its producer need not be told: soon it is.
        let is_soon = answers.contains(&Err(ErrorCode::ConcurrentTransactions));
        let now = Instant::now();
        if is_soon && support == Support::AddPartitions && now < until {
            // Asked in vain, it has waited already; refused at once it has not.
            sleep(again.saturating_duration_since(now)).await;
            guards = self::guards(call, &image, by, places, appends, refused).await;
            continue;
        }
        let is_taken = answers.iter().all(Result::is_ok);
        for ((place, _), answer) in guards.iter().zip(answers) {
            refused[*place] = answer.err().map(|code| refusal(code, support));
        }
        if !is_taken || support != Support::AddPartitions {
            return;
        }
        let again = self::guards(call, &image, by, places, appends, refused).await;
        if again.iter().all(|guard| guards.contains(guard)) {
            return;
        }
        guards = again;
    }
}

/// Gives the appends whose producer has no transaction open there the guard for it; which ones those
/// are.
async fn guards(
    call: &Call,
    image: &MetadataImage,
    by: Identity,
    places: &[usize],
    appends: &mut [Append],
    refused: &mut [Option<RefusedBatch>],
) -> Vec<(usize, VerificationGuard)> {
    let query = |place: &usize| TransactionQuery {
        at: appends[*place].at,
        producer: by.producer,
        epoch: by.epoch,
        first: appends[*place].batch.producer().and_then(|stamp| stamp.first),
        bumps_epoch: Support::of_produce(call.version) == Support::AddPartitions,
    };
    let queries = places.iter().map(query).collect();
    let states = call.core.router.transactions(queries).await;
    let mut guards = Vec::new();
    for (place, state) in places.iter().zip(states) {
        match state {
            Ok(TransactionState::Open) => appends[*place].transaction = None,
            Ok(TransactionState::Unverified(guard)) => {
                let append = &mut appends[*place];
                append.transaction = Some(guard);
                // One that is deleted just now has no name that the coordinator could know.
                if image.topic_by_id(append.at.topic).is_some() {
                    guards.push((*place, guard));
                }
            }
            Err(error) => {
                let code = crate::api::error_codes::of_query(&error);
                refused[*place] = Some(RefusedBatch::new(code, Some(error.to_string())));
            }
        }
    }
    guards
}

/// The names of the partitions, in order.
fn participants(
    image: &MetadataImage,
    guards: &[(usize, VerificationGuard)],
    appends: &[Append],
) -> Vec<Participant> {
    let name = |(place, _): &(usize, VerificationGuard)| {
        let at = appends[*place].at;
        Some((image.topic_by_id(at.topic)?.name.clone(), at.partition.get()))
    };
    guards.iter().filter_map(name).collect()
}

/// Such errors as a producer takes as Apache Kafka's do.
fn refusal(code: ErrorCode, support: Support) -> RefusedBatch {
    let underlying = || {
        let text = "Unable to verify the partition has been added to the transaction. Underlying \
                    error: ";
        Some(format!("{text}{}", code.name()))
    };
    match code {
        ErrorCode::InvalidTxnState => {
            let message = "Partition was not added to the transaction";
            RefusedBatch::new(code, Some(message.to_owned()))
        }
        // Older clients do not come again upon these.
        ErrorCode::CoordinatorLoadInProgress
        | ErrorCode::CoordinatorNotAvailable
        | ErrorCode::NotCoordinator => {
            RefusedBatch::new(ErrorCode::NotEnoughReplicas, underlying())
        }
        ErrorCode::ConcurrentTransactions if support != Support::AddPartitions => {
            RefusedBatch::new(ErrorCode::NotEnoughReplicas, underlying())
        }
        code => RefusedBatch::new(code, None),
    }
}

fn take_out(plan: &mut [Planned], appends: &mut Vec<Append>, refused: Vec<Option<RefusedBatch>>) {
    let mut is_kept = refused.iter().map(Option::is_none).collect::<Vec<_>>().into_iter();
    appends.retain(|_| is_kept.next().unwrap_or(true));
    let sent = plan.iter_mut().filter(|planned| matches!(planned, Planned::Sent));
    for (planned, refused) in sent.zip(refused) {
        if let Some(refused) = refused {
            *planned = Planned::Refused(refused);
        }
    }
}
