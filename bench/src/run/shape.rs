//! Requests of a producer, cut so that only what differs from sending to sending is written.

use std::sync::Arc;

use anyhow::{Context, Result};
use millstream::wire::messages::produce as p;

use super::plan::Plan;
use crate::batch::known::Known;
use crate::batch::template::{Content, Fields, Stamp, Template};
use crate::client::{Composer, Frame, Topic};

/// Templates of batches that all producers without keys share.
const TEMPLATES: u64 = 8;
/// Bytes of messages in a batch of a backlog, which is written as fast as possible.
const FILL_BYTES: usize = 100_000;
/// Requests with keys that producers take in turn.
const KEYED_SHAPES: u64 = 64;

/// One batch of a request.
#[derive(Clone)]
pub struct Part {
    pub partition: i32,
    /// Index into what the producer keeps for each of its partitions.
    pub slot: usize,
    pub template: Arc<Template>,
}

/// A Produce request without its batches: the bytes before each, and behind the last.
#[derive(Clone)]
pub struct Shape {
    segments: Vec<Vec<u8>>,
    pub parts: Vec<Part>,
    pub records: u64,
    /// Of the batches.
    pub bytes: u64,
}

/// How the frame around the batches is written.
#[derive(Clone, Copy)]
pub struct Wrapping<'a> {
    pub topic: &'a Topic,
    pub version: i16,
    pub acks: i16,
    pub transactional_id: Option<&'a str>,
}

impl Shape {
    /// Cuts a request around these batches.
    ///
    /// # Errors
    /// When the request does not fit the version.
    pub fn new(wrapping: Wrapping<'_>, parts: Vec<Part>) -> Result<Shape> {
        let stamp = Stamp { run: 0, producer: 0, number: 0, due_ns: 0 };
        let batches: Vec<Vec<u8>> =
            parts.iter().map(|part| part.template.whole(Fields::plain(0), stamp)).collect();
        let request = p::ProduceRequest {
            transactional_id: wrapping.transactional_id,
            acks: wrapping.acks,
            timeout_ms: 30_000,
            topic_data: vec![p::TopicProduceData {
                name: &wrapping.topic.name,
                topic_id: wrapping.topic.id,
                partition_data: parts
                    .iter()
                    .zip(&batches)
                    .map(|(part, batch)| p::PartitionProduceData {
                        index: part.partition,
                        records: Some(batch),
                    })
                    .collect(),
            }],
        };
        let frame = Frame::request(&request, wrapping.version)?.whole(0);
        let mut segments = Vec::with_capacity(parts.len() + 1);
        let mut rest = frame.as_slice();
        for batch in &batches {
            let at = rest.windows(batch.len()).position(|window| window == batch.as_slice());
            let at = at.context("a request does not hold its batch as it is")?;
            segments.push(rest[..at].to_vec());
            rest = &rest[at + batch.len()..];
        }
        segments.push(rest.to_vec());
        Ok(Shape {
            records: parts.iter().map(|part| u64::from(part.template.records)).sum(),
            bytes: parts.iter().map(|part| part.template.len() as u64).sum(),
            segments,
            parts,
        })
    }

    /// Writes the request; `stamped` says what each batch carries.
    pub fn compose(
        &self,
        composer: &mut Composer<'_>,
        mut stamped: impl FnMut(&Part) -> (Fields, Stamp),
    ) {
        composer.own().extend_from_slice(&self.segments[0]);
        for (part, behind) in self.parts.iter().zip(&self.segments[1..]) {
            let (fields, stamp) = stamped(part);
            part.template.front(fields, stamp, composer.own());
            let (bytes, from) = part.template.rest();
            composer.shared(bytes, from);
            composer.own().extend_from_slice(behind);
        }
    }
}

/// The contents of all requests of a run, before they are given topics.
pub struct Pool {
    /// Without keys: what any batch may hold.
    plain: Vec<Arc<Template>>,
    /// With keys: the partitions of a request and the batch for each.
    keyed: Vec<Vec<(i32, Arc<Template>)>>,
    /// Without keys, with a backlog: what that is written by.
    fill: Option<Arc<Template>>,
}

impl Pool {
    /// Builds them, and tells `known` what may come back.
    pub fn build(plan: &Plan, known: &mut Known) -> Result<Pool> {
        let mut pool = Pool { plain: Vec::new(), keyed: Vec::new(), fill: None };
        if plan.keyed {
            for seed in 0..KEYED_SHAPES {
                pool.keyed.push(keyed(plan, seed)?);
            }
        } else {
            let keys = vec![None; usize::try_from(plan.records)?];
            for seed in 0..TEMPLATES {
                pool.plain.push(Arc::new(template(plan, &keys, seed)?));
            }
            if plan.backlog_bytes > 0 && plan.transactions.is_none() {
                let records = (FILL_BYTES / plan.message_bytes).max(keys.len());
                pool.fill = Some(Arc::new(template(plan, &vec![None; records], TEMPLATES)?));
            }
        }
        let keyed = pool.keyed.iter().flatten().map(|(_, template)| template);
        for template in pool.plain.iter().chain(keyed).chain(&pool.fill) {
            known.add(template);
        }
        Ok(pool)
    }

    /// The requests that a producer sends in turn, and how many partitions they go to.
    pub fn shapes(
        &self,
        plan: &Plan,
        producer: usize,
        wrapping: Wrapping<'_>,
    ) -> Result<(Vec<Shape>, usize)> {
        if plan.keyed {
            let shapes: Result<Vec<Shape>> = self
                .keyed
                .iter()
                .map(|request| {
                    let part = |(partition, template): &(i32, Arc<Template>)| {
                        Ok(Part {
                            partition: *partition,
                            slot: usize::try_from(*partition)?,
                            template: Arc::clone(template),
                        })
                    };
                    Shape::new(wrapping, request.iter().map(part).collect::<Result<_>>()?)
                })
                .collect();
            return Ok((shapes?, usize::try_from(plan.partitions)?));
        }
        let own = own_partitions(plan, producer);
        let shapes: Result<Vec<Shape>> = own
            .chunks(plan.spread)
            .enumerate()
            .map(|(turn, chunk)| {
                let part = |(place, partition): (usize, &i32)| Part {
                    partition: *partition,
                    slot: turn * plan.spread + place,
                    template: Arc::clone(&self.plain[(producer + place) % self.plain.len()]),
                };
                Shape::new(wrapping, chunk.iter().enumerate().map(part).collect())
            })
            .collect();
        Ok((shapes?, own.len()))
    }
}

impl Pool {
    /// The requests by which a producer writes its share of a backlog, where they are others: to the same
    /// slots, one partition each.
    pub fn fill_shapes(
        &self,
        plan: &Plan,
        producer: usize,
        wrapping: Wrapping<'_>,
    ) -> Result<Vec<Shape>> {
        let Some(template) = &self.fill else { return Ok(Vec::new()) };
        let part = |(slot, partition): (usize, i32)| {
            Shape::new(wrapping, vec![Part { partition, slot, template: Arc::clone(template) }])
        };
        own_partitions(plan, producer).into_iter().enumerate().map(part).collect()
    }
}

/// The partitions that a producer without keys writes to: producers share them out; when there are more
/// producers than partitions, each has one.
pub fn own_partitions(plan: &Plan, producer: usize) -> Vec<i32> {
    let own: Vec<i32> = (0..plan.partitions)
        .filter(|partition| *partition as usize % plan.producers == producer % plan.producers)
        .collect();
    if own.is_empty() { vec![(producer % plan.partitions as usize) as i32] } else { own }
}

fn template(plan: &Plan, keys: &[Option<[u8; 8]>], seed: u64) -> Result<Template> {
    let content = Content {
        keys,
        value_bytes: plan.message_bytes,
        random: plan.random,
        seed: seed + 1,
        transactional: plan.transactions.is_some(),
    };
    Template::build(&content, plan.codec)
}

/// One request of messages with random keys: a batch for each partition that a key falls to.
fn keyed(plan: &Plan, seed: u64) -> Result<Vec<(i32, Arc<Template>)>> {
    let mut by_partition = std::collections::BTreeMap::<i32, Vec<Option<[u8; 8]>>>::new();
    let mut state = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for _ in 0..plan.request_records() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let key = state.to_be_bytes();
        let partition = (murmur2(&key) & 0x7fff_ffff) % plan.partitions.unsigned_abs();
        by_partition.entry(i32::try_from(partition)?).or_default().push(Some(key));
    }
    (0..)
        .zip(by_partition)
        .map(|(place, (partition, keys))| {
            Ok((partition, Arc::new(template(plan, &keys, seed << 16 | place)?)))
        })
        .collect()
}

/// The hash by which Kafka's clients give keys to partitions (murmur2, its seed).
pub fn murmur2(bytes: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let mut hash = 0x9747_b28c ^ bytes.len() as u32;
    let mut words = bytes.chunks_exact(4);
    for word in &mut words {
        let mut k = word.iter().rev().fold(0u32, |sum, byte| sum << 8 | u32::from(*byte));
        k = k.wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        hash ^= rest.iter().rev().fold(0u32, |sum, byte| sum << 8 | u32::from(*byte));
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ hash >> 15
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_go_to_the_partitions_that_kafkas_clients_choose() {
        // From the tests of Apache Kafka's own function (UtilsTest.testMurmur2).
        for (key, hash) in [("21", -973_932_308), ("foobar", -790_332_482), ("abc", 479_470_107)] {
            assert_eq!(murmur2(key.as_bytes()) as i32, hash, "{key}");
        }
    }

    #[test]
    fn producers_share_the_partitions_out_or_have_one_each() {
        let plan = |producers, partitions| Plan { producers, partitions, ..Plan::default() };
        assert_eq!(own_partitions(&plan(2, 5), 1), [1, 3]);
        assert_eq!(own_partitions(&plan(3, 2), 2), [0]);
        let all: usize = (0..7).map(|p| own_partitions(&plan(7, 100), p).len()).sum();
        assert_eq!(all, 100);
    }

    #[test]
    fn requests_with_keys_spread_their_messages_and_lose_none() {
        let plan = Plan { keyed: true, partitions: 100, records: 1, spread: 50, ..Plan::default() };
        let mut known = Known::new(1);
        let pool = Pool::build(&plan, &mut known).unwrap();
        for request in &pool.keyed {
            let records: u32 = request.iter().map(|(_, template)| template.records).sum();
            assert_eq!(records, 50);
            assert!(request.len() > 25, "{} partitions", request.len());
        }
    }
}
