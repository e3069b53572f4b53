//! The cluster's topics as consumer groups see them.

use super::consumer::{TopicFacts, TopicsView};
use crate::cluster::image::MetadataImage;
use millstream_io::units::TopicId;
use std::sync::Arc;

impl TopicsView for MetadataImage {
    fn version(&self) -> u64 {
        self.version
    }

    fn by_name(&self, name: &str) -> Option<TopicFacts> {
        let topic = self.topic_by_name(name)?;
        Some(TopicFacts { id: topic.id, partitions: topic.partitions })
    }

    fn name_of(&self, id: TopicId) -> Option<Arc<str>> {
        self.topic_by_id(id).map(|topic| topic.name.clone())
    }

    fn names_after(&self, after: Option<&str>, visit: &mut dyn FnMut(&Arc<str>) -> bool) {
        let from = after.unwrap_or_default();
        let names = self.topics_from(from).map(|topic| &topic.name);
        for name in names.filter(|name| after != Some(&***name)) {
            if !visit(name) {
                return;
            }
        }
    }
}
