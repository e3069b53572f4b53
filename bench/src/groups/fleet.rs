//! The members of some groups, each on its connection.

use std::net::SocketAddr;
use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use millstream::wire::messages::{heartbeat as hb, join_group as jg, sync_group as sg};

use crate::client::{Admin, Driver, Outputs, Response, Topic, body};

use super::{Target, group_name, requests};

/// Groups whose members are connected at one time.
pub const GROUPS_AT_ONCE: usize = 1000;

const HEARTBEAT_EVERY: Duration = Duration::from_secs(3);
const SILENCE_LIMIT: Duration = Duration::from_secs(90);
/// One wait for events.
const TURN: Duration = Duration::from_millis(20);
const REBALANCE_IN_PROGRESS: i16 = 27;

/// What a request was: its tag.
const JOIN: u64 = 0;
const SYNC: u64 = 1;
const HEARTBEAT: u64 = 2;
const COMMIT: u64 = 3;

struct Member {
    group: String,
    partition: i32,
    id: String,
    generation: i32,
    stable: bool,
    /// The offset that it commits next.
    next: i64,
    acked: i64,
    /// When its commits in flight were due.
    due: std::collections::VecDeque<Duration>,
}

/// Members of whole groups; member n is connection n.
pub struct Fleet {
    target: Target,
    driver: Driver,
    members: Vec<Member>,
    in_group: usize,
}

impl Fleet {
    /// Connects and joins all members of `groups`, until every group is stable.
    pub fn join(
        address: SocketAddr,
        topic: &Topic,
        groups: Range<usize>,
        in_group: usize,
    ) -> Result<Fleet> {
        let mut members = Vec::with_capacity(groups.len() * in_group);
        for group in groups {
            for partition in 0..i32::try_from(in_group)? {
                members.push(Member {
                    group: group_name(group),
                    partition,
                    id: String::new(),
                    generation: -1,
                    stable: false,
                    next: 1,
                    acked: 0,
                    due: std::collections::VecDeque::new(),
                });
            }
        }
        let driver = Driver::connect(address, members.len())?;
        let target = Target { address, topic: topic.clone() };
        let mut fleet = Fleet { target, driver, members, in_group };
        fleet.join_all()?;
        Ok(fleet)
    }

    /// Each member commits once.
    pub fn commit_once(&mut self) -> Result<()> {
        let begun = Instant::now();
        for index in 0..self.members.len() {
            let member = &mut self.members[index];
            member.commit(index, &self.target.topic, Duration::ZERO, self.driver.outputs())?;
        }
        self.finish(begun, &mut |_| {})
    }

    /// Commits for `length`; hands out the latency of each commit, from when it was due. Returns how
    /// many were acknowledged.
    pub fn run(
        &mut self,
        rate: f64,
        length: Duration,
        latency: &mut impl FnMut(Duration),
    ) -> Result<u64> {
        let begun = Instant::now();
        let before = self.acked();
        let (mut sent, mut beats) = (0u64, 0usize);
        let (members, topic) = (&mut self.members, &self.target.topic);
        let again = rate == 0.0;
        if again {
            for (index, member) in members.iter_mut().enumerate() {
                member.commit(index, topic, Duration::ZERO, self.driver.outputs())?;
            }
        }
        let mut last = Instant::now();
        while begun.elapsed() < length {
            let now = begun.elapsed();
            let due = |index: u64| Duration::from_secs_f64(index as f64 / rate);
            while !again && due(sent) <= now {
                let index = usize::try_from(sent % members.len() as u64)?;
                members[index].commit(index, topic, due(sent), self.driver.outputs())?;
                sent += 1;
            }
            // Heartbeats are spread evenly over their interval.
            let share = now.as_secs_f64() / HEARTBEAT_EVERY.as_secs_f64();
            let beats_due = (share * members.len() as f64) as usize;
            while beats < beats_due {
                let index = beats % members.len();
                members[index].beat(index, self.driver.outputs())?;
                beats += 1;
            }
            let wait =
                if again { TURN } else { due(sent).saturating_sub(begun.elapsed()).min(TURN) };
            let answers = self.driver.turn(wait, &mut |response, outputs| {
                let (index, is_commit) = (response.connection, response.tag == COMMIT);
                members[index].steady(&response, begun, latency)?;
                if is_commit && again && begun.elapsed() < length {
                    members[index].commit(index, topic, begun.elapsed(), outputs)?;
                }
                Ok(())
            })?;
            if answers > 0 {
                last = Instant::now();
            }
            ensure!(last.elapsed() < SILENCE_LIMIT, "no answer for {SILENCE_LIMIT:?}");
        }
        self.finish(begun, latency)?;
        Ok(self.acked() - before)
    }

    /// Holds what OffsetFetch says to what was acknowledged.
    pub fn check(&self, admin: &mut Admin) -> Result<()> {
        for members in self.members.chunks(self.in_group) {
            let group = &members[0].group;
            let topic = &self.target.topic.name;
            let found =
                requests::committed(admin, group, topic, self.in_group)?.with_context(|| {
                    format!("the coordinator of {group} at {} is loading", self.target.address)
                })?;
            let acked: Vec<i64> = members.iter().map(|member| member.acked).collect();
            ensure!(found == acked, "{group} has {found:?}, and {acked:?} was acknowledged");
        }
        Ok(())
    }

    fn acked(&self) -> u64 {
        self.members.iter().map(|member| member.acked.unsigned_abs()).sum()
    }

    fn finish(&mut self, begun: Instant, latency: &mut impl FnMut(Duration)) -> Result<()> {
        let members = &mut self.members;
        self.driver.drain(SILENCE_LIMIT, &mut |response, _| {
            members[response.connection].steady(&response, begun, latency)
        })
    }

    fn join_all(&mut self) -> Result<()> {
        for index in 0..self.members.len() {
            self.members[index].join(index, self.driver.outputs())?;
        }
        let mut last = Instant::now();
        loop {
            let members = &mut self.members;
            let answers = self
                .driver
                .turn(TURN, &mut |response, outputs| joining(members, &response, outputs))?;
            if answers > 0 {
                last = Instant::now();
            }
            ensure!(last.elapsed() < SILENCE_LIMIT, "no group changed for {SILENCE_LIMIT:?}");
            if self.driver.outputs().open() > 0 {
                continue;
            }
            if self.members.iter().all(|member| member.stable) {
                return Ok(());
            }
            // Who is stable learns from a heartbeat that somebody joined behind it.
            for (index, member) in self.members.iter_mut().enumerate() {
                member.beat(index, self.driver.outputs())?;
            }
        }
    }
}

/// An answer while groups form.
fn joining(members: &mut [Member], response: &Response<'_>, outputs: &mut Outputs) -> Result<()> {
    let index = response.connection;
    let error = match response.tag {
        JOIN => {
            let joined: jg::JoinGroupResponse<'_> = body(requests::JOIN, response.bytes)?;
            if joined.error_code == 0 {
                let ids: Vec<String> =
                    joined.members.iter().map(|member| member.member_id.to_owned()).collect();
                let leads = joined.leader == joined.member_id;
                let member = &mut members[index];
                joined.member_id.clone_into(&mut member.id);
                member.generation = joined.generation_id;
                let ids = if leads { ids } else { Vec::new() };
                member.stable = false;
                let frame = requests::sync(&member.group, &member.id, member.generation, &ids)?;
                outputs.send(index, &frame, SYNC);
            }
            joined.error_code
        }
        SYNC => {
            let synced: sg::SyncGroupResponse<'_> = body(requests::SYNC, response.bytes)?;
            members[index].stable = synced.error_code == 0;
            synced.error_code
        }
        HEARTBEAT => {
            let beat: hb::HeartbeatResponse = body(requests::HEARTBEAT, response.bytes)?;
            beat.error_code
        }
        other => bail!("tag {other} while joining"),
    };
    match error {
        0 => Ok(()),
        REBALANCE_IN_PROGRESS => members[index].join(index, outputs),
        other => bail!("{}: error {other} while it forms", members[index].group),
    }
}

impl Member {
    fn join(&mut self, index: usize, outputs: &mut Outputs) -> Result<()> {
        self.stable = false;
        outputs.send(index, &requests::join(&self.group, &self.id)?, JOIN);
        Ok(())
    }

    fn beat(&mut self, index: usize, outputs: &mut Outputs) -> Result<()> {
        let frame = requests::heartbeat(&self.group, &self.id, self.generation)?;
        outputs.send(index, &frame, HEARTBEAT);
        Ok(())
    }

    fn commit(
        &mut self,
        index: usize,
        topic: &Topic,
        due: Duration,
        outputs: &mut Outputs,
    ) -> Result<()> {
        let who = (self.group.as_str(), self.id.as_str(), self.generation);
        let frame = requests::commit(who, (&topic.name, self.partition, self.next))?;
        self.next += 1;
        self.due.push_back(due);
        outputs.send(index, &frame, COMMIT);
        Ok(())
    }

    /// An answer once the group is stable.
    fn steady(
        &mut self,
        response: &Response<'_>,
        begun: Instant,
        latency: &mut impl FnMut(Duration),
    ) -> Result<()> {
        let error = if response.tag == COMMIT {
            let due = self.due.pop_front().context("a commit that was not sent")?;
            latency(begun.elapsed().saturating_sub(due));
            self.acked += 1;
            requests::commit_error(response.bytes)?
        } else {
            let beat: hb::HeartbeatResponse = body(requests::HEARTBEAT, response.bytes)?;
            beat.error_code
        };
        ensure!(error == 0, "{}: error {error} of a stable member", self.group);
        Ok(())
    }
}
