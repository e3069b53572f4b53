//! ConsumerGroupDescribe (key 69): groups of the consumer protocol with their members. KIP-848.

use super::groups::{ask, named};
use super::{Answer, Call, Close, rights};
use crate::group::ask::Ask;
use crate::wire::ErrorCode;
use crate::wire::messages::consumer_group_describe::{
    ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, DescribedGroup,
};

pub async fn handle(call: &Call) -> Result<Answer, Close> {
    let request: ConsumerGroupDescribeRequest<'_> = call.request()?;
    let mut found = Vec::with_capacity(request.group_ids.len());
    for group in &request.group_ids {
        let described = match (named(group), call.core.groups.partition(group)) {
            (Err(error), _) => Err(error),
            (Ok(group), Some(_)) => ask(call, group, Ask::ConsumerDescribe).await,
            (Ok(_), None) => Ok(None),
        };
        found.push(match described {
            Ok(Some(described)) => Ok(described),
            Ok(None) => {
                Err((ErrorCode::GroupIdNotFound, format!("Group {group} is no consumer group.")))
            }
            Err(error) => Err((error, String::new())),
        });
    }
    let groups = request.group_ids.iter().zip(&found).map(|(group, found)| match found {
        Ok(described) => DescribedGroup {
            authorized_operations: rights::on_group(request.include_authorized_operations),
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
