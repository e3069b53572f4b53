//! DescribeGroups (key 15): classic groups with their members.

use super::groups::{allowed, ask};
use super::{Answer, Call, Close, rights};
use crate::authorizer::Resource;
use crate::group::ask::Ask;
use crate::group::classic::{Description, MemberDescription};
use crate::wire::ErrorCode;
use crate::wire::apis::AclOperation;
use crate::wire::messages::describe_groups::{
    DescribeGroupsRequest, DescribeGroupsResponse, DescribedGroup, DescribedGroupMember,
};

/// Version from which a missing group is an error; before, it is a dead one.
const MISSING_SINCE: i16 = 6;

pub async fn handle(call: &Call) -> Result<Answer, Close> {
    let request: DescribeGroupsRequest<'_> = call.request()?;
    let mut found = Vec::with_capacity(request.groups.len());
    for group in &request.groups {
        let checked = allowed(call, AclOperation::Describe, group);
        let described = match (checked, call.core.groups.partition(group)) {
            (Err(error), _) => Err(error),
            (Ok(()), Some(_)) => ask(call, group, Ask::Describe).await,
            (Ok(()), None) => Ok(None),
        };
        found.push(described);
    }
    let image = call.image();
    let groups = request.groups.iter().zip(&found).map(|(group, found)| {
        let mut shown = match found {
            Ok(Some(described)) => described_group(group, described),
            Ok(None) => missing(call, group),
            Err(error) => {
                DescribedGroup { error_code: error.number(), group_id: group, ..Default::default() }
            }
        };
        if call.version >= 3 {
            let asked = request.include_authorized_operations && shown.error_code == 0;
            shown.authorized_operations = match asked {
                true => call.rights_on(&image, Resource::Group(group)),
                false => rights::NOT_ASKED,
            };
        }
        shown
    });
    call.respond(&DescribeGroupsResponse { groups: groups.collect(), ..Default::default() })
}

fn described_group<'r>(group: &'r str, described: &'r Description) -> DescribedGroup<'r> {
    DescribedGroup {
        group_id: group,
        group_state: described.state.name(),
        protocol_type: &described.protocol_type,
        protocol_data: &described.protocol,
        members: described.members.iter().map(member).collect(),
        ..Default::default()
    }
}

fn member(member: &MemberDescription) -> DescribedGroupMember<'_> {
    DescribedGroupMember {
        member_id: &member.member_id,
        group_instance_id: member.instance_id.as_deref(),
        client_id: &member.client_id,
        client_host: &member.client_host,
        member_metadata: &member.metadata,
        member_assignment: &member.assignment,
    }
}

fn missing<'r>(call: &Call, group: &'r str) -> DescribedGroup<'r> {
    let mut shown = DescribedGroup { group_id: group, group_state: "Dead", ..Default::default() };
    if call.version >= MISSING_SINCE {
        shown.error_code = ErrorCode::GroupIdNotFound.number();
        shown.error_message = Some("There is no classic group of this id.");
    }
    shown
}
