//! DescribeUserScramCredentials (key 50): which users have which credentials, never the credentials
//! themselves. KIP-554.

use super::rights::REFUSED;
use super::{Answer, Call, Close};
use crate::authorizer::Resource;
use crate::cluster::plan::doubles;
use crate::login::scram::users::UserCredentials;
use crate::wire::ErrorCode;
use crate::wire::apis::AclOperation;
use crate::wire::messages::describe_user_scram_credentials::{
    CredentialInfo, DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
};
use std::collections::BTreeSet;

/// No names are all users.
pub fn handle(call: &Call) -> Result<Answer, Close> {
    let request: DescribeUserScramCredentialsRequest<'_> = call.request()?;
    let image = call.image();
    if let Err(code) = call.allowed(&image, AclOperation::Describe, Resource::Cluster) {
        return call.respond(&DescribeUserScramCredentialsResponse {
            error_code: code.number(),
            error_message: Some(REFUSED),
            ..Default::default()
        });
    }
    let users = image.scram();
    let asked = request.users.unwrap_or_default();
    let twice = doubles(asked.iter().map(|user| user.name));
    let names: BTreeSet<&str> = match asked.is_empty() {
        true => users.all().map(|(user, _)| user).collect(),
        false => asked.iter().map(|user| user.name).collect(),
    };
    let outcomes: Vec<_> = names
        .into_iter()
        .map(|user| match users.get(user) {
            _ if twice.contains(user) => {
                let what = "Cannot describe SCRAM credentials for the same user twice in a single \
                            request";
                (user, Err((ErrorCode::DuplicateResource, format!("{what}: {user}"))))
            }
            None => {
                let what = "Attempt to describe a user credential that does not exist";
                (user, Err((ErrorCode::ResourceNotFound, format!("{what}: {user}"))))
            }
            Some(credentials) => (user, Ok(infos(credentials))),
        })
        .collect();
    let results = outcomes.iter().map(|(user, outcome)| match outcome {
        Ok(infos) => DescribeUserScramCredentialsResult {
            user,
            error_code: 0,
            error_message: Some(""),
            credential_infos: infos.clone(),
        },
        Err((code, message)) => DescribeUserScramCredentialsResult {
            user,
            error_code: code.number(),
            error_message: Some(message),
            credential_infos: Vec::new(),
        },
    });
    let results = results.collect();
    call.respond(&DescribeUserScramCredentialsResponse {
        error_message: Some(""),
        results,
        ..Default::default()
    })
}

fn infos(credentials: &UserCredentials) -> Vec<CredentialInfo> {
    let info = |(mechanism, iterations): (crate::login::ScramMechanism, u32)| CredentialInfo {
        mechanism: mechanism.number(),
        iterations: iterations.cast_signed(),
    };
    credentials.told().map(info).collect()
}
