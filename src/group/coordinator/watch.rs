//! What is told of groups to whoever watches the broker.

use super::super::metrics::{CommitsPiece, CoreGroups};
use super::Coordinator;
use super::place::{Place, State};
use crate::group::classic::Name;
use crate::group::metrics::GroupFacts;
use millstream_io::runtime::Breather;

impl Coordinator {
    /// Every group of this core with its committed offsets. Looks up from its work after each step
    /// of at most [`NAMES_AT_ONCE`](super::super::metrics::NAMES_AT_ONCE) names or
    /// [`OFFSETS_AT_ONCE`](super::super::metrics::OFFSETS_AT_ONCE) offsets, and ends when nobody
    /// wants the answer any more.
    pub async fn watch(&self, is_wanted: impl Fn() -> bool) -> CoreGroups {
        let mut found = CoreGroups::default();
        let mut breather = Breather::new();
        for place in self.0.shell.places() {
            let mut last = None;
            loop {
                let names = match &*place.state.borrow() {
                    State::Active(active) => active.groups.names_after(last.as_ref()),
                    State::Loading(_) => {
                        found.loading += 1;
                        break;
                    }
                    State::Ended => break,
                };
                for name in &names {
                    let facts = self.with_commits(&place, name, &mut breather, &is_wanted).await;
                    found.groups.extend(facts);
                    if !is_wanted() {
                        return found;
                    }
                }
                breather.after(0).await;
                match names.last() {
                    Some(name) => last = Some(name.clone()),
                    None => break,
                }
            }
        }
        found
    }

    /// One group with its offsets, piece by piece. Not whole when it is not wanted any more.
    async fn with_commits(
        &self,
        place: &Place,
        name: &Name,
        breather: &mut Breather,
        is_wanted: &impl Fn() -> bool,
    ) -> Option<GroupFacts> {
        let mut facts = place.facts(name)?;
        let mut last = None;
        loop {
            let piece = self.commits(place, name, last.as_ref());
            facts.add(piece.commits);
            last = piece.last;
            breather.after(0).await;
            if last.is_none() || !is_wanted() {
                return Some(facts);
            }
        }
    }

    fn commits(
        &self,
        place: &Place,
        name: &Name,
        last: Option<&(std::sync::Arc<str>, i32)>,
    ) -> CommitsPiece {
        let image = self.0.shell.metadata.get();
        match &*place.state.borrow() {
            State::Active(active) => active.groups.commits(name, last, &*image),
            State::Loading(_) | State::Ended => CommitsPiece::default(),
        }
    }
}

impl Place {
    fn facts(&self, name: &Name) -> Option<GroupFacts> {
        match &*self.state.borrow() {
            State::Active(active) => active.groups.facts(name),
            State::Loading(_) | State::Ended => None,
        }
    }
}
