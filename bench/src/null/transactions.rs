//! As much of a transaction coordinator as a client needs to be measured: ids, epochs, no state.

use anyhow::Result;
use millstream::wire::Reader;
use millstream::wire::messages::{
    add_partitions_to_txn as ap, end_txn as et, find_coordinator as fc, init_producer_id as ip,
};

use super::server::{Reply, decode};

/// Ids that were given out.
#[derive(Default)]
pub struct Producers {
    last: i64,
}

impl Producers {
    /// InitProducerId.
    pub fn init(&mut self, reader: &mut Reader<'_>, reply: Reply, out: &mut Vec<u8>) -> Result<()> {
        let _: ip::InitProducerIdRequest<'_> = decode(reader, reply.version)?;
        self.last += 1;
        let response = ip::InitProducerIdResponse {
            producer_id: self.last,
            producer_epoch: 0,
            ..ip::InitProducerIdResponse::default()
        };
        reply.write(&response, out)
    }

    /// EndTxn, behind the markers.
    pub fn end(
        &mut self,
        request: &et::EndTxnRequest<'_>,
        reply: Reply,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let mut response = et::EndTxnResponse::default();
        if reply.version >= 5 {
            response.producer_id = request.producer_id;
            response.producer_epoch = request.producer_epoch.wrapping_add(1);
        }
        reply.write(&response, out)
    }
}

/// AddPartitionsToTxn of one transaction: all of them, and nothing is kept.
pub fn add(reader: &mut Reader<'_>, reply: Reply, out: &mut Vec<u8>) -> Result<()> {
    let request: ap::AddPartitionsToTxnRequest<'_> = decode(reader, reply.version)?;
    let result = |partition: &i32| ap::AddPartitionsToTxnPartitionResult {
        partition_index: *partition,
        partition_error_code: 0,
    };
    let topics = request.v3_and_below_topics.iter();
    let results = topics.map(|topic| ap::AddPartitionsToTxnTopicResult {
        name: topic.name,
        results_by_partition: topic.partitions.iter().map(result).collect(),
    });
    let response = ap::AddPartitionsToTxnResponse {
        results_by_topic_v3_and_below: results.collect(),
        ..ap::AddPartitionsToTxnResponse::default()
    };
    reply.write(&response, out)
}

/// FindCoordinator: here.
pub fn find(reader: &mut Reader<'_>, reply: Reply, out: &mut Vec<u8>) -> Result<()> {
    let request: fc::FindCoordinatorRequest<'_> = decode(reader, reply.version)?;
    let coordinators = request
        .coordinator_keys
        .iter()
        .map(|key| fc::Coordinator { key, node_id: 1, host: "127.0.0.1", ..Default::default() })
        .collect();
    reply.write(&fc::FindCoordinatorResponse { coordinators, ..Default::default() }, out)
}
