//! ConsumerGroupDescribe (key 69): groups of the consumer protocol with their members. KIP-848.

use super::groups::{allowed, ask, named};
use super::{Answer, Call, Close, rights};
use crate::authorizer::Resource;
use crate::group::ask::Ask;
use crate::group::consumer::GroupDescription;
use crate::wire::ErrorCode;
use crate::wire::apis::AclOperation;
use crate::wire::messages::consumer_group_describe::{
    ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, DescribedGroup,
};

pub async fn handle(call: &Call) -> Result<Answer, Close> {
    let request: ConsumerGroupDescribeRequest<'_> = call.request()?;
    let mut found = Vec::with_capacity(request.group_ids.len());
    for group in &request.group_ids {
        let checked = allowed(call, AclOperation::Describe, group);
        let checked = checked.and_then(|()| named(group));
        let described = match (checked, call.core.groups.partition(group)) {
            (Err(error), _) => Err(error),
            (Ok(group), Some(_)) => ask(call, group, Ask::ConsumerDescribe).await,
            (Ok(_), None) => Ok(None),
        };
        found.push(match described {
            Ok(Some(described)) if !may_see_topics(call, &described) => {
                Err((ErrorCode::TopicAuthorizationFailed, HIDDEN.to_owned()))
            }
            Ok(Some(described)) => Ok(described),
            Ok(None) => {
                Err((ErrorCode::GroupIdNotFound, format!("Group {group} is no consumer group.")))
            }
            Err(error) => Err((error, String::new())),
        });
    }
    let image = call.image();
    let groups = request.group_ids.iter().zip(&found).map(|(group, found)| match found {
        Ok(described) => DescribedGroup {
            authorized_operations: match request.include_authorized_operations {
                true => call.rights_on(&image, Resource::Group(group)),
                false => rights::NOT_ASKED,
            },
            ..described.response(group)
        },
        Err((error, message)) => DescribedGroup {
            error_code: error.number(),
            error_message: (!message.is_empty()).then_some(&**message),
            group_id: group,
            ..Default::default()
        },
    });
    call.respond(&ConsumerGroupDescribeResponse { groups: groups.collect(), ..Default::default() })
}

/// Whether the caller may see every topic that members of the group have. One that it may not hides
/// the whole group.
fn may_see_topics(call: &Call, described: &GroupDescription) -> bool {
    let image = call.image();
    let members = described.members.iter();
    let mut topics = members.flat_map(|member| member.assigned.iter().chain(&member.target));
    topics.all(|topic| call.may(&image, AclOperation::Describe, Resource::Topic(&topic.name)))
}

/// Apache Kafka's words.
const HIDDEN: &str =
    "The group has described topic(s) that the client is not authorized to describe.";
