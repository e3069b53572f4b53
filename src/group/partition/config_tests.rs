//! Groups of the consumer protocol with settings of their own.

use super::testing::{Bench, Topics, beat, now};
use super::*;
use crate::cluster::image::tests::image;
use crate::cluster::store::Stored;
use std::collections::BTreeMap;

/// Settings of groups: each an id, a session timeout and a heartbeat interval.
fn configs(groups: &[(&str, &str, &str)]) -> Arc<GroupConfigs> {
    let image = image(&Stored { starts: 1, ..Stored::default() });
    let own = |(group, session, heartbeat): &(&str, &str, &str)| {
        let own = BTreeMap::from([
            ("consumer.session.timeout.ms".to_owned(), (*session).to_owned()),
            ("consumer.heartbeat.interval.ms".to_owned(), (*heartbeat).to_owned()),
        ]);
        ((*group).to_owned(), own)
    };
    Arc::new(GroupConfigs::new(&groups.iter().map(own).collect(), &image.broker))
}

impl Bench {
    /// The heartbeat interval that a heartbeat is answered with.
    fn interval_ms(&mut self, group: &str, epoch: i32, at: Now) -> u32 {
        let mut reply =
            self.ask(group, at, |reply| Ask::ConsumerHeartbeat(beat("m", epoch), reply));
        self.flush(at);
        reply.try_take().unwrap().unwrap().unwrap().heartbeat_interval_ms
    }

    /// Members after what is due has been done.
    fn members(&mut self, group: &str, at: Now) -> usize {
        let entries = self.groups.tick(&Topics, at);
        self.waiting.extend(entries);
        self.flush(at);
        let mut described = self.ask(group, at, Ask::ConsumerDescribe);
        described.try_take().unwrap().unwrap().map_or(0, |group| group.members.len())
    }
}

#[test]
fn heartbeat_and_session_are_the_groups_own_from_the_next_heartbeat_on() {
    let mut bench = Bench::new();
    bench.groups.set_configs(&configs(&[("own", "60000", "15000")]));
    assert_eq!(bench.interval_ms("own", 0, now(0)), 15_000);
    assert_eq!(bench.interval_ms("other", 0, now(0)), 5_000);
    assert_eq!((bench.members("own", now(45_000)), bench.members("other", now(45_000))), (1, 0));
    assert_eq!(bench.members("own", now(59_999)), 1);
    // Back to the broker's: the session that runs is the old one, the next is not.
    bench.groups.set_configs(&configs(&[]));
    assert_eq!(bench.members("own", now(59_999)), 1);
    assert_eq!(bench.interval_ms("own", 1, now(59_999)), 5_000);
    assert_eq!(bench.members("own", now(59_999 + 44_999)), 1);
    assert_eq!(bench.members("own", now(59_999 + 45_000)), 0);
}

#[test]
fn loaded_group_gives_its_members_its_own_session() {
    let mut bench = Bench::new();
    bench.interval_ms("own", 0, now(0));
    let mut again = Bench { groups: bench.replayed(now(0)), ..Bench::new() };
    again.groups.set_configs(&configs(&[("own", "50000", "6000")]));
    again.groups.loaded(now(0));
    assert_eq!((again.members("own", now(49_999)), again.members("own", now(50_000))), (1, 0));
}
