//! The controller's part in access rules, against a store in memory.

use super::super::controller::NewPartition;
use super::super::image::MetadataImage;
use super::super::image::tests::image;
use super::super::store::{MemoryStore, StoreError, Stored};
use super::*;
use crate::authorizer::{PatternKind, Permission, Principal, ResourceKind, RuleOperation};
use crate::config::TopicConfig;
use millstream_io::units::TopicId;
use std::sync::Mutex;
use std::time::Duration;

/// Remembers what was published.
#[derive(Clone, Default)]
struct Fake(Arc<Mutex<Vec<Arc<MetadataImage>>>>);

impl Cores for Fake {
    fn open(&mut self, _: Vec<NewPartition>) -> Result<(), String> {
        Ok(())
    }

    fn configure(&mut self, _: TopicId, _: TopicConfig) {}

    fn drop_topic(&mut self, _: TopicId) {}

    fn publish(&mut self, image: Arc<MetadataImage>) {
        self.0.lock().unwrap().push(image);
    }
}

impl TopicDirectories for Fake {
    fn set_aside(&mut self, _: &str, _: TopicId, _: Duration) -> Result<(), String> {
        Ok(())
    }
}

fn controller(failure: Option<StoreError>) -> (Controller<MemoryStore, Fake, Fake>, Fake) {
    let stored = Stored { starts: 1, ..Stored::default() };
    let store = MemoryStore { stored: stored.clone(), failure };
    let fake = Fake::default();
    (Controller::new(store, fake.clone(), fake.clone(), image(&stored), &stored), fake)
}

fn rule(name: &str, host: &str) -> Rule {
    Rule {
        kind: ResourceKind::Topic,
        name: name.into(),
        pattern: PatternKind::Literal,
        principal: Principal::user("a"),
        host: host.into(),
        operation: RuleOperation::All,
        permission: Permission::Allow,
    }
}

fn about(name: &str) -> RuleFilter {
    RuleFilter {
        kind: 2,
        name: Some(name.to_owned()),
        pattern: 1,
        principal: None,
        host: None,
        operation: 1,
        permission: 1,
    }
}

#[test]
fn rules_are_made_once_and_published_and_what_filters_match_is_gone() {
    let (mut controller, fake) = controller(None);
    let rules = [rule("t", "*"), rule("t", "*"), rule("t", "::1"), rule("u", "*")];
    assert_eq!(controller.create_rules(&rules), vec![Ok(()); 4]);
    assert_eq!(controller.create_rules(&rules[..1]), vec![Ok(())]);
    let published = || fake.0.lock().unwrap().last().unwrap().rules().len();
    assert_eq!((published(), fake.0.lock().unwrap().len()), (3, 1));
    let filters = [about("t"), RuleFilter { host: Some("*".into()), ..about("t") }, about("none")];
    let deleted = controller.delete_rules(&filters);
    let counts: Vec<usize> =
        deleted.iter().map(|deleted| deleted.as_ref().unwrap().len()).collect();
    assert_eq!(counts, [2, 1, 0]);
    assert_eq!(published(), 1);
    assert!(controller.image().rules().contains(&rules[3]));
}

#[test]
fn rule_that_is_not_stored_is_not_in_force() {
    let failure = StoreError::Failed { path: "p".into(), what: "EIO".into() };
    let (mut controller, fake) = controller(Some(failure.clone()));
    let refused = Err(Refused::Store(failure));
    assert_eq!(controller.create_rules(&[rule("t", "*")]), vec![refused]);
    assert!(controller.image().rules().is_empty() && fake.0.lock().unwrap().is_empty());
    assert_eq!(controller.delete_rules(&[about("t")]), vec![Ok(Vec::new())]);
}

#[test]
fn each_rule_too_long_fails_alone_and_too_many_at_once_fail_together() {
    let (mut controller, _) = controller(None);
    let long = "x".repeat(RULE_TEXT_BYTES_MAX);
    let answers = controller.create_rules(&[rule(&long, "*"), rule("t", "*")]);
    assert!(matches!(answers[..], [Err(Refused::Request { .. }), Ok(())]), "{answers:?}");
    let many = vec![rule("t", "*"); RULE_CHANGES_PER_REQUEST_MAX + 1];
    let answers = controller.create_rules(&many);
    assert!(answers.iter().all(|answer| matches!(answer, Err(Refused::TooMany { .. }))));
    assert_eq!(controller.image().rules().len(), 1);
}

#[test]
fn full_table_takes_no_further_rule_but_one_that_it_has() {
    let mut rules = Rules::default();
    for number in 0..RULES_MAX {
        rules.insert(rule(&number.to_string(), "*"));
    }
    assert!(matches!(check_room(&rules, &rule("new", "*")), Err(Refused::TooMany { .. })));
    assert_eq!(check_room(&rules, &rule("7", "*")), Ok(()));
}
