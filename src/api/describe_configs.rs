//! DescribeConfigs (key 32): settings with their sources. KIP-133, KIP-226, KIP-569, KIP-848.

use super::config_resources::{BROKER, GROUP, Resource, TOPIC, allowed};
use super::{Answer, Call, Close, error_codes};
use crate::cluster::change::Refused;
use crate::cluster::image::{BrokerSource, MetadataImage};
use crate::cluster::store::BrokerScope;
use crate::cluster::topic_name::check_topic_name;
use crate::config::logins::ListenerSetting;
use crate::config::topic_table::coarser;
use crate::config::{
    BROKER_SETTINGS, Change, GROUP_SETTINGS, Setting, TOPIC_SETTINGS, group, topic,
};
use crate::wire::apis::AclOperation;
use crate::wire::messages::describe_configs::{
    DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResourceResult,
    DescribeConfigsResponse, DescribeConfigsResult, DescribeConfigsSynonym,
};
use std::collections::BTreeMap;

const TOPIC_SOURCE: i8 = 1;
const GROUP_SOURCE: i8 = 8;
const DEFAULT_SOURCE: i8 = source_code(BrokerSource::Default);

/// The number by which clients know where a value comes from.
const fn source_code(source: BrokerSource) -> i8 {
    match source {
        BrokerSource::DynamicNode => 2,
        BrokerSource::DynamicAll => 3,
        BrokerSource::Static => 4,
        BrokerSource::Default => 5,
    }
}

pub fn handle(call: &Call) -> Result<Answer, Close> {
    let request: DescribeConfigsRequest<'_> = call.request()?;
    let image = call.image();
    let described: Vec<Result<Vec<Entry<'_>>, Refused>> = request
        .resources
        .iter()
        .map(|resource| {
            let named = (resource.resource_type, resource.resource_name);
            allowed(call, &image, AclOperation::DescribeConfigs, named)?;
            entries(&image, resource)
        })
        .collect();
    let messages: Vec<String> = described
        .iter()
        .map(|described| described.as_ref().err().map(Refused::to_string).unwrap_or_default())
        .collect();
    let results = request.resources.iter().zip(&described).zip(&messages).map(
        |((resource, described), message)| DescribeConfigsResult {
            error_code: described
                .as_ref()
                .err()
                .map_or(0, |refused| error_codes::of_refused(refused).number()),
            error_message: Some(message),
            resource_type: resource.resource_type,
            resource_name: resource.resource_name,
            configs: described
                .iter()
                .flatten()
                .filter(|entry| is_wanted(resource, entry.name))
                .map(|entry| entry.result(&request))
                .collect(),
        },
    );
    call.respond(&DescribeConfigsResponse { results: results.collect(), ..Default::default() })
}

/// Null and empty lists of keys both mean all of them; unknown keys are left out.
fn is_wanted(resource: &DescribeConfigsResource<'_>, name: &str) -> bool {
    match resource.configuration_keys.as_deref() {
        None | Some([]) => true,
        Some(keys) => keys.contains(&name),
    }
}

/// One setting with its value in force, and every value it would have without the stronger ones.
pub struct Entry<'i> {
    name: &'i str,
    setting: &'static Setting,
    read_only: bool,
    /// What is in force; of a password nothing.
    pub value: Option<String>,
    /// Name, value and source, the strongest first.
    layers: Vec<(&'i str, Option<String>, i8)>,
}

impl<'i> Entry<'i> {
    /// The strongest of the layers is in force.
    fn new(setting: &'static Setting, layers: Vec<(&'i str, Option<String>, i8)>) -> Entry<'i> {
        let value = layers.first().and_then(|(_, value, _)| value.clone());
        let read_only = setting.change == Change::AtStart;
        Entry { name: setting.name, setting, read_only, value, layers }
    }

    /// A setting of one listener.
    fn of_listener(name: &'i str, own: &ListenerSetting) -> Entry<'i> {
        let layers = vec![(name, own.value.clone(), source_code(BrokerSource::Static))];
        Entry { name, ..Entry::new(own.setting, layers) }
    }

    /// Where its value comes from, as clients know it.
    pub fn source(&self) -> i8 {
        self.layers.first().map_or(DEFAULT_SOURCE, |(_, _, source)| *source)
    }

    fn result<'e>(
        &'e self,
        request: &DescribeConfigsRequest<'_>,
    ) -> DescribeConfigsResourceResult<'e> {
        let synonyms = self.layers.iter().map(|(name, value, source)| DescribeConfigsSynonym {
            name,
            value: value.as_deref(),
            source: *source,
        });
        DescribeConfigsResourceResult {
            name: self.name,
            value: self.value.as_deref(),
            read_only: self.read_only,
            config_source: self.source(),
            is_sensitive: self.setting.is_sensitive(),
            synonyms: if request.include_synonyms { synonyms.collect() } else { Vec::new() },
            config_type: self.setting.kind().code(),
            documentation: request.include_documentation.then_some(self.setting.doc),
        }
    }
}

fn entries<'i>(
    image: &'i MetadataImage,
    resource: &DescribeConfigsResource<'_>,
) -> Result<Vec<Entry<'i>>, Refused> {
    match Resource::parse(resource.resource_type, resource.resource_name)? {
        Resource::Topic(name) => {
            check_topic_name(name).map_err(Refused::BadName)?;
            let topic = image.topic_by_name(name).ok_or(Refused::UnknownTopic)?;
            Ok(TOPIC_SETTINGS
                .iter()
                .map(|setting| topic_entry(image, &topic.own, setting))
                .collect())
        }
        Resource::Broker(None) => Ok(all_brokers_entries(image)),
        Resource::Broker(Some(got)) => {
            let expected = image.start.config.node_id;
            if got != expected {
                return Err(Refused::UnknownBroker { expected, got });
            }
            let own = image.start.config.of_listeners.iter();
            let own = own.map(|(name, own)| Entry::of_listener(name, own));
            let all = BROKER_SETTINGS.iter().map(|setting| broker_entry(image, setting));
            Ok(all.chain(own).collect())
        }
        Resource::Group(name) => Ok(group_entries(image, name)),
    }
}

/// A setting of a topic with these of its own.
pub fn topic_entry(
    image: &MetadataImage,
    own: &BTreeMap<String, String>,
    setting: &'static Setting,
) -> Entry<'static> {
    let mut layers = Vec::new();
    // A left-over that is no longer valid is not in force, so it is not shown.
    if let Some(own) = own.get(setting.name).and_then(|own| setting.check(own).ok()) {
        layers.push((setting.name, Some(own), TOPIC_SOURCE));
    }
    layers.extend(setting.broker_name.into_iter().flat_map(|name| broker_layers(image, name)));
    let value = topic::in_force(setting, own, |name| image.broker_value(name).0);
    Entry { name: setting.name, setting, read_only: false, value: Some(value), layers }
}

/// As for topics: its own, and behind that what the broker gives groups that have none.
fn group_entries(image: &MetadataImage, name: &str) -> Vec<Entry<'static>> {
    let own = image.group_configs().own(name);
    let own = own.map(|own| group::in_force(own, &image.broker)).unwrap_or_default();
    let entry = |setting: &'static Setting| {
        let own = own.get(setting.name).cloned();
        let own = own.map(|own| (setting.name, Some(own), GROUP_SOURCE));
        let of_broker = broker_layers(image, setting.broker_name.unwrap_or(setting.name));
        Entry::new(setting, own.into_iter().chain(of_broker).collect())
    };
    GROUP_SETTINGS.iter().map(entry).collect()
}

fn broker_entry(image: &MetadataImage, setting: &'static Setting) -> Entry<'static> {
    Entry::new(setting, broker_layers(image, setting.name))
}

/// What is set for all brokers together, and nothing else.
fn all_brokers_entries(image: &MetadataImage) -> Vec<Entry<'static>> {
    let stored = image.broker_dynamic().get(&BrokerScope::All);
    let entry = |setting: &'static Setting| {
        let value = stored?.get(setting.name)?;
        let value = setting.check(value).ok()?;
        let layers = vec![(setting.name, Some(value), source_code(BrokerSource::DynamicAll))];
        Some(Entry::new(setting, layers))
    };
    BROKER_SETTINGS.iter().filter_map(entry).collect()
}

/// Every value that is set for a broker setting, the strongest first. Those of the same in coarser
/// units come with it, but only behind a value of its own: so Apache Kafka lists them.
fn broker_layers(
    image: &MetadataImage,
    name: &'static str,
) -> Vec<(&'static str, Option<String>, i8)> {
    let of_topics = TOPIC_SETTINGS.iter().find(|topic| topic.broker_name == Some(name));
    let coarser = of_topics.map_or(&[][..], |topic| coarser(topic.name));
    let names = [name].into_iter().chain(coarser.iter().map(|(coarser, _)| *coarser));
    let of_name = |name: &'static str| {
        let layers = image.broker_layers(name).into_iter();
        layers.map(move |(value, source)| (name, value, source_code(source)))
    };
    let mut layers: Vec<_> = names.flat_map(of_name).collect();
    layers.sort_by_key(|(_, _, source)| *source);
    let own = layers.iter().position(|(found, _, _)| *found == name);
    layers.split_off(own.unwrap_or(layers.len()))
}

const _: () = assert!(TOPIC == 2 && BROKER == 4 && GROUP == 32);
