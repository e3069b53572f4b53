//! DeleteAcls (key 31): deletes the access rules that match filters. KIP-140, KIP-290.

use super::acls::DISABLED;
use super::{Answer, Call, Close};
use crate::wire::ErrorCode;
use crate::wire::messages::delete_acls::{
    DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse,
};

/// There is no authorizer, which is the answer for each filter.
pub fn handle(call: &Call) -> Result<Answer, Close> {
    let request: DeleteAclsRequest<'_> = call.request()?;
    let refused = |_| DeleteAclsFilterResult {
        error_code: ErrorCode::SecurityDisabled.number(),
        error_message: Some(DISABLED),
        ..Default::default()
    };
    let filter_results = request.filters.iter().map(refused).collect();
    call.respond(&DeleteAclsResponse { filter_results, ..Default::default() })
}
