//! Batches of transactions: before the first one in a partition, the transaction's coordinator is asked
//! whether the partition belongs to it, or told so (KIP-890).

use super::{Planned, RefusedBatch};
use crate::api::Call;
use crate::txn::handle::Support;
use crate::txn::transaction::{Identity, Participant};
use crate::wire::ErrorCode;
use millstream_io::runtime::sleep;
use millstream_io::units::ProducerStamp;
use millstream_shards::message::{Append, TransactionQuery, TransactionState};
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

/// While the last transaction is not complete its producer need not be told: soon it is. Then all is
/// asked anew, since the marker of that one clears the guards that were given before it.
async fn verify(
    call: &Call,
    transactional_id: &str,
    by: Identity,
    places: &[usize],
    appends: &mut [Append],
    refused: &mut [Option<RefusedBatch>],
) {
    let config = call.image().broker.transactions.clone();
    let until = Instant::now() + Duration::from_millis(config.add_retry_ms_max);
    while verify_once(call, transactional_id, by, places, appends, refused).await.is_soon()
        && Instant::now() < until
    {
        sleep(Duration::from_millis(config.add_retry_ms)).await;
        refused.fill_with(|| None);
    }
}

/// What an attempt to verify came to.
enum Verified {
    Done,
    /// The producer's last transaction is not complete.
    Soon,
}

impl Verified {
    fn is_soon(&self) -> bool {
        matches!(self, Verified::Soon)
    }
}

async fn verify_once(
    call: &Call,
    transactional_id: &str,
    by: Identity,
    places: &[usize],
    appends: &mut [Append],
    refused: &mut [Option<RefusedBatch>],
) -> Verified {
    let support = Support::of_produce(call.version);
    let query = |place: &usize| TransactionQuery {
        at: appends[*place].at,
        producer: by.producer,
        epoch: by.epoch,
        first: appends[*place].batch.producer().and_then(|stamp| stamp.first),
        bumps_epoch: support == Support::AddPartitions,
    };
    let queries = places.iter().map(query).collect();
    let states = call.core.router.transactions(queries).await;
    let image = call.image();
    let (mut unverified, mut partitions): (Vec<usize>, Vec<Participant>) = Default::default();
    for (place, state) in places.iter().zip(states) {
        match state {
            Ok(TransactionState::Open) => appends[*place].transaction = None,
            Ok(TransactionState::Unverified(guard)) => {
                let append = &mut appends[*place];
                append.transaction = Some(guard);
                if let Some(topic) = image.topic_by_id(append.at.topic) {
                    unverified.push(*place);
                    partitions.push((topic.name.clone(), append.at.partition.get()));
                }
            }
            Err(error) => {
                let code = crate::api::error_codes::of_query(&error);
                refused[*place] = Some(RefusedBatch::new(code, Some(error.to_string())));
            }
        }
    }
    let is_wanted = support == Support::AddPartitions || image.broker.transactions.verification;
    if unverified.is_empty() || !is_wanted {
        return Verified::Done;
    }
    let answers = call.core.transactions.admit(transactional_id, by, partitions, support).await;
    let is_soon = answers.first() == Some(&Err(ErrorCode::ConcurrentTransactions));
    for (place, answer) in unverified.into_iter().zip(answers) {
        if let Err(code) = answer {
            refused[place] = Some(refusal(code, support));
        }
    }
    if is_soon && support == Support::AddPartitions { Verified::Soon } else { Verified::Done }
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
