//! Random rules against a model: Apache Kafka's documentation, written down as a look at every rule.
//!
//! Goal: the index finds what a plain search finds, through insertions and removals in any order, for
//! each question that can be asked of a small world.

use super::decision::{Asking, Verdict, decide, decide_for_any};
use super::*;
use crate::wire::apis::AclOperation;
use std::net::IpAddr;

const NAMES: [&str; 9] = ["*", "a", "ab", "abc", "abd", "b", "ba", "hardcode", "é"];
const HOSTS: [&str; 3] = ["*", "127.0.0.1", "10.0.0.1"];
const OPERATIONS: [AclOperation; 6] = [
    AclOperation::Read,
    AclOperation::Write,
    AclOperation::Describe,
    AclOperation::Alter,
    AclOperation::AlterConfigs,
    AclOperation::DescribeConfigs,
];
const KINDS: [ResourceKind; 2] = [ResourceKind::Topic, ResourceKind::Group];

/// A xorshift generator: the seed is all that a failure needs to be told by.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).unwrap()
    }

    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }

    fn rule(&mut self, principals: &[Principal]) -> Rule {
        let operations = OPERATIONS.map(RuleOperation::One).into_iter().chain([RuleOperation::All]);
        Rule {
            kind: self.one(&KINDS),
            name: self.one(&NAMES).into(),
            pattern: self.one(&[PatternKind::Literal, PatternKind::Prefixed]),
            principal: self.one(principals),
            host: self.one(&HOSTS).into(),
            operation: self.one(&operations.collect::<Vec<_>>()),
            permission: self.one(&[Permission::Deny, Permission::Allow, Permission::Allow]),
        }
    }
}

/// Whether a rule concerns a resource at all.
fn concerns(rule: &Rule, kind: ResourceKind, name: &str) -> bool {
    let matches = match rule.pattern {
        PatternKind::Literal => *rule.name == *name || *rule.name == *"*",
        PatternKind::Prefixed => name.starts_with(&*rule.name),
    };
    rule.kind == kind && matches
}

fn is_about(rule: &Rule, asking: Asking<'_>) -> bool {
    let principal = rule.principal == *asking.principal || rule.principal.is_written("User:*");
    principal && (*rule.host == *"*" || *rule.host == *asking.host.to_string())
}

fn model(
    policy: &Policy,
    rules: &[Rule],
    asking: Asking<'_>,
    asked: AclOperation,
    kind: ResourceKind,
    name: &str,
) -> bool {
    if policy.super_users.contains(asking.principal) {
        return true;
    }
    let concerned: Vec<&Rule> = rules.iter().filter(|rule| concerns(rule, kind, name)).collect();
    let says = |permission| {
        concerned.iter().any(|rule| {
            rule.permission == permission
                && is_about(rule, asking)
                && rule.operation.covers(asked, permission)
        })
    };
    !says(Permission::Deny)
        && (says(Permission::Allow) || concerned.is_empty() && policy.allow_without_rules)
}

/// KIP-679: some resource is allowed, and neither its own name nor a prefix of it is denied.
fn model_for_any(
    policy: &Policy,
    rules: &[Rule],
    asking: Asking<'_>,
    asked: AclOperation,
    kind: ResourceKind,
) -> bool {
    if model(policy, rules, asking, asked, kind, "hardcode") {
        return true;
    }
    let about = |permission| {
        rules.iter().filter(move |rule| {
            let operation = [RuleOperation::All, RuleOperation::One(asked)];
            rule.kind == kind
                && rule.permission == permission
                && is_about(rule, asking)
                && operation.contains(&rule.operation)
        })
    };
    if about(Permission::Deny).any(Rule::is_about_all) {
        return false;
    }
    about(Permission::Allow).any(|allowed| {
        allowed.is_about_all()
            || !about(Permission::Deny).any(|denied| match (denied.pattern, allowed.pattern) {
                (PatternKind::Prefixed, _) => {
                    !denied.name.is_empty() && allowed.name.starts_with(&*denied.name)
                }
                (PatternKind::Literal, PatternKind::Literal) => denied.name == allowed.name,
                (PatternKind::Literal, PatternKind::Prefixed) => false,
            })
    })
}

#[test]
fn decisions_are_those_of_a_look_at_every_rule() {
    let principals =
        [Principal::user("a"), Principal::user("b"), Principal::EVERYBODY, Principal::ANONYMOUS];
    let host = |text: &str| text.parse::<IpAddr>().unwrap();
    for seed in 1..=400 {
        let mut chance = Chance(u64::wrapping_mul(seed, 0x9e37_79b9_7f4a_7c15));
        let policy = Policy {
            super_users: [Principal::user("root")].into(),
            allow_without_rules: chance.below(2) == 0,
        };
        let mut rules = Rules::default();
        let mut listed: Vec<Rule> = Vec::new();
        for step in 0..24 {
            if step % 4 == 3 && !listed.is_empty() {
                let gone = listed.swap_remove(chance.below(listed.len()));
                assert!(rules.remove(&gone) && !rules.remove(&gone));
            } else {
                let rule = chance.rule(&principals);
                assert_eq!(rules.insert(rule.clone()), !listed.contains(&rule), "seed {seed}");
                if !listed.contains(&rule) {
                    listed.push(rule);
                }
            }
            let root = Principal::user("root");
            for principal in principals.iter().filter(|p| !p.is_written("User:*")).chain([&root]) {
                let asking = Asking { principal, host: host(chance.one(&HOSTS[1..])) };
                let (operation, kind) = (chance.one(&OPERATIONS), chance.one(&KINDS));
                let name = chance.one(&["a", "ab", "abcd", "b", "c", "*", "éé", "hardcode"]);
                let resource = match kind {
                    ResourceKind::Topic => Resource::Topic(name),
                    _ => Resource::Group(name),
                };
                let verdict = decide(&policy, &rules, asking, operation, resource);
                let expected = model(&policy, &listed, asking, operation, kind, name);
                let about = format!("seed {seed}: {asking:?} {operation:?} {kind:?} {name}");
                assert_eq!(verdict.is_allowed(), expected, "{about} {listed:?}");
                if let Verdict::DeniedBy(rule) = verdict {
                    assert!(concerns(rule, kind, name) && is_about(rule, asking), "{about}");
                }
                let any = decide_for_any(&policy, &rules, asking, operation, kind);
                let expected = model_for_any(&policy, &listed, asking, operation, kind);
                assert_eq!(any, expected, "any: {about} {listed:?}");
            }
        }
        assert_eq!(rules.len(), listed.len());
        assert_eq!(rules.text_bytes(), listed.iter().map(Rule::text_bytes).sum::<usize>());
        check_filters(&mut chance, &rules, &listed, &principals);
    }
}

/// A filter finds what it matches, also where it looks only at the rules about one resource.
fn check_filters(chance: &mut Chance, rules: &Rules, listed: &[Rule], principals: &[Principal]) {
    for _ in 0..20 {
        let like = chance.rule(principals);
        let some = |chance: &mut Chance, text: String| (chance.below(2) == 0).then_some(text);
        let any = |chance: &mut Chance, number: i8| if chance.below(2) == 0 { 1 } else { number };
        let filter = RuleFilter {
            kind: any(chance, like.kind as i8),
            name: some(chance, like.name.to_string()),
            pattern: chance.one(&[1, 2, 3, 4]),
            principal: some(chance, like.principal.to_string()),
            host: some(chance, like.host.to_string()),
            operation: any(chance, like.operation.number()),
            permission: any(chance, like.permission as i8),
        };
        let found: Vec<&Rule> = rules.matching(&filter).map(|rule| &**rule).collect();
        let mut expected: Vec<&Rule> = listed.iter().filter(|rule| filter.matches(rule)).collect();
        expected.sort();
        assert_eq!(found, expected, "{filter:?}");
    }
}
