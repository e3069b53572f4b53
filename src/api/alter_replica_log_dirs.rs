//! AlterReplicaLogDirs (key 34): moves replicas between the directories of a broker. KIP-113.

use super::topics::{by_name, partition};
use super::{Answer, Call, Close};
use crate::authorizer::Resource;
use crate::wire::ErrorCode;
use crate::wire::apis::AclOperation;
use crate::wire::messages::alter_replica_log_dirs::{
    AlterReplicaLogDirPartitionResult, AlterReplicaLogDirTopicResult, AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
};
use std::collections::BTreeMap;
use std::path::Path;

/// There is one directory: a replica is there already, and there is no other to move it to.
pub fn handle(call: &Call) -> Result<Answer, Close> {
    let request: AlterReplicaLogDirsRequest<'_> = call.request()?;
    let image = call.image();
    // One answer a partition, though several directories may be asked for it: the last counts.
    let mut outcomes: BTreeMap<&str, BTreeMap<i32, ErrorCode>> = BTreeMap::new();
    let may = call.allowed(&image, AclOperation::Alter, Resource::Cluster);
    for dir in &request.dirs {
        let known = Path::new(dir.path) == call.core.data_dir;
        for asked in &dir.topics {
            let topic = by_name(&image, asked.name);
            for index in &asked.partitions {
                let code = match may.and(partition(topic, *index)) {
                    _ if may.is_ok() && !known => ErrorCode::LogDirNotFound,
                    Ok(_) => ErrorCode::None,
                    Err(code) => code,
                };
                outcomes.entry(asked.name).or_default().insert(*index, code);
            }
        }
    }
    let results = outcomes.iter().map(|(topic_name, partitions)| AlterReplicaLogDirTopicResult {
        topic_name,
        partitions: partitions
            .iter()
            .map(|(partition_index, code)| AlterReplicaLogDirPartitionResult {
                partition_index: *partition_index,
                error_code: code.number(),
            })
            .collect(),
    });
    call.respond(&AlterReplicaLogDirsResponse { results: results.collect(), ..Default::default() })
}
