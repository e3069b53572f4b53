//! What settings belong to, as DescribeConfigs, AlterConfigs and IncrementalAlterConfigs name it.

use super::{Call, error_codes};
use crate::authorizer::Resource as Object;
use crate::cluster::change::{ConfigChange, ConfigTarget, Refused};
use crate::cluster::image::MetadataImage;
use crate::cluster::plan::doubles;
use crate::wire::ErrorCode;
use crate::wire::apis::AclOperation;

pub const TOPIC: i8 = 2;
pub const BROKER: i8 = 4;
pub const GROUP: i8 = 32;

/// A named resource.
pub enum Resource<'a> {
    Topic(&'a str),
    /// `None` is every broker (the empty name).
    Broker(Option<i32>),
    /// It need not exist.
    Group(&'a str),
}

impl<'a> Resource<'a> {
    /// # Errors
    /// Another kind of resource, a broker that is no number, or a group without a name.
    pub fn parse(kind: i8, name: &'a str) -> Result<Resource<'a>, Refused> {
        match kind {
            TOPIC => Ok(Resource::Topic(name)),
            BROKER if name.is_empty() => Ok(Resource::Broker(None)),
            BROKER => match name.parse() {
                Ok(id) => Ok(Resource::Broker(Some(id))),
                Err(_) => Err(Refused::Request {
                    what: format!("Broker id must be an integer, but it is: {name}"),
                }),
            },
            GROUP if name.is_empty() => {
                Err(Refused::Request { what: "Group name must not be empty".to_owned() })
            }
            GROUP => Ok(Resource::Group(name)),
            kind => Err(Refused::Request {
                what: format!(
                    "resource type {kind} has no settings here; topics ({TOPIC}), brokers \
                     ({BROKER}) and groups ({GROUP}) have"
                ),
            }),
        }
    }
}

/// Whether the caller may do `operation` with what settings belong to: a broker's are the cluster's. A
/// kind of resource that has none is refused for that.
pub fn allowed(
    call: &Call,
    image: &MetadataImage,
    operation: AclOperation,
    (kind, name): (i8, &str),
) -> Result<(), Refused> {
    let resource = match kind {
        TOPIC => Object::Topic(name),
        GROUP => Object::Group(name),
        BROKER => Object::Cluster,
        _ => return Ok(()),
    };
    match call.may(image, operation, resource) {
        true => Ok(()),
        false => Err(Refused::NotAllowed { kind: resource.kind() }),
    }
}

impl From<Resource<'_>> for ConfigTarget {
    fn from(resource: Resource<'_>) -> ConfigTarget {
        match resource {
            Resource::Topic(name) => ConfigTarget::Topic(name.to_owned()),
            Resource::Broker(id) => ConfigTarget::Broker(id),
            Resource::Group(name) => ConfigTarget::Group(name.to_owned()),
        }
    }
}

/// Carries out what both kinds of change come down to; a code and a text for each resource, in
/// order. `asked` is kind and name of each, `changes` what each should become.
pub async fn alter(
    call: &Call,
    asked: &[(i8, &str)],
    changes: Vec<Result<ConfigChange, Refused>>,
    validate_only: bool,
) -> Vec<(ErrorCode, Option<String>)> {
    let image = call.image();
    let twice = doubles(asked.iter());
    let targets: Vec<Result<(ConfigTarget, ConfigChange), Refused>> = asked
        .iter()
        .zip(changes)
        .map(|(one, change)| {
            if twice.contains(one) {
                let what = "Each resource must appear at most once.".to_owned();
                return Err(Refused::Request { what });
            }
            allowed(call, &image, AclOperation::AlterConfigs, *one)?;
            Ok((Resource::parse(one.0, one.1)?.into(), change?))
        })
        .collect();
    let sent: Vec<(ConfigTarget, ConfigChange)> = targets.iter().flatten().cloned().collect();
    let count = sent.len();
    let answers = match call.core.controller.alter_configs(sent, validate_only).await {
        Ok(answers) => answers,
        Err(refused) => vec![Err(refused); count],
    };
    let mut answers = answers.into_iter();
    let outcome = |target: Result<_, Refused>| {
        let answer = target.and_then(|_| answers.next().unwrap_or(Err(Refused::Stopping)));
        match answer {
            Ok(()) => (ErrorCode::None, None),
            Err(refused) => (error_codes::of_refused(&refused), Some(refused.to_string())),
        }
    };
    targets.into_iter().map(outcome).collect()
}
