//! What clients may ask to change, and why a change is refused.

use super::scram_change::BadCredential;
use super::store::StoreError;
use super::topic_name::BadTopicName;
use crate::authorizer::ResourceKind;
use crate::config::{BadValue, GroupSettingError, TopicSettingError};
use millstream_io::units::TopicId;
use std::fmt;

/// A topic to create, as the request says it; -1 means "the default".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewTopic {
    pub name: String,
    pub partitions: i32,
    pub replication_factor: i16,
    /// Partition and its replicas, when the client chooses the brokers itself.
    pub assignments: Vec<(i32, Vec<i32>)>,
    /// `None` stands for a null value.
    pub configs: Vec<(String, Option<String>)>,
}

/// More partitions for a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MorePartitions {
    pub name: String,
    /// How many there should be in all.
    pub count: i32,
    /// The replicas of each added partition, when the client chooses them itself.
    pub assignments: Option<Vec<Vec<i32>>>,
}

/// How a topic is named for deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopicRef {
    Name(String),
    Id(TopicId),
}

/// Whose settings are changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigTarget {
    Topic(String),
    /// One broker, or all of them.
    Broker(Option<i32>),
    /// A group, which need not exist.
    Group(String),
}

/// One change to one setting (KIP-339).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigOp {
    pub key: String,
    pub kind: ConfigOpKind,
    /// `None` stands for null; only a deletion may have it.
    pub value: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigOpKind {
    Set,
    Delete,
    Append,
    Subtract,
}

/// How the settings of one target change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigChange {
    /// These change, the others stay.
    Some(Vec<ConfigOp>),
    /// These are set, all others are deleted (the older AlterConfigs).
    All(Vec<(String, Option<String>)>),
}

/// A topic that was created, or would be (`validate_only`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatedTopic {
    /// Zero when only validated.
    pub id: TopicId,
    pub partitions: u32,
    pub configs: std::collections::BTreeMap<String, String>,
}

/// Why a change was refused. Nothing of the refused part is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    BadName(BadTopicName),
    TopicExists {
        name: String,
    },
    NameCollides {
        name: String,
        with: String,
    },
    /// Files of a deleted topic of this name are still in place.
    NameNotFree {
        name: String,
    },
    UnknownTopic,
    UnknownTopicId {
        id: TopicId,
    },
    DeletionDisabled,
    Partitions {
        what: String,
    },
    ReplicationFactor {
        got: i16,
        brokers: usize,
    },
    Assignment {
        what: String,
    },
    TopicConfig(TopicSettingError),
    BrokerConfig {
        what: String,
    },
    GroupConfig(GroupSettingError),
    BadValue(BadValue),
    UnknownBroker {
        expected: i32,
        got: i32,
    },
    Credential(BadCredential),
    /// The request contradicts itself.
    Request {
        what: String,
    },
    /// More than this broker's limits allow.
    TooMany {
        what: String,
    },
    /// The caller may not.
    NotAllowed {
        kind: ResourceKind,
    },
    Store(StoreError),
    /// As many changes wait as may wait.
    Busy,
    /// The change is still under way; it may yet be made.
    TimedOut {
        after_ms: i32,
    },
    Stopping,
}

impl From<TopicSettingError> for Refused {
    fn from(error: TopicSettingError) -> Refused {
        Refused::TopicConfig(error)
    }
}

impl From<GroupSettingError> for Refused {
    fn from(error: GroupSettingError) -> Refused {
        Refused::GroupConfig(error)
    }
}

impl From<StoreError> for Refused {
    fn from(error: StoreError) -> Refused {
        Refused::Store(error)
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadName(bad) => bad.fmt(f),
            Self::TopicExists { name } => write!(f, "Topic '{name}' already exists."),
            Self::NameCollides { name, with } => write!(
                f,
                "Topic '{name}' collides with existing topic: {with} ('.' and '_' count as equal)"
            ),
            Self::NameNotFree { name } => write!(
                f,
                "The files of a deleted topic '{name}' could not be moved out of the way yet; see \
                 the broker's log, and try again"
            ),
            Self::UnknownTopic => f.write_str("This server does not host this topic-partition."),
            Self::UnknownTopicId { id } => {
                write!(f, "This server does not host this topic ID: {id}")
            }
            Self::DeletionDisabled => {
                f.write_str("Topic deletion is disabled (delete.topic.enable=false).")
            }
            Self::ReplicationFactor { got, .. } if *got <= 0 => f.write_str(
                "Replication factor must be larger than 0, or -1 to use the default value.",
            ),
            Self::ReplicationFactor { got, brokers } => write!(
                f,
                "The replication factor of {got} cannot be reached because there are {brokers} \
                 broker(s)."
            ),
            Self::Partitions { what }
            | Self::Assignment { what }
            | Self::BrokerConfig { what }
            | Self::Request { what }
            | Self::TooMany { what } => f.write_str(what),
            Self::TopicConfig(error) => error.fmt(f),
            Self::GroupConfig(error) => error.fmt(f),
            Self::BadValue(bad) => bad.fmt(f),
            Self::Credential(bad) => bad.fmt(f),
            Self::UnknownBroker { expected, got } => {
                write!(f, "Unexpected broker id, expected {expected}, but received {got}")
            }
            // Apache Kafka's words.
            Self::NotAllowed { kind } => write!(f, "{} authorization failed.", kind.name()),
            Self::Store(error) => error.fmt(f),
            Self::Busy => f.write_str("too many changes wait for the controller; try again"),
            Self::TimedOut { after_ms } => write!(
                f,
                "the change was not made within {after_ms} ms and may still be; ask before trying \
                 again"
            ),
            Self::Stopping => f.write_str("the broker is stopping; try again later"),
        }
    }
}

impl std::error::Error for Refused {}
