//! CreateAcls (key 30): adds access rules. KIP-140, KIP-290.

use super::acls::DISABLED;
use super::{Answer, Call, Close};
use crate::wire::ErrorCode;
use crate::wire::messages::create_acls::{
    AclCreationResult, CreateAclsRequest, CreateAclsResponse,
};

/// There is no authorizer, which is the answer for each rule.
pub fn handle(call: &Call) -> Result<Answer, Close> {
    let request: CreateAclsRequest<'_> = call.request()?;
    let refused = |_| AclCreationResult {
        error_code: ErrorCode::SecurityDisabled.number(),
        error_message: Some(DISABLED),
    };
    let results = request.creations.iter().map(refused).collect();
    call.respond(&CreateAclsResponse { results, ..Default::default() })
}
