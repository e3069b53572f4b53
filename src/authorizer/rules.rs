//! All access rules, and where to look for those that matter.

use super::filter::RuleFilter;
use super::index::Index;
use super::principal::Principal;
use super::rule::{PatternKind, Permission, ResourceKind, Rule, RuleOperation};
use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

/// The access rules of the cluster, each once. A copy costs as much as there are rules; cores share
/// one and get another when it changes.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    all: BTreeSet<Arc<Rule>>,
    indexes: [Index; ResourceKind::ALL.len()],
    text_bytes: usize,
}

impl Rules {
    pub fn new(rules: impl Iterator<Item = Rule>) -> Rules {
        let mut all = Rules::default();
        for rule in rules {
            all.insert(rule);
        }
        all
    }

    /// Whether it was not here before.
    pub fn insert(&mut self, rule: Rule) -> bool {
        let rule = Arc::new(rule);
        let is_new = self.all.insert(rule.clone());
        if is_new {
            self.text_bytes += rule.text_bytes();
            self.indexes[place(rule.kind)].insert(&rule);
        }
        is_new
    }

    /// Whether it was here.
    pub fn remove(&mut self, rule: &Rule) -> bool {
        let was_here = self.all.remove(rule);
        if was_here {
            self.text_bytes -= rule.text_bytes();
            self.indexes[place(rule.kind)].remove(rule);
        }
        was_here
    }

    pub fn contains(&self, rule: &Rule) -> bool {
        self.all.contains(rule)
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Bytes of the texts of all rules.
    pub fn text_bytes(&self) -> usize {
        self.text_bytes
    }

    /// All rules, those about one resource together.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Rule>> {
        self.all.iter()
    }

    /// The rules that `filter` matches, in order. Costs a look at each rule, unless the filter names
    /// one resource: then at each about that.
    pub fn matching<'r>(&'r self, filter: &'r RuleFilter) -> impl Iterator<Item = &'r Arc<Rule>> {
        let exact = filter.exact();
        let from = match exact {
            Some((kind, name)) => Bound::Included(first(kind, name)),
            None => Bound::Unbounded,
        };
        let near = self.all.range::<Rule, _>((from, Bound::Unbounded)).take_while(move |rule| {
            exact.is_none_or(|(kind, name)| rule.kind == kind && *rule.name == *name)
        });
        near.filter(|rule| filter.matches(rule))
    }

    pub(super) fn index(&self, kind: ResourceKind) -> &Index {
        &self.indexes[place(kind)]
    }
}

/// Where the rules about a resource begin.
fn first(kind: ResourceKind, name: &str) -> Rule {
    const LOWEST: &str = "";
    Rule {
        kind,
        name: name.into(),
        pattern: PatternKind::Literal,
        principal: Principal::LOWEST,
        host: LOWEST.into(),
        operation: RuleOperation::All,
        permission: Permission::Deny,
    }
}

fn place(kind: ResourceKind) -> usize {
    usize::from((kind as i8).unsigned_abs() - ResourceKind::ALL[0] as u8)
}

const _: () = {
    let mut index = 0;
    while index < ResourceKind::ALL.len() {
        assert!(ResourceKind::ALL[index] as usize - ResourceKind::ALL[0] as usize == index);
        index += 1;
    }
};
