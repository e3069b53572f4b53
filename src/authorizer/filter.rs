//! Which rules somebody asks for, to see or to delete them.

use super::rule::Permission;
use super::rule::{EVERY, PatternKind, ResourceKind, Rule, RuleOperation};

/// Stands for every kind of resource or pattern, operation or permission.
pub const ANY: i8 = 1;
/// The rules that concern a resource of the filter's name, whatever their patterns.
pub const MATCH: i8 = 2;

/// A filter as a request has it: numbers of the wire, and texts of which `None` is any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleFilter {
    pub kind: i8,
    pub name: Option<String>,
    pub pattern: i8,
    pub principal: Option<String>,
    pub host: Option<String>,
    pub operation: i8,
    pub permission: i8,
}

impl RuleFilter {
    /// Whether the kind of resource or of pattern is one that nobody knows.
    pub fn has_unknown_pattern(&self) -> bool {
        let is_kind = self.kind == ANY || ResourceKind::new(self.kind).is_some();
        let is_pattern =
            matches!(self.pattern, ANY | MATCH) || PatternKind::new(self.pattern).is_some();
        !is_kind || !is_pattern
    }

    /// Whether the operation or the permission is one that nobody knows.
    pub fn has_unknown_entry(&self) -> bool {
        let is_operation = self.operation == ANY || RuleOperation::new(self.operation).is_some();
        let is_permission = self.permission == ANY || Permission::new(self.permission).is_some();
        !is_operation || !is_permission
    }

    pub fn matches(&self, rule: &Rule) -> bool {
        let is_any = |asked: i8, of_rule: i8| asked == ANY || asked == of_rule;
        let is_text = |asked: &Option<String>, of_rule: &str| {
            asked.as_deref().is_none_or(|asked| asked == of_rule)
        };
        is_any(self.kind, rule.kind as i8)
            && self.matches_pattern(rule)
            && is_any(self.operation, rule.operation.number())
            && is_any(self.permission, rule.permission as i8)
            && is_text(&self.host, &rule.host)
            && self.principal.as_deref().is_none_or(|asked| rule.principal.is_written(asked))
    }

    fn matches_pattern(&self, rule: &Rule) -> bool {
        let is_match = self.pattern == MATCH;
        if !is_match && self.pattern != ANY && self.pattern != rule.pattern as i8 {
            return false;
        }
        let Some(name) = self.name.as_deref() else { return true };
        match rule.pattern {
            _ if *rule.name == *name => true,
            PatternKind::Literal => is_match && *rule.name == *EVERY,
            PatternKind::Prefixed => is_match && name.starts_with(&*rule.name),
        }
    }

    /// Kind and name of all rules that it can match, where there is but one.
    pub fn exact(&self) -> Option<(ResourceKind, &str)> {
        let name = self.name.as_deref().filter(|_| self.pattern != MATCH)?;
        Some((ResourceKind::new(self.kind)?, name))
    }
}

#[cfg(test)]
mod tests {
    use super::super::principal::Principal;
    use super::*;
    use crate::wire::apis::AclOperation;

    const LITERAL: i8 = PatternKind::Literal as i8;
    const PREFIXED: i8 = PatternKind::Prefixed as i8;

    fn filter(name: Option<&str>, pattern: i8) -> RuleFilter {
        RuleFilter {
            kind: ANY,
            name: name.map(str::to_owned),
            pattern,
            principal: None,
            host: None,
            operation: ANY,
            permission: ANY,
        }
    }

    fn rule(name: &str, pattern: PatternKind) -> Rule {
        Rule {
            kind: ResourceKind::Topic,
            name: name.into(),
            pattern,
            principal: Principal::user("a"),
            host: "*".into(),
            operation: RuleOperation::One(AclOperation::Read),
            permission: Permission::Allow,
        }
    }

    /// The table of KIP-290.
    #[test]
    fn pattern_of_a_filter_decides_which_names_it_matches() {
        let rules = [
            rule("foo", PatternKind::Literal),
            rule("*", PatternKind::Literal),
            rule("fo", PatternKind::Prefixed),
            rule("foo", PatternKind::Prefixed),
            rule("foobar", PatternKind::Prefixed),
        ];
        let matched = |filter: &RuleFilter| rules.each_ref().map(|rule| filter.matches(rule));
        for (name, pattern, expected) in [
            (None, ANY, [true, true, true, true, true]),
            (None, MATCH, [true, true, true, true, true]),
            (None, LITERAL, [true, true, false, false, false]),
            (Some("foo"), ANY, [true, false, false, true, false]),
            (Some("foo"), LITERAL, [true, false, false, false, false]),
            (Some("foo"), PREFIXED, [false, false, false, true, false]),
            (Some("foo"), MATCH, [true, true, true, true, false]),
            (Some("*"), LITERAL, [false, true, false, false, false]),
            (Some("*"), MATCH, [false, true, false, false, false]),
            (Some("other"), MATCH, [false, true, false, false, false]),
        ] {
            assert_eq!(matched(&filter(name, pattern)), expected, "{name:?} {pattern}");
        }
    }

    #[test]
    fn each_field_narrows_and_what_nobody_knows_is_told() {
        let rule = rule("foo", PatternKind::Literal);
        let any = filter(None, ANY);
        type Change = fn(&mut RuleFilter);
        let cases: [(Change, bool); 8] = [
            (|f| f.kind = 2, true),
            (|f| f.kind = 3, false),
            (|f| f.principal = Some("User:a".into()), true),
            (|f| f.principal = Some("User:*".into()), false),
            (|f| f.host = Some("127.0.0.1".into()), false),
            (|f| f.operation = 3, true),
            (|f| f.operation = 8, false),
            (|f| f.permission = 2, false),
        ];
        for (index, (change, expected)) in cases.into_iter().enumerate() {
            let mut filter = any.clone();
            change(&mut filter);
            assert_eq!(filter.matches(&rule), expected, "{index}");
        }
        assert!(!any.has_unknown_pattern() && !any.has_unknown_entry());
        for unknown in [0, 99, -1] {
            assert!(RuleFilter { kind: unknown, ..any.clone() }.has_unknown_pattern());
            assert!(RuleFilter { pattern: unknown, ..any.clone() }.has_unknown_pattern());
            assert!(RuleFilter { operation: unknown, ..any.clone() }.has_unknown_entry());
            assert!(RuleFilter { permission: unknown, ..any.clone() }.has_unknown_entry());
        }
    }
}
