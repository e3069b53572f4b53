use super::super::testing::*;
use super::super::*;

fn founded(is_settled: bool) -> (ClassicGroup<Ticket>, GroupSnapshot, Roster) {
    let scene = Scene::stable(2);
    let roster = Roster { is_settled, ..scene.group.roster().unwrap() };
    let (group, snapshot) = ClassicGroup::found(settings(), roster.clone(), scene.now());
    (group, snapshot, roster)
}

#[test]
fn group_founded_from_a_roster_is_the_one_that_gave_it() {
    let (group, snapshot, roster) = founded(true);
    assert_eq!((group.state(), group.generation()), (State::Stable, roster.generation));
    assert_eq!(group.roster(), Some(roster));
    assert_eq!(group.snapshot(), snapshot);
    assert!(snapshot.leader.is_some());
    assert!(group.next_deadline().is_some(), "sessions run");
    group.assert_sound();
}

#[test]
fn members_of_a_group_that_is_not_settled_join_again_also_after_a_restart() {
    let (group, snapshot, roster) = founded(false);
    assert_eq!((group.state(), group.generation()), (State::PreparingRebalance, roster.generation));
    assert_eq!(snapshot.leader, None);
    group.assert_sound();
    let now = Scene::new().now();
    let mut again: ClassicGroup<Ticket> = ClassicGroup::restore(settings(), snapshot, now);
    assert_eq!(again.state(), State::PreparingRebalance);
    let id = roster.members[0].member_id.clone();
    let told = again.heartbeat(caller(&id), roster.generation, now);
    assert_eq!(told, Err(ErrorCode::RebalanceInProgress));
}

#[test]
fn only_groups_of_consumers_have_a_roster() {
    let mut scene = Scene::stable(1);
    scene.group.protocol_type = Some(name("connect"));
    assert_eq!(scene.group.roster(), None);
    assert_eq!(Scene::new().group.roster(), None, "nor has one without members");
}

#[test]
fn who_waits_in_a_dissolved_group_is_told_and_what_rests_on_a_record_is_kept() {
    let mut scene = Scene::stable(1);
    let left = scene.leave(&[leaving("client-1", None)]);
    let joining = scene.join(old_join());
    assert!(scene.is_waiting(left) && scene.is_waiting(joining));
    let group = std::mem::replace(&mut scene.group, Scene::new().group);
    let Dissolved { answers, held } = group.dissolve(ErrorCode::RebalanceInProgress);
    let [(ticket, Answer::Join(answer))] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!((*ticket, answer.error), (joining, ErrorCode::RebalanceInProgress));
    let [(ticket, Answer::Leave(answer))] = &held[..] else { panic!("{held:?}") };
    assert_eq!((*ticket, answer.error), (left, ErrorCode::None));
    let refused = Answer::Leave(answer.clone()).refused(ErrorCode::NotCoordinator);
    assert_eq!(refused, Answer::Leave(LeaveAnswer::refused(ErrorCode::NotCoordinator)));
}
