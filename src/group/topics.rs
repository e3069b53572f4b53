//! The cluster's topics as consumer groups see them.

use super::consumer::{TopicFacts, TopicsView};
use crate::authorizer::decision::decide;
use crate::authorizer::{Asking, Principal, Resource};
use crate::cluster::image::MetadataImage;
use crate::wire::apis::AclOperation;
use millstream_io::units::TopicId;
use std::net::IpAddr;
use std::sync::Arc;

impl TopicsView for MetadataImage {
    fn version(&self) -> u64 {
        self.version
    }

    fn may_be_searched(&self) -> bool {
        self.broker.authorizer.is_none()
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

/// By whose rights a group's patterns are searched for.
#[derive(Clone, Debug)]
pub struct Searcher {
    /// With the rules as they were when it asked.
    pub image: Arc<MetadataImage>,
    pub principal: Principal,
    pub host: IpAddr,
}

impl Searcher {
    /// Nobody is asked for rights without an authorizer.
    fn may_describe(&self, topic: &str) -> bool {
        let Some(policy) = &self.image.broker.authorizer else { return true };
        let asking = Asking { principal: &self.principal, host: self.host };
        let (rules, resource) = (self.image.rules(), Resource::Topic(topic));
        decide(policy, rules, asking, AclOperation::Describe, resource).is_allowed()
    }
}

/// The topics as somebody may search them.
pub struct Searched<'a> {
    pub topics: &'a dyn TopicsView,
    pub by: &'a Searcher,
}

impl TopicsView for Searched<'_> {
    fn version(&self) -> u64 {
        self.topics.version()
    }

    fn by_name(&self, name: &str) -> Option<TopicFacts> {
        self.topics.by_name(name)
    }

    fn name_of(&self, id: TopicId) -> Option<Arc<str>> {
        self.topics.name_of(id)
    }

    fn names_after(&self, after: Option<&str>, visit: &mut dyn FnMut(&Arc<str>) -> bool) {
        self.topics.names_after(after, &mut |name| !self.by.may_describe(name) || visit(name));
    }
}
