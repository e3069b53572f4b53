//! ListConfigResources (key 74): what DescribeConfigs can be asked about. KIP-714, KIP-1142.

use super::config_resources::{BROKER, GROUP, TOPIC};
use super::{Answer, Call, Close};
use crate::authorizer::Resource;
use crate::cluster::image::MetadataImage;
use crate::wire::ErrorCode;
use crate::wire::apis::AclOperation;
use crate::wire::messages::list_config_resources::{
    ConfigResource, ListConfigResourcesRequest, ListConfigResourcesResponse,
};

/// Levels of single loggers. Nothing here has them.
const BROKER_LOGGER: i8 = 8;
/// Subscriptions to metrics of clients, which this broker does not take.
const CLIENT_METRICS: i8 = 16;

/// The types that a version knows. Version 0 is about subscriptions to metrics alone.
const TYPES_OF_VERSION: [&[i8]; 2] =
    [&[CLIENT_METRICS], &[TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP]];

pub fn handle(call: &Call) -> Result<Answer, Close> {
    let request: ListConfigResourcesRequest = call.request()?;
    let image = call.image();
    let broker = image.node_id().get().to_string();
    let known = if call.version == 0 { TYPES_OF_VERSION[0] } else { TYPES_OF_VERSION[1] };
    let may = call.allowed(&image, AclOperation::DescribeConfigs, Resource::Cluster);
    let response = match may.and_then(|()| wanted(&request.resource_types, known)) {
        Ok(types) => ListConfigResourcesResponse {
            config_resources: resources(&image, &broker, types),
            ..Default::default()
        },
        Err(error) => {
            ListConfigResourcesResponse { error_code: error.number(), ..Default::default() }
        }
    };
    call.respond(&response)
}

/// The types asked for; none means all that are known.
fn wanted<'a>(asked: &'a [i8], known: &'a [i8]) -> Result<&'a [i8], ErrorCode> {
    if asked.iter().any(|kind| !known.contains(kind)) {
        return Err(ErrorCode::UnsupportedVersion);
    }
    Ok(if asked.is_empty() { known } else { asked })
}

/// Each type once, however often it is asked for.
fn resources<'a>(
    image: &'a MetadataImage,
    broker: &'a str,
    types: &[i8],
) -> Vec<ConfigResource<'a>> {
    let mut found = Vec::new();
    let mut put = |resource_type, resource_name| {
        found.push(ConfigResource { resource_name, resource_type });
    };
    if types.contains(&GROUP) {
        image.group_configs().names().for_each(|name| put(GROUP, name));
    }
    if types.contains(&BROKER) {
        put(BROKER, broker);
    }
    if types.contains(&TOPIC) {
        image.topics().for_each(|topic| put(TOPIC, &topic.name));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::image::tests::image;
    use crate::cluster::store::{Stored, TopicRecord};
    use millstream_io::units::TopicId;

    fn listed(types: &[i8]) -> Vec<(i8, String)> {
        let mut stored = Stored { starts: 1, ..Stored::default() };
        let record = TopicRecord {
            name: "t".to_owned(),
            partitions: 1,
            created_at_start: 1,
            configs: Default::default(),
        };
        stored.topics.insert(TopicId::from_bytes([1; 16]), record);
        let own = [("consumer.session.timeout.ms".to_owned(), "50000".to_owned())].into();
        stored.group_configs.insert("g".to_owned(), own);
        let image = image(&stored);
        let found = resources(&image, "1", types);
        found.iter().map(|found| (found.resource_type, found.resource_name.to_owned())).collect()
    }

    #[test]
    fn no_type_is_every_type_and_each_is_listed_once() {
        let all = wanted(&[], TYPES_OF_VERSION[1]).unwrap();
        let [topic, broker, group] =
            [(TOPIC, "t"), (BROKER, "1"), (GROUP, "g")].map(|(kind, name)| (kind, name.to_owned()));
        assert_eq!(listed(all), [group.clone(), broker, topic.clone()]);
        assert_eq!(listed(&[GROUP, TOPIC, GROUP]), [group, topic]);
        assert_eq!(listed(&[CLIENT_METRICS, BROKER_LOGGER]), []);
        assert_eq!(wanted(&[], TYPES_OF_VERSION[0]), Ok(&[CLIENT_METRICS][..]));
    }

    #[test]
    fn unknown_type_is_a_version_that_is_not_supported() {
        for unknown in [0, 1, 3, 64, -1] {
            let asked = [TOPIC, unknown];
            let refused = wanted(&asked, TYPES_OF_VERSION[1]);
            assert_eq!(refused, Err(ErrorCode::UnsupportedVersion), "{unknown}");
        }
        assert_eq!(wanted(&[TOPIC], TYPES_OF_VERSION[0]), Err(ErrorCode::UnsupportedVersion));
    }
}
