//! AlterUserScramCredentials (key 51): sets and deletes what users log in with. KIP-554.

use super::{Answer, Call, Close, error_codes};
use crate::authorizer::{Resource, ResourceKind};
use crate::cluster::change::Refused;
use crate::cluster::scram_change::{ScramAlteration, Upsertion};
use crate::wire::apis::AclOperation;
use crate::wire::messages::alter_user_scram_credentials::{
    AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
};
use std::collections::BTreeSet;

/// What was answered is in force on every core.
pub async fn handle(call: &Call) -> Result<Answer, Close> {
    let request: AlterUserScramCredentialsRequest<'_> = call.request()?;
    let deletions = request.deletions.iter().map(|deletion| ScramAlteration {
        user: deletion.name.to_owned(),
        mechanism: deletion.mechanism,
        upsertion: None,
    });
    let upsertions = request.upsertions.iter().map(|upsertion| ScramAlteration {
        user: upsertion.name.to_owned(),
        mechanism: upsertion.mechanism,
        upsertion: Some(Upsertion {
            iterations: upsertion.iterations,
            salt: upsertion.salt.to_vec(),
            salted_password: upsertion.salted_password.to_vec(),
        }),
    });
    let alterations: Vec<_> = deletions.chain(upsertions).collect();
    let names: BTreeSet<String> = alterations.iter().map(|one| one.user.clone()).collect();
    let may = call.may(&call.image(), AclOperation::Alter, Resource::Cluster);
    let altered = match may {
        true => call.core.controller.alter_scram(alterations).await,
        false => Err(Refused::NotAllowed { kind: ResourceKind::Cluster }),
    };
    let outcomes = match altered {
        Ok(outcomes) => outcomes,
        Err(refused) => names.into_iter().map(|user| (user, Err(refused.clone()))).collect(),
    };
    let told: Vec<_> = outcomes
        .iter()
        .map(|(user, outcome)| match outcome {
            Ok(()) => (user, 0, None),
            Err(refused) => {
                let code = error_codes::of_refused(refused).number();
                (user, code, Some(refused.to_string()))
            }
        })
        .collect();
    let results = told.iter().map(|(user, error_code, message)| AlterUserScramCredentialsResult {
        user,
        error_code: *error_code,
        error_message: message.as_deref(),
    });
    let results = results.collect();
    call.respond(&AlterUserScramCredentialsResponse { results, ..Default::default() })
}
