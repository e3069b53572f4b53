//! What a group sees of the cluster's topics.

use std::sync::Arc;

use millstream_io::units::TopicId;

/// A topic as an assignor sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicFacts {
    pub id: TopicId,
    pub partitions: u32,
}

/// The topics of the cluster at one moment, as the caller may see them: whoever passes a view
/// leaves out of [`TopicsView::names_after`] what the client may not describe.
pub trait TopicsView {
    /// Differs whenever a topic was created, grown or deleted. Compared for equality alone, and
    /// only within the life of a group in memory.
    fn version(&self) -> u64;

    /// Whether it may be searched by a pattern. Where there are access rules, it is only as somebody sees
    /// it.
    fn may_be_searched(&self) -> bool {
        true
    }

    fn by_name(&self, name: &str) -> Option<TopicFacts>;

    fn name_of(&self, id: TopicId) -> Option<Arc<str>>;

    /// Visits names in ascending order, those after `after` or all, until `visit` gives false.
    fn names_after(&self, after: Option<&str>, visit: &mut dyn FnMut(&Arc<str>) -> bool);
}
