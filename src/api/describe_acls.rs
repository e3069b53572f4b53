//! DescribeAcls (key 29): the access rules that match a filter. KIP-140, KIP-290.

use super::acls::{Asked, allowed};
use super::limits::RULES_PER_BREATH;
use super::{Answer, Call, Close};
use crate::authorizer::Rule;
use crate::wire::apis::AclOperation;
use crate::wire::messages::describe_acls::{
    AclDescription, DescribeAclsRequest, DescribeAclsResource, DescribeAclsResponse,
};
use millstream_io::runtime::breathe;

/// A filter that names what nobody knows matches nothing.
pub async fn handle(call: &Call) -> Result<Answer, Close> {
    let request: DescribeAclsRequest<'_> = call.request()?;
    let image = call.image();
    if let Err((code, message)) = allowed(call, &image, AclOperation::Describe) {
        return call.respond(&DescribeAclsResponse {
            error_code: code.number(),
            error_message: Some(&message),
            ..Default::default()
        });
    }
    let filter = asked(&request).filter();
    let mut found: Vec<(&Rule, String)> = Vec::new();
    for rule in image.rules().matching(&filter) {
        found.push((rule, rule.principal.to_string()));
        if found.len().is_multiple_of(RULES_PER_BREATH) {
            breathe().await;
        }
    }
    let response = DescribeAclsResponse { resources: resources(&found), ..Default::default() };
    call.respond(&DescribeAclsResponse { error_message: None, ..response })
}

fn asked<'a>(request: &DescribeAclsRequest<'a>) -> Asked<'a> {
    Asked {
        kind: request.resource_type_filter,
        name: request.resource_name_filter,
        pattern: request.pattern_type_filter,
        principal: request.principal_filter,
        host: request.host_filter,
        operation: request.operation,
        permission: request.permission_type,
    }
}

/// Rules about one resource stand together already.
fn resources<'f>(found: &'f [(&'f Rule, String)]) -> Vec<DescribeAclsResource<'f>> {
    let mut resources: Vec<DescribeAclsResource<'f>> = Vec::new();
    for (rule, principal) in found {
        let (resource_type, pattern_type) = (rule.kind as i8, rule.pattern as i8);
        let acl = AclDescription {
            principal,
            host: &rule.host,
            operation: rule.operation.number(),
            permission_type: rule.permission as i8,
        };
        match resources.last_mut() {
            Some(last)
                if (last.resource_type, last.pattern_type) == (resource_type, pattern_type)
                    && last.resource_name == &*rule.name =>
            {
                last.acls.push(acl);
            }
            _ => resources.push(DescribeAclsResource {
                resource_type,
                resource_name: &rule.name,
                pattern_type,
                acls: vec![acl],
            }),
        }
    }
    resources
}
