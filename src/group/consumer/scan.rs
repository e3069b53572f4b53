//! Finding the topics that a group's patterns match, a bounded piece of work at a time.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::ConsumerGroup;
use super::pattern::Pattern;
use super::record::ConsumerRecord;
use super::settings::{PATTERN_REFRESH_INTERVAL_MS, PATTERN_UNITS_PER_CALL};
use super::topics::TopicsView;

/// Matching under way.
#[derive(Debug)]
pub(super) struct Scan {
    /// The view's version when it began.
    version: u64,
    /// Whether it takes all patterns of the group, not only new ones.
    is_full: bool,
    waiting: Vec<Arc<str>>,
    current: Option<Current>,
    done: Vec<(Arc<str>, BTreeSet<Arc<str>>)>,
}

#[derive(Debug)]
struct Current {
    text: Arc<str>,
    pattern: Pattern,
    /// The last name looked at.
    after: Option<Arc<str>>,
    matched: BTreeSet<Arc<str>>,
}

impl ConsumerGroup {
    /// Begins to resolve patterns when there are new ones or new topics, goes on with what is under
    /// way, and gives whether the topics that a pattern matches changed. As with Apache Kafka they are
    /// those that the member whose heartbeat does the work may describe.
    pub(super) fn resolve_patterns(
        &mut self,
        topics: &dyn TopicsView,
        now: u64,
        records: &mut Vec<ConsumerRecord>,
    ) -> bool {
        if !topics.may_be_searched() {
            return false;
        }
        if self.soft.scan.is_none() {
            self.soft.scan = self.due_scan(topics, now);
        }
        let changed = self.go_on_scanning(topics, now, records);
        if self.soft.scan.is_none() {
            // Patterns that came while others were matched.
            self.soft.scan = self.due_scan(topics, now);
        }
        changed
    }

    /// Does one call's worth of matching, if there is any to do.
    fn go_on_scanning(
        &mut self,
        topics: &dyn TopicsView,
        now: u64,
        records: &mut Vec<ConsumerRecord>,
    ) -> bool {
        let Some(scan) = &mut self.soft.scan else { return false };
        if !scan.advance(topics) {
            return false;
        }
        let Some(scan) = self.soft.scan.take() else { return false };
        if scan.is_full {
            self.soft.scanned = Some((scan.version, now));
        }
        let mut changed = false;
        for (pattern, matched) in scan.done {
            changed |= self.set_matched(pattern, matched, records);
        }
        changed
    }

    fn due_scan(&self, topics: &dyn TopicsView, now: u64) -> Option<Scan> {
        let subscribed = self.state.pattern_subscribers.keys();
        if subscribed.len() == 0 {
            return None;
        }
        let version = topics.version();
        let is_full = match self.soft.scanned {
            None => true,
            Some((at_version, at)) => {
                at_version != version && now >= at.saturating_add(PATTERN_REFRESH_INTERVAL_MS)
            }
        };
        let is_due = |pattern: &&Arc<str>| is_full || !self.state.patterns.contains_key(*pattern);
        let waiting: Vec<Arc<str>> = subscribed.filter(is_due).cloned().collect();
        let scan = Scan { version, is_full, waiting, current: None, done: Vec::new() };
        (!scan.waiting.is_empty()).then_some(scan)
    }

    fn set_matched(
        &mut self,
        pattern: Arc<str>,
        matched: BTreeSet<Arc<str>>,
        records: &mut Vec<ConsumerRecord>,
    ) -> bool {
        let before = self.state.patterns.get(&pattern);
        if before == Some(&matched) || !self.is_subscribed_to_pattern(&pattern) {
            return false;
        }
        let changed = before.map_or(!matched.is_empty(), |before| *before != matched);
        self.put(ConsumerRecord::RegularExpression { pattern, value: Some(matched) }, records);
        changed
    }

    /// Forgets what a pattern matches when no member subscribes to it any more.
    pub(super) fn forget_pattern(&mut self, pattern: &Arc<str>, records: &mut Vec<ConsumerRecord>) {
        if self.state.patterns.contains_key(pattern) && !self.is_subscribed_to_pattern(pattern) {
            let pattern = pattern.clone();
            self.put(ConsumerRecord::RegularExpression { pattern, value: None }, records);
        }
    }

    fn is_subscribed_to_pattern(&self, pattern: &Arc<str>) -> bool {
        self.state.pattern_subscribers.contains_key(pattern)
    }
}

impl Scan {
    /// Does one call's worth of work; gives whether all is done.
    fn advance(&mut self, topics: &dyn TopicsView) -> bool {
        let mut left = PATTERN_UNITS_PER_CALL;
        loop {
            let Some(mut current) = self.current.take().or_else(|| self.begin(&mut left)) else {
                return self.waiting.is_empty();
            };
            let units = current.pattern.units();
            let mut more = false;
            topics.names_after(current.after.clone().as_deref(), &mut |name| {
                more = left < units;
                if more {
                    return false;
                }
                left -= units;
                if current.pattern.matches(name) {
                    current.matched.insert(name.clone());
                }
                current.after = Some(name.clone());
                true
            });
            if more {
                self.current = Some(current);
                return false;
            }
            self.done.push((current.text, current.matched));
        }
    }

    /// Takes the next pattern; building it counts as some matches. `None` when none waits, or the
    /// work of this call is used up.
    fn begin(&mut self, left: &mut u32) -> Option<Current> {
        loop {
            if *left == 0 {
                return None;
            }
            let text = self.waiting.pop()?;
            // Patterns were compiled when they came. One that an older version let in and this one
            // does not matches nothing.
            let Ok(pattern) = Pattern::new(&text) else {
                self.done.push((text, BTreeSet::new()));
                *left -= 1;
                continue;
            };
            *left = left.saturating_sub(pattern.units());
            return Some(Current { text, pattern, after: None, matched: BTreeSet::new() });
        }
    }
}

#[cfg(test)]
#[path = "scan_tests.rs"]
mod tests;
