//! Finds the rules that concern a resource: by its name, by what it begins with, and those about
//! every resource of its kind.

use super::principal::Principal;
use super::rule::{Hosts, PatternKind, Rule};
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::ops::Bound;
use std::sync::Arc;

/// A rule with what is asked of it each time.
#[derive(Clone, Debug)]
struct Entry {
    rule: Arc<Rule>,
    hosts: Hosts,
}

/// Rules of one resource pattern, or of one kind of resource, by principal. Never empty.
#[derive(Clone, Debug, Default)]
pub struct ByPrincipal(HashMap<Principal, Vec<Entry>>);

impl ByPrincipal {
    /// The rules about `principal`, or about everybody, that are for its host.
    pub fn about<'r>(
        &'r self,
        principal: &Principal,
        host: IpAddr,
    ) -> impl Iterator<Item = &'r Rule> + use<'r> {
        let own = self.0.get(principal).into_iter().flatten();
        let of_all = self.0.get(&Principal::EVERYBODY).into_iter().flatten();
        own.chain(of_all).filter(move |entry| entry.hosts.include(host)).map(|entry| &*entry.rule)
    }

    fn insert(&mut self, rule: &Arc<Rule>) {
        let entry = Entry { rule: rule.clone(), hosts: rule.hosts() };
        self.0.entry(rule.principal.clone()).or_default().push(entry);
    }

    fn remove(&mut self, rule: &Rule) {
        let Some(entries) = self.0.get_mut(&rule.principal) else {
            panic!("no rule about {} is indexed", rule.principal);
        };
        entries.retain(|entry| *entry.rule != *rule);
        if entries.is_empty() {
            self.0.remove(&rule.principal);
        }
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The rules about one kind of resource.
#[derive(Clone, Debug, Default)]
pub struct Index {
    literal: HashMap<Box<str>, ByPrincipal>,
    prefixed: BTreeMap<Box<str>, ByPrincipal>,
    about_all: ByPrincipal,
    /// All of them again, for questions about no resource in particular.
    whole: ByPrincipal,
}

impl Index {
    pub fn insert(&mut self, rule: &Arc<Rule>) {
        self.whole.insert(rule);
        match rule.pattern {
            _ if rule.is_about_all() => self.about_all.insert(rule),
            PatternKind::Literal => self.literal.entry(rule.name.clone()).or_default().insert(rule),
            PatternKind::Prefixed => {
                self.prefixed.entry(rule.name.clone()).or_default().insert(rule);
            }
        }
    }

    /// # Panics
    /// The rule is not here.
    pub fn remove(&mut self, rule: &Rule) {
        self.whole.remove(rule);
        if rule.is_about_all() {
            self.about_all.remove(rule);
            return;
        }
        let of_name = match rule.pattern {
            PatternKind::Literal => self.literal.get_mut(&rule.name),
            PatternKind::Prefixed => self.prefixed.get_mut(&rule.name),
        };
        let Some(of_name) = of_name else { panic!("no rule about {} is indexed", rule.name) };
        of_name.remove(rule);
        if of_name.is_empty() {
            match rule.pattern {
                PatternKind::Literal => drop(self.literal.remove(&rule.name)),
                PatternKind::Prefixed => drop(self.prefixed.remove(&rule.name)),
            }
        }
    }

    /// The rules that concern the resource of this name: for each pattern that does one item. Costs a
    /// look-up, and two for each prefix there is of the name.
    pub fn concerning<'r, 'n>(
        &'r self,
        name: &'n str,
    ) -> impl Iterator<Item = &'r ByPrincipal> + use<'r, 'n> {
        let about_all = (!self.about_all.is_empty()).then_some(&self.about_all);
        let literal = (!self.literal.is_empty()).then(|| self.literal.get(name)).flatten();
        let prefixes = Prefixes { prefixed: &self.prefixed, name, left: Some(name.len()) };
        about_all.into_iter().chain(literal).chain(prefixes)
    }

    /// All rules of the kind.
    pub fn whole(&self) -> &ByPrincipal {
        &self.whole
    }
}

/// Walks over the prefixes of a name, the longest first. The greatest text that is not above a
/// prefix of the name is either a prefix itself, or shares with it all that a shorter one can have.
struct Prefixes<'r, 'n> {
    prefixed: &'r BTreeMap<Box<str>, ByPrincipal>,
    name: &'n str,
    /// Bytes of the name that a further prefix has at most.
    left: Option<usize>,
}

impl<'r> Iterator for Prefixes<'r, '_> {
    type Item = &'r ByPrincipal;

    fn next(&mut self) -> Option<&'r ByPrincipal> {
        loop {
            let upper = &self.name[..self.left?];
            let (found, rules) = self.prefixed.range::<str, _>(up_to(upper)).next_back()?;
            if upper.starts_with(&**found) {
                self.left = shorter(upper, found.len());
                return Some(rules);
            }
            let shared = upper.bytes().zip(found.bytes()).take_while(|(a, b)| a == b).count();
            self.left = Some(floor(upper, shared));
            assert!(shared < upper.len(), "{found:?} is above {upper:?}");
        }
    }
}

fn up_to(upper: &str) -> (Bound<&str>, Bound<&str>) {
    (Bound::Unbounded, Bound::Included(upper))
}

/// Where the character begins that `at` lies in.
fn floor(text: &str, at: usize) -> usize {
    (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// Where the text that is one character shorter than the first `bytes` ends.
fn shorter(text: &str, bytes: usize) -> Option<usize> {
    Some(floor(text, bytes.checked_sub(1)?))
}

#[cfg(test)]
mod tests {
    use super::super::rule::{Permission, ResourceKind, RuleOperation};
    use super::*;

    fn prefixed(name: &str) -> Arc<Rule> {
        Arc::new(Rule {
            kind: ResourceKind::Topic,
            name: name.into(),
            pattern: PatternKind::Prefixed,
            principal: Principal::user("a"),
            host: "*".into(),
            operation: RuleOperation::All,
            permission: Permission::Allow,
        })
    }

    /// Also where characters have several bytes, and where others stand between two prefixes.
    #[test]
    fn every_prefix_of_a_name_is_found_once_and_nothing_else() {
        let texts =
            ["", "f", "fa", "fo", "foo", "foobar", "fooz", "g", "é", "éa", "éè", "日", "日本"];
        let mut index = Index::default();
        texts.iter().for_each(|text| index.insert(&prefixed(text)));
        let host = "127.0.0.1".parse().unwrap();
        for name in ["", "f", "foo", "foobar", "foobarbaz", "fooy", "éa", "éé", "日本語", "zz"]
        {
            let found: Vec<&str> = index
                .concerning(name)
                .flat_map(|rules| rules.about(&Principal::user("a"), host))
                .map(|rule| &*rule.name)
                .collect();
            let mut expected: Vec<&str> =
                texts.into_iter().filter(|text| name.starts_with(text)).collect();
            expected.reverse();
            assert_eq!(found, expected, "{name:?}");
        }
    }

    #[test]
    fn what_is_taken_out_leaves_nothing_behind() {
        let mut index = Index::default();
        let literal = |name: &str| {
            let rule = (*prefixed(name)).clone();
            Arc::new(Rule { pattern: PatternKind::Literal, ..rule })
        };
        let rules = [prefixed("a"), prefixed("ab"), literal("a"), literal("*")];
        rules.iter().for_each(|rule| index.insert(rule));
        assert_eq!(index.concerning("abc").count(), 3);
        rules.iter().for_each(|rule| index.remove(rule));
        assert_eq!(index.concerning("abc").count(), 0);
        assert!(index.literal.is_empty() && index.prefixed.is_empty() && index.whole.is_empty());
    }
}
