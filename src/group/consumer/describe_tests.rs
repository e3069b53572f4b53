use super::super::testing::{Beat, Bench};
use super::*;

#[test]
fn described_group_tells_all_of_its_members_and_of_topics_that_are() {
    let mut bench = Bench::new(&[("t", 2), ("u", 1)]);
    let join = Beat { rack: Some("r".to_owned()), ..Beat::join("m1", &["t"]) };
    bench.ok(&join.instance("i").assignor("range"));
    bench.ok(&Beat::join_by_regex("m2", "u|t"));
    bench.ok(&Beat::new("m1", 1));
    let described = bench.group.describe(&bench.topics);
    let wire = described.response("g");
    assert_eq!((wire.group_id, wire.group_state), ("g", "Reconciling"));
    assert_eq!((wire.group_epoch, wire.assignment_epoch), (2, 2));
    assert_eq!((wire.assignor_name, wire.error_code), ("range", 0));
    let m1 = &wire.members[0];
    assert_eq!((m1.member_id, m1.instance_id, m1.rack_id), ("m1", Some("i"), Some("r")));
    assert_eq!((m1.member_epoch, m1.member_type), (1, 1));
    assert_eq!((m1.client_id, m1.client_host), ("client", "/127.0.0.1"));
    assert_eq!((&m1.subscribed_topic_names[..], m1.subscribed_topic_regex), (&["t"][..], Some("")));
    let assigned = &m1.assignment.topic_partitions;
    assert_eq!((assigned[0].topic_name, &assigned[0].partitions[..]), ("t", &[0, 1][..]));
    let target = &m1.target_assignment.topic_partitions;
    assert_eq!(target[0].partitions, [0], "it has not let go of the other yet");
    let m2 = &wire.members[1];
    assert_eq!(m2.subscribed_topic_regex, Some("u|t"));
    let names: Vec<&str> =
        m2.target_assignment.topic_partitions.iter().map(|topic| topic.topic_name).collect();
    assert_eq!(names, ["t", "u"]);

    bench.topics.delete("u");
    let described = bench.group.describe(&bench.topics);
    assert_eq!(described.response("g").members[1].target_assignment.topic_partitions.len(), 1);
}

#[test]
fn states_are_named_as_kafka_names_them() {
    let mut bench = Bench::new(&[("t", 2)]);
    let state = |bench: &Bench| bench.group.state().to_string();
    assert_eq!(state(&bench), "Empty");
    bench.ok(&Beat::join("m1", &["t"]));
    assert_eq!(state(&bench), "Stable");
    bench.ok(&Beat::join("m2", &["t"]));
    assert_eq!(state(&bench), "Reconciling");
    bench.ok(&Beat::new("m2", -1));
    assert_eq!(state(&bench), "Assigning");
    bench.settle("m1");
    assert_eq!(state(&bench), "Stable");
    assert_eq!(GroupState::Dead.name(), "Dead");
}
