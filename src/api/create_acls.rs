//! CreateAcls (key 30): adds access rules. KIP-140, KIP-290. Durable, and in force on every core, before
//! the answer.

use super::acls::{Refusal, allowed, refusal};
use super::{Answer, Call, Close};
use crate::authorizer::rule::CLUSTER_NAME;
use crate::authorizer::{PatternKind, Permission, Principal, ResourceKind, Rule, RuleOperation};
use crate::cluster::change::Refused;
use crate::wire::ErrorCode;
use crate::wire::apis::AclOperation;
use crate::wire::messages::create_acls::{
    AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse,
};

/// Each rule is judged alone. One that is there already is no error.
pub async fn handle(call: &Call) -> Result<Answer, Close> {
    let request: CreateAclsRequest<'_> = call.request()?;
    let outcomes: Vec<Result<(), Refusal>> = match allowed(call, &call.image(), AclOperation::Alter)
    {
        Ok(()) => create(call, &request).await,
        Err(refusal) => request.creations.iter().map(|_| Err(refusal.clone())).collect(),
    };
    let result = |outcome: &'_ Result<(), Refusal>| match outcome {
        Ok(()) => (ErrorCode::None, None),
        Err((code, message)) => (*code, Some(message.clone())),
    };
    let outcomes: Vec<(ErrorCode, Option<String>)> = outcomes.iter().map(result).collect();
    let results = outcomes.iter().map(|(code, message)| AclCreationResult {
        error_code: code.number(),
        error_message: message.as_deref(),
    });
    call.respond(&CreateAclsResponse { results: results.collect(), ..Default::default() })
}

async fn create(call: &Call, request: &CreateAclsRequest<'_>) -> Vec<Result<(), Refusal>> {
    let rules: Vec<Result<Rule, Refusal>> = request
        .creations
        .iter()
        .map(|asked| rule(asked).map_err(|what| refusal(&Refused::Request { what })))
        .collect();
    let sound: Vec<Rule> = rules.iter().flatten().cloned().collect();
    let count = sound.len();
    let answers = match call.core.controller.create_rules(sound).await {
        Ok(answers) => answers,
        Err(refused) => vec![Err(refused); count],
    };
    let mut answers = answers.into_iter();
    let outcome = |rule: Result<Rule, Refusal>| {
        rule?;
        answers.next().unwrap_or(Err(Refused::Stopping)).map_err(|refused| refusal(&refused))
    };
    rules.into_iter().map(outcome).collect()
}

/// What an entry means, or why it is no rule, in Apache Kafka's words and order.
fn rule(asked: &AclCreation<'_>) -> Result<Rule, String> {
    let kind = ResourceKind::new(asked.resource_type);
    if kind == Some(ResourceKind::Cluster) && asked.resource_name != CLUSTER_NAME {
        return Err(format!("The only valid name for the CLUSTER resource is {CLUSTER_NAME}"));
    }
    if asked.resource_name.is_empty() {
        return Err("Invalid empty resource name".to_owned());
    }
    let principal = Principal::parse(asked.principal).ok_or_else(|| {
        format!("Could not parse principal from `{}` (no colon is present)", asked.principal)
    });
    let permission = Permission::new(asked.permission_type);
    Ok(Rule {
        kind: kind.ok_or_else(|| invalid("resourceType", asked.resource_type))?,
        name: asked.resource_name.into(),
        pattern: PatternKind::new(asked.resource_pattern_type)
            .ok_or_else(|| invalid("patternType", asked.resource_pattern_type))?,
        operation: RuleOperation::new(asked.operation)
            .ok_or_else(|| invalid("operation", asked.operation))?,
        permission: permission.ok_or_else(|| invalid("permissionType", asked.permission_type))?,
        principal: principal?,
        host: asked.host.into(),
    })
}

/// What a filter may hold and a rule may not, or what nobody knows.
fn invalid(what: &str, number: i8) -> String {
    let name = match (what, number) {
        (_, 1) => "ANY",
        ("patternType", 2) => "MATCH",
        _ => "UNKNOWN",
    };
    format!("Invalid {what} {name}")
}
