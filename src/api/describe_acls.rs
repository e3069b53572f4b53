//! DescribeAcls (key 29): the access rules that match a filter. KIP-140, KIP-290.

use super::acls::DISABLED;
use super::{Answer, Call, Close};
use crate::wire::ErrorCode;
use crate::wire::messages::describe_acls::{DescribeAclsRequest, DescribeAclsResponse};

/// There is no authorizer, so there are no rules: the answer says that.
pub fn handle(call: &Call) -> Result<Answer, Close> {
    let _: DescribeAclsRequest<'_> = call.request()?;
    call.respond(&DescribeAclsResponse {
        error_code: ErrorCode::SecurityDisabled.number(),
        error_message: Some(DISABLED),
        ..Default::default()
    })
}
