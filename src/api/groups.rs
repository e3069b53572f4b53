//! What the handlers of group APIs share.

use super::Call;
use crate::authorizer::Resource;
use crate::cluster::change::{NewTopic, Refused};
use crate::coordinator::limits::MESSAGE_BYTES_MAX;
use crate::group::ask::Ask;
use crate::group::classic::Name;
use crate::group::placement::OFFSETS_TOPIC;
use crate::wire::ErrorCode;
use crate::wire::apis::AclOperation;
use futures_lite::future::or;
use millstream_io::runtime::Promise;
use millstream_io::units::TopicId;

/// Asks a group's coordinator, for an answer that comes soon.
pub async fn ask<T>(
    call: &Call,
    group: &str,
    ask: impl FnOnce(Promise<T>) -> Ask,
) -> Result<T, ErrorCode> {
    call.core.groups.ask(group, ask).await
}

/// Asks for an answer that may take until other members have come. `None` when the client hangs up
/// meanwhile: it is a member for as long as its session lasts, and needs no answer.
pub async fn ask_patiently<T>(
    call: &Call,
    group: &str,
    ask: impl FnOnce(Promise<T>) -> Ask,
) -> Option<Result<T, ErrorCode>> {
    let asked = async { Some(call.core.groups.ask(group, ask).await) };
    let gone = async {
        call.caller.hurry.wait().await;
        None
    };
    or(asked, gone).await
}

/// Whether the caller may do `operation` with a group.
///
/// # Errors
/// GROUP_AUTHORIZATION_FAILED.
pub fn allowed(call: &Call, operation: AclOperation, group: &str) -> Result<(), ErrorCode> {
    call.allowed(&call.image(), operation, Resource::Group(group))
}

/// The group API's word for a group id that must not be empty.
pub fn named(group: &str) -> Result<&str, ErrorCode> {
    if group.is_empty() { Err(ErrorCode::InvalidGroupId) } else { Ok(group) }
}

pub fn name(text: &str) -> Name {
    Name::from(text)
}

/// A random UUID in its usual text, for a member id.
pub fn fresh_uuid() -> Result<Name, ErrorCode> {
    let id = TopicId::random().map_err(|_| ErrorCode::CoordinatorNotAvailable)?;
    let hex: String = id.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    Ok(Name::from(parts.join("-")))
}

/// Makes the internal topic of groups when it is not there yet.
///
/// # Errors
/// COORDINATOR_NOT_AVAILABLE, upon which clients come again.
pub async fn make_offsets_topic(call: &Call) -> Result<(), ErrorCode> {
    let partitions = call.image().broker.offsets_partitions;
    make_internal_topic(call, OFFSETS_TOPIC, partitions, SEGMENT_BYTES, MESSAGE_BYTES_MAX).await
}

/// Makes a topic of the broker's own when it is not there yet.
///
/// # Errors
/// COORDINATOR_NOT_AVAILABLE, upon which clients come again.
pub async fn make_internal_topic(
    call: &Call,
    name: &str,
    partitions: u32,
    segment_bytes: &str,
    message_bytes_max: usize,
) -> Result<(), ErrorCode> {
    if call.image().topic_by_name(name).is_some() {
        return Ok(());
    }
    let topic = NewTopic {
        name: name.to_owned(),
        partitions: i32::try_from(partitions).unwrap_or(i32::MAX),
        replication_factor: 1,
        configs: vec![
            // So it reads: the newest record of each key stays. The coordinators see to it themselves.
            ("cleanup.policy".to_owned(), Some("compact".to_owned())),
            ("segment.bytes".to_owned(), Some(segment_bytes.to_owned())),
            ("max.message.bytes".to_owned(), Some(message_bytes_max.to_string())),
        ],
        ..NewTopic::default()
    };
    let made = match call.core.controller.create_topics(vec![topic], false).await {
        Ok(answers) => answers.into_iter().next().map(|answer| answer.map(drop)),
        Err(refused) => Some(Err(refused)),
    };
    match made {
        Some(Ok(()) | Err(Refused::TopicExists { .. })) => Ok(()),
        Some(Err(refused)) => {
            use millstream_io::{log_limited, runtime::log};
            log_limited!(
                log::warn("coordinators", "an internal topic cannot be made")
                    .field("topic", name)
                    .field("reason", refused)
            );
            Err(ErrorCode::CoordinatorNotAvailable)
        }
        None => Err(ErrorCode::CoordinatorNotAvailable),
    }
}

/// `segment.bytes` of the internal topic, as in Apache Kafka.
const SEGMENT_BYTES: &str = "104857600";
