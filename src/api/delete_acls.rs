//! DeleteAcls (key 31): deletes the access rules that match filters. KIP-140, KIP-290. Durable, and in
//! force on every core, before the answer.

use super::acls::{Asked, Refusal, allowed, refusal};
use super::{Answer, Call, Close};
use crate::authorizer::{Rule, RuleFilter};
use crate::cluster::change::Refused;
use crate::wire::apis::AclOperation;
use crate::wire::messages::delete_acls::{
    DeleteAclsFilter, DeleteAclsFilterResult, DeleteAclsMatchingAcl, DeleteAclsRequest,
    DeleteAclsResponse,
};
use std::sync::Arc;

/// Rules that were deleted, with their principals as they are written.
type Deleted = Vec<(Arc<Rule>, String)>;

pub async fn handle(call: &Call) -> Result<Answer, Close> {
    let request: DeleteAclsRequest<'_> = call.request()?;
    let outcomes: Vec<Result<Deleted, Refusal>> =
        match allowed(call, &call.image(), AclOperation::Alter) {
            Ok(()) => delete(call, &request).await,
            Err(refusal) => request.filters.iter().map(|_| Err(refusal.clone())).collect(),
        };
    let filter_results = outcomes.iter().map(|outcome| match outcome {
        Ok(deleted) => DeleteAclsFilterResult {
            error_message: None,
            matching_acls: deleted.iter().map(matching).collect(),
            ..Default::default()
        },
        Err((code, message)) => DeleteAclsFilterResult {
            error_code: code.number(),
            error_message: Some(message),
            ..Default::default()
        },
    });
    let filter_results = filter_results.collect();
    call.respond(&DeleteAclsResponse { filter_results, ..Default::default() })
}

async fn delete(call: &Call, request: &DeleteAclsRequest<'_>) -> Vec<Result<Deleted, Refusal>> {
    let filters: Vec<Result<RuleFilter, Refusal>> = request
        .filters
        .iter()
        .map(|asked| checked(asked).map_err(|what| refusal(&Refused::Request { what })))
        .collect();
    let sound: Vec<RuleFilter> = filters.iter().flatten().cloned().collect();
    let count = sound.len();
    let answers = match call.core.controller.delete_rules(sound).await {
        Ok(answers) => answers,
        Err(refused) => vec![Err(refused); count],
    };
    let mut answers = answers.into_iter();
    let outcome = |filter: Result<RuleFilter, Refusal>| {
        filter?;
        let answer = answers.next().unwrap_or(Err(Refused::Stopping));
        let rules = answer.map_err(|refused| refusal(&refused))?;
        let named = |rule: Arc<Rule>| {
            let principal = rule.principal.to_string();
            (rule, principal)
        };
        Ok(rules.into_iter().map(named).collect())
    };
    filters.into_iter().map(outcome).collect()
}

/// In Apache Kafka's words.
fn checked(asked: &DeleteAclsFilter<'_>) -> Result<RuleFilter, String> {
    let filter = Asked {
        kind: asked.resource_type_filter,
        name: asked.resource_name_filter,
        pattern: asked.pattern_type_filter,
        principal: asked.principal_filter,
        host: asked.host_filter,
        operation: asked.operation,
        permission: asked.permission_type,
    }
    .filter();
    match (filter.has_unknown_pattern(), filter.has_unknown_entry()) {
        (true, _) => Err("Unknown patternFilter.".to_owned()),
        (false, true) => Err("Unknown entryFilter.".to_owned()),
        (false, false) => Ok(filter),
    }
}

fn matching((rule, principal): &(Arc<Rule>, String)) -> DeleteAclsMatchingAcl<'_> {
    DeleteAclsMatchingAcl {
        error_code: 0,
        error_message: None,
        resource_type: rule.kind as i8,
        resource_name: &rule.name,
        pattern_type: rule.pattern as i8,
        principal,
        host: &rule.host,
        operation: rule.operation.number(),
        permission_type: rule.permission as i8,
    }
}
