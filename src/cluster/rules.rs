//! Makes and deletes access rules.

use super::change::Refused;
use super::controller::{Controller, Cores, TopicDirectories};
use super::limits::{
    RULE_CHANGES_PER_REQUEST_MAX, RULE_TEXT_BYTES_MAX, RULES_MAX, RULES_TEXT_BYTES_MAX,
};
use super::store::{MetadataChange, MetadataStore};
use crate::authorizer::{Rule, RuleFilter, Rules};
use std::collections::BTreeSet;
use std::sync::Arc;

impl<S: MetadataStore, C: Cores, D: TopicDirectories> Controller<S, C, D> {
    /// Makes rules; an answer for each, in order. One that is there already is no error.
    pub fn create_rules(&mut self, asked: &[Rule]) -> Vec<Result<(), Refused>> {
        if let Err(refused) = check_count(asked.len()) {
            return vec![Err(refused); asked.len()];
        }
        let mut after = (**self.image().rules()).clone();
        let mut changes = Vec::new();
        let answers: Vec<Result<(), Refused>> = asked
            .iter()
            .map(|rule| {
                check_room(&after, rule)?;
                if after.insert(rule.clone()) {
                    changes.push(MetadataChange::PutRule(rule.clone()));
                }
                Ok(())
            })
            .collect();
        match self.set_rules(&changes, after) {
            Ok(()) => answers,
            Err(refused) => {
                answers.into_iter().map(|answer| answer.and(Err(refused.clone()))).collect()
            }
        }
    }

    /// Deletes the rules that filters match; for each filter what it matched, in order. What two match
    /// counts for both.
    pub fn delete_rules(&mut self, filters: &[RuleFilter]) -> Vec<Result<Vec<Arc<Rule>>, Refused>> {
        if let Err(refused) = check_count(filters.len()) {
            return vec![Err(refused); filters.len()];
        }
        let before = self.image().rules().clone();
        let mut room = RULES_MAX;
        let answers: Vec<Result<Vec<Arc<Rule>>, Refused>> = filters
            .iter()
            .map(|filter| {
                let matched: Vec<Arc<Rule>> = before.matching(filter).cloned().collect();
                room = room.checked_sub(matched.len()).ok_or_else(too_many_matched)?;
                Ok(matched)
            })
            .collect();
        let gone: BTreeSet<&Arc<Rule>> = answers.iter().flatten().flatten().collect();
        let mut after = (*before).clone();
        for rule in &gone {
            assert!(after.remove(rule), "a rule about {} matched and is not there", rule.name);
        }
        let changes: Vec<MetadataChange> =
            gone.into_iter().map(|rule| MetadataChange::RemoveRule((**rule).clone())).collect();
        match self.set_rules(&changes, after) {
            Ok(()) => answers,
            Err(refused) => {
                answers.into_iter().map(|answer| answer.and(Err(refused.clone()))).collect()
            }
        }
    }

    /// Makes the changes durable, then shows every core what is in force after them.
    fn set_rules(&mut self, changes: &[MetadataChange], after: Rules) -> Result<(), Refused> {
        if changes.is_empty() {
            return Ok(());
        }
        self.commit(changes)?;
        self.replace_rules(Arc::new(after));
        Ok(())
    }
}

fn check_count(count: usize) -> Result<(), Refused> {
    if count <= RULE_CHANGES_PER_REQUEST_MAX {
        return Ok(());
    }
    Err(Refused::TooMany {
        what: format!(
            "Excessively many access rules or filters per request: {count}, at most \
             {RULE_CHANGES_PER_REQUEST_MAX}; ask for fewer at a time."
        ),
    })
}

fn too_many_matched() -> Refused {
    let what = format!("The filters of this request match more than {RULES_MAX} times in all.");
    Refused::TooMany { what }
}

/// Whether a rule that is not there yet may be made.
fn check_room(rules: &Rules, rule: &Rule) -> Result<(), Refused> {
    let bytes = rule.text_bytes();
    if bytes > RULE_TEXT_BYTES_MAX {
        return Err(Refused::Request {
            what: format!(
                "An access rule of {bytes} bytes is too long; at most {RULE_TEXT_BYTES_MAX} bytes \
                 of resource name, principal and host"
            ),
        });
    }
    let is_full = rules.len() >= RULES_MAX || rules.text_bytes() + bytes > RULES_TEXT_BYTES_MAX;
    if is_full && !rules.contains(rule) {
        return Err(Refused::TooMany {
            what: format!(
                "{} access rules with {} bytes of text are as many as there may be; delete some, or \
                 let prefixed ones stand for many",
                rules.len(),
                rules.text_bytes()
            ),
        });
    }
    Ok(())
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;
