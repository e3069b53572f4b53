//! Writes the markers that end a transaction, one in each of its partitions, until all are written.
//!
//! What stands in the way of one (a partition that opens, a group coordinator that loads, a full disk)
//! is waited for; it holds up no other transaction until [`COMPLETING_MAX`] of them wait. A partition
//! whose topic is gone needs none. One that knows of a newer epoch of the producer needs none either:
//! the marker is there, from before a restart, or whatever was open has been ended by another.

use super::Coordinator;
use super::place::Place;
use crate::group::ask::{EndError, Ending};
use crate::group::placement::OFFSETS_TOPIC;
use crate::txn::limits::{COMPLETING_MAX, MARKER_AGAIN_MS, MARKER_AGAIN_MS_MAX};
use crate::txn::partition::Completion;
use crate::txn::transaction::Participant;
use futures_lite::future::zip;
use millstream_io::log_limited;
use millstream_io::runtime::{Queue, log, timeout};
use millstream_io::units::TopicPartition;
use millstream_shards::message::{AppendError, Marker};
use std::rc::Rc;
use std::time::Duration;

/// What became of one marker.
enum Written {
    Yes,
    /// Not yet, for this reason.
    No(String),
    /// The partition has seen a marker of this coordinator epoch, which is above ours.
    Newer(i32),
}

impl Coordinator {
    /// Has the markers of these written. Returns at once.
    pub(super) fn complete_all(&self, place: &Rc<Place>, completions: Vec<Completion>) {
        let wanted = completions.len();
        place.line_up(completions);
        let more = wanted.min(COMPLETING_MAX.saturating_sub(place.writers.get()));
        for _ in 0..more {
            let writer = self.clone().write_in_line(place.clone());
            if self.0.writers.spawn(Queue::Serve, writer).is_ok() {
                place.writers.set(place.writers.get() + 1);
            }
        }
    }

    /// Writes the markers of one transaction after the other until none waits.
    async fn write_in_line(self, place: Rc<Place>) {
        while let Some((era, completion)) = place.next_in_line() {
            if self.write_all(&place, era, &completion).await {
                place.marked(era, &completion.id, self.now());
            }
        }
        place.writers.set(place.writers.get() - 1);
    }

    /// Whether all markers are written; otherwise they are wanted no more.
    async fn write_all(&self, place: &Place, era: u64, completion: &Completion) -> bool {
        let mut left: Vec<Participant> = completion.partitions.iter().cloned().collect();
        let mut epoch = place.epoch.get();
        let mut pause_ms = MARKER_AGAIN_MS;
        while place.is_of(era) && !self.0.shell.is_stopping() {
            let seen = self.0.stop.seen();
            let results = self.write(completion, &left, epoch).await;
            let mut why = None;
            let mut results = results.into_iter();
            left.retain(|_| match results.next() {
                Some(Written::Yes) => false,
                Some(Written::No(reason)) => {
                    why = Some(reason);
                    true
                }
                Some(Written::Newer(newer)) => {
                    why = Some(format!("a coordinator of epoch {newer} was here before"));
                    epoch = epoch.max(newer);
                    true
                }
                None => true,
            });
            if left.is_empty() {
                return place.is_of(era);
            }
            log_limited!(
                log::warn("transactions", "a transaction waits for its markers")
                    .field("transactional_id", &completion.id)
                    .field("partitions", left.len())
                    .field("reason", why.unwrap_or_default())
            );
            let _ = timeout(Duration::from_millis(pause_ms), self.0.stop.since(seen)).await;
            pause_ms = (2 * pause_ms).min(MARKER_AGAIN_MS_MAX);
        }
        false
    }

    /// Writes a marker into each of these; what became of each, in order.
    async fn write(
        &self,
        completion: &Completion,
        partitions: &[Participant],
        epoch: i32,
    ) -> Vec<Written> {
        let image = self.0.shell.metadata.get();
        let now = self.now();
        let mut results: Vec<Option<Written>> = Vec::with_capacity(partitions.len());
        let (mut logs, mut markers, mut offsets) = (Vec::new(), Vec::new(), Vec::new());
        for (place, (topic, index)) in partitions.iter().enumerate() {
            results.push(None);
            match image.topic_by_name(topic).and_then(|topic| topic.partition(*index)) {
                // Deleted: nothing is left that could be read.
                None => results[place] = Some(Written::Yes),
                Some(at) if **topic == *OFFSETS_TOPIC => offsets.push((place, at)),
                Some(at) => {
                    logs.push(place);
                    markers.push(Marker {
                        at,
                        producer: completion.by.producer,
                        epoch: completion.by.epoch,
                        outcome: completion.outcome,
                        coordinator_epoch: epoch,
                        transaction_version: completion.protocol.number(),
                        now,
                    });
                }
            }
        }
        let in_logs = self.0.shell.router.write_markers(markers);
        let (in_logs, in_groups) = zip(in_logs, self.end_offsets(completion, offsets, epoch)).await;
        for (place, written) in logs.into_iter().zip(in_logs) {
            results[place] = Some(judged(written.map(drop)));
        }
        for (place, written) in in_groups {
            results[place] = Some(written);
        }
        let unanswered = || Written::No("nobody answered".to_owned());
        results.into_iter().map(|written| written.unwrap_or_else(unanswered)).collect()
    }

    /// The groups' partitions have their own queue, in which the offsets of the transaction are.
    async fn end_offsets(
        &self,
        completion: &Completion,
        partitions: Vec<(usize, TopicPartition)>,
        epoch: i32,
    ) -> Vec<(usize, Written)> {
        let ending = Ending {
            producer: completion.by.producer,
            epoch: completion.by.epoch,
            outcome: completion.outcome,
            coordinator_epoch: epoch,
            transaction_version: completion.protocol.number(),
        };
        let mut results = Vec::with_capacity(partitions.len());
        for (place, at) in partitions {
            let written = match self.0.groups.end_transaction(at, ending).await {
                Ok(()) => Written::Yes,
                Err(EndError::NotReady) => Written::No(EndError::NotReady.to_string()),
                Err(EndError::Refused(error)) => judged(Err(error)),
            };
            results.push((place, written));
        }
        results
    }
}

fn judged(written: Result<(), AppendError>) -> Written {
    match written {
        Ok(()) | Err(AppendError::InvalidProducerEpoch { .. }) => Written::Yes,
        Err(AppendError::TransactionCoordinatorFenced { current, .. }) => Written::Newer(current),
        Err(error) => Written::No(error.to_string()),
    }
}
