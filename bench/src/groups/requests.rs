//! What members of groups say, and how the answers are read.

use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use millstream::wire::messages::{
    find_coordinator as fc, heartbeat as hb, join_group as jg, offset_commit as oc,
    offset_fetch as of, sync_group as sg,
};

use crate::client::{Admin, Frame, body};
use crate::process::pause;

/// Members get their id with their first answer in this version.
pub const JOIN: i16 = 3;
pub const SYNC: i16 = 2;
pub const HEARTBEAT: i16 = 2;
pub const COMMIT: i16 = 8;
const FETCH: i16 = 8;
const FIND: i16 = 4;

/// Members outlive the waves that come after theirs.
const SESSION_MS: i32 = 1_800_000;
const COORDINATOR_LIMIT: Duration = Duration::from_secs(60);

/// COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE and NOT_COORDINATOR: ask again.
const RETRIED: [i16; 3] = [14, 15, 16];

pub fn join(group: &str, member: &str) -> Result<Rc<Frame>> {
    let request = jg::JoinGroupRequest {
        group_id: group,
        session_timeout_ms: SESSION_MS,
        rebalance_timeout_ms: 60_000,
        member_id: member,
        protocol_type: "consumer",
        protocols: vec![jg::JoinGroupRequestProtocol { name: "range", metadata: SUBSCRIPTION }],
        ..jg::JoinGroupRequest::default()
    };
    Ok(Rc::new(Frame::request(&request, JOIN)?))
}

/// A subscription of version 0 to nothing: the assignment is our own.
const SUBSCRIPTION: &[u8] = &[0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff];
/// An assignment of version 0 of nothing.
const ASSIGNMENT: &[u8] = SUBSCRIPTION;

pub fn sync(group: &str, member: &str, generation: i32, members: &[String]) -> Result<Rc<Frame>> {
    let assignment = |id| sg::SyncGroupRequestAssignment { member_id: id, assignment: ASSIGNMENT };
    let request = sg::SyncGroupRequest {
        group_id: group,
        generation_id: generation,
        member_id: member,
        assignments: members.iter().map(|id| assignment(id.as_str())).collect(),
        ..sg::SyncGroupRequest::default()
    };
    Ok(Rc::new(Frame::request(&request, SYNC)?))
}

pub fn heartbeat(group: &str, member: &str, generation: i32) -> Result<Rc<Frame>> {
    let request = hb::HeartbeatRequest {
        group_id: group,
        generation_id: generation,
        member_id: member,
        ..hb::HeartbeatRequest::default()
    };
    Ok(Rc::new(Frame::request(&request, HEARTBEAT)?))
}

/// A commit of one partition.
pub fn commit(
    (group, member, generation): (&str, &str, i32),
    (topic, partition, offset): (&str, i32, i64),
) -> Result<Rc<Frame>> {
    let request = oc::OffsetCommitRequest {
        group_id: group,
        generation_id_or_member_epoch: generation,
        member_id: member,
        topics: vec![oc::OffsetCommitRequestTopic {
            name: topic,
            partitions: vec![oc::OffsetCommitRequestPartition {
                partition_index: partition,
                committed_offset: offset,
                ..oc::OffsetCommitRequestPartition::default()
            }],
            ..oc::OffsetCommitRequestTopic::default()
        }],
        ..oc::OffsetCommitRequest::default()
    };
    Ok(Rc::new(Frame::request(&request, COMMIT)?))
}

/// The one error code of a commit.
pub fn commit_error(bytes: &[u8]) -> Result<i16> {
    let response: oc::OffsetCommitResponse<'_> = body(COMMIT, bytes)?;
    let mut codes = response.topics.iter().flat_map(|topic| &topic.partitions);
    let code = codes.next().map(|part| part.error_code);
    ensure!(code.is_some() && codes.next().is_none(), "not one partition: {response:?}");
    Ok(code.unwrap_or_default())
}

/// Committed offsets of the partitions from 0 on; `None` while the coordinator is loading.
pub fn committed(
    admin: &mut Admin,
    group: &str,
    topic: &str,
    partitions: usize,
) -> Result<Option<Vec<i64>>> {
    let request = of::OffsetFetchRequest {
        groups: vec![of::OffsetFetchRequestGroup {
            group_id: group,
            topics: Some(vec![of::OffsetFetchRequestTopics {
                name: topic,
                partition_indexes: (0..i32::try_from(partitions)?).collect(),
                ..of::OffsetFetchRequestTopics::default()
            }]),
            ..of::OffsetFetchRequestGroup::default()
        }],
        ..of::OffsetFetchRequest::default()
    };
    admin.ask(&request, FETCH, |bytes| {
        let response: of::OffsetFetchResponse<'_> = body(FETCH, bytes)?;
        let mut offsets = vec![-1; partitions];
        for group in &response.groups {
            if RETRIED.contains(&group.error_code) {
                return Ok(None);
            }
            ensure!(group.error_code == 0, "OffsetFetch: error {}", group.error_code);
            for part in group.topics.iter().flat_map(|topic| &topic.partitions) {
                ensure!(part.error_code == 0, "OffsetFetch: error {}", part.error_code);
                offsets[usize::try_from(part.partition_index)?] = part.committed_offset;
            }
        }
        Ok(Some(offsets))
    })
}

/// Whether the coordinator has loaded the group, with a commit of every member.
pub fn is_back(admin: &mut Admin, group: &str, topic: &str, members: usize) -> Result<bool> {
    let Some(offsets) = committed(admin, group, topic, members)? else { return Ok(false) };
    ensure!(offsets.iter().all(|offset| *offset > 0), "{group} came back with {offsets:?}");
    Ok(true)
}

/// Makes the broker make its internal topic.
pub fn await_coordinator(admin: &mut Admin, group: &str) -> Result<()> {
    let begun = Instant::now();
    loop {
        let request =
            fc::FindCoordinatorRequest { coordinator_keys: vec![group], ..Default::default() };
        let code = admin.ask(&request, FIND, |bytes| {
            let response: fc::FindCoordinatorResponse<'_> = body(FIND, bytes)?;
            Ok(response.coordinators.first().map_or(-1, |found| found.error_code))
        })?;
        if code == 0 && committed(admin, group, "none", 1)?.is_some() {
            return Ok(());
        }
        ensure!(code == 0 || RETRIED.contains(&code), "FindCoordinator: error {code}");
        ensure!(begun.elapsed() < COORDINATOR_LIMIT, "there is no coordinator of {group}");
        pause(Duration::from_millis(20));
    }
}
