//! Whether somebody may do something, and why not.

use super::policy::Policy;
use super::principal::Principal;
use super::rule::{EVERY, PatternKind, Permission, Resource, ResourceKind, Rule, RuleOperation};
use super::rules::Rules;
use crate::wire::apis::AclOperation;
use std::collections::HashSet;
use std::net::IpAddr;

/// Who wants to do something.
#[derive(Clone, Copy, Debug)]
pub struct Asking<'a> {
    pub principal: &'a Principal,
    /// Where it comes from; IPv4 as such.
    pub host: IpAddr,
}

/// The outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict<'r> {
    Allowed,
    DeniedBy(&'r Rule),
    /// No rule allows it.
    NotAllowed,
}

impl Verdict<'_> {
    pub fn is_allowed(self) -> bool {
        self == Verdict::Allowed
    }
}

/// Whether `asking` may do `operation` with `resource`. A rule that denies is stronger than any that
/// allows.
pub fn decide<'r>(
    policy: &Policy,
    rules: &'r Rules,
    asking: Asking<'_>,
    operation: AclOperation,
    resource: Resource<'_>,
) -> Verdict<'r> {
    if policy.super_users.contains(asking.principal) {
        return Verdict::Allowed;
    }
    let (mut is_concerned, mut is_allowed) = (false, false);
    let index = rules.index(resource.kind());
    for of_pattern in index.concerning(resource.name()) {
        is_concerned = true;
        for rule in of_pattern.about(asking.principal, asking.host) {
            match rule.permission {
                permission if !rule.operation.covers(operation, permission) => {}
                Permission::Deny => return Verdict::DeniedBy(rule),
                Permission::Allow => is_allowed = true,
            }
        }
    }
    match is_concerned {
        _ if is_allowed => Verdict::Allowed,
        false if policy.allow_without_rules => Verdict::Allowed,
        _ => Verdict::NotAllowed,
    }
}

/// Whether there is a resource of `kind` at all with which `asking` may do `operation` (KIP-679).
/// As with Apache Kafka a rule counts for the very operation only, and what is allowed without rules
/// is found out by a name that hardly anything has.
pub fn decide_for_any(
    policy: &Policy,
    rules: &Rules,
    asking: Asking<'_>,
    operation: AclOperation,
    kind: ResourceKind,
) -> bool {
    let some = match kind {
        ResourceKind::Group => Resource::Group(SOME_NAME),
        ResourceKind::TransactionalId => Resource::TransactionalId(SOME_NAME),
        ResourceKind::Cluster => Resource::Cluster,
        ResourceKind::Topic | ResourceKind::DelegationToken | ResourceKind::User => {
            Resource::Topic(SOME_NAME)
        }
    };
    if decide(policy, rules, asking, operation, some).is_allowed() {
        return true;
    }
    let about = || {
        let rules = rules.index(kind).whole().about(asking.principal, asking.host);
        rules.filter(|rule| match rule.operation {
            RuleOperation::All => true,
            RuleOperation::One(of_rule) => of_rule == operation,
        })
    };
    let mut denied: HashSet<(PatternKind, &str)> = HashSet::new();
    denied.extend(
        about()
            .filter(|rule| rule.permission == Permission::Deny)
            .map(|rule| (rule.pattern, &*rule.name)),
    );
    if denied.contains(&(PatternKind::Literal, EVERY)) {
        return false;
    }
    let is_left = |rule: &Rule| {
        let is_denied = rule.pattern == PatternKind::Literal
            && denied.contains(&(PatternKind::Literal, &*rule.name));
        let ends = rule.name.char_indices().map(|(at, char)| at + char.len_utf8());
        let mut prefixes = ends.map(|end| (PatternKind::Prefixed, &rule.name[..end]));
        rule.is_about_all() || !is_denied && !prefixes.any(|prefix| denied.contains(&prefix))
    };
    about().filter(|rule| rule.permission == Permission::Allow).any(is_left)
}

/// Apache Kafka asks for it too.
const SOME_NAME: &str = "hardcode";
