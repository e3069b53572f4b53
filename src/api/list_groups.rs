//! ListGroups (key 16): all groups, or those of some states (KIP-518) and types (KIP-848).

use super::{Answer, Call, Close};
use crate::authorizer::Resource;
use crate::group::ask::Listed;
use crate::wire::apis::AclOperation;
use crate::wire::messages::list_groups::{ListGroupsRequest, ListGroupsResponse, ListedGroup};

pub async fn handle(call: &Call) -> Result<Answer, Close> {
    let request: ListGroupsRequest<'_> = call.request()?;
    let listed = match call.core.groups.list().await {
        Ok(listed) => listed,
        Err(error) => {
            let error_code = error.number();
            return call.respond(&ListGroupsResponse { error_code, ..Default::default() });
        }
    };
    let is_one_of = |asked: &[&str], is: &str| {
        asked.is_empty() || asked.iter().any(|asked| asked.eq_ignore_ascii_case(is))
    };
    let image = call.image();
    let may_all = call.may_see(&image, AclOperation::Describe, Resource::Cluster);
    let may = |group: &str| {
        may_all || call.may_see(&image, AclOperation::Describe, Resource::Group(group))
    };
    let wanted = |listed: &&Listed| {
        is_one_of(&request.states_filter, listed.state)
            && is_one_of(&request.types_filter, listed.kind.name())
            && may(&listed.group)
    };
    let groups = listed.iter().filter(wanted).map(|listed| ListedGroup {
        group_id: &listed.group,
        protocol_type: &listed.protocol_type,
        group_state: listed.state,
        group_type: listed.kind.name(),
    });
    call.respond(&ListGroupsResponse { groups: groups.collect(), ..Default::default() })
}
