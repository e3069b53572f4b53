//! AlterConfigs (key 33): sets all settings of a resource, the older way. KIP-133.

use super::config_resources::alter;
use super::{Answer, Call, Close};
use crate::cluster::change::ConfigChange;
use crate::wire::messages::alter_configs::{
    AlterConfigsRequest, AlterConfigsResourceResponse, AlterConfigsResponse,
};

pub async fn handle(call: &Call) -> Result<Answer, Close> {
    let request: AlterConfigsRequest<'_> = call.request()?;
    let asked: Vec<(i8, &str)> = request
        .resources
        .iter()
        .map(|resource| (resource.resource_type, resource.resource_name))
        .collect();
    let changes = request.resources.iter().map(|resource| {
        let pairs = resource.configs.iter();
        let pairs = pairs.map(|one| (one.name.to_owned(), one.value.map(str::to_owned)));
        Ok(ConfigChange::All(pairs.collect()))
    });
    let changes = changes.collect();
    let outcomes = alter(call, &asked, changes, request.validate_only).await;
    let responses = asked.iter().zip(&outcomes).map(|((kind, name), (code, message))| {
        AlterConfigsResourceResponse {
            error_code: code.number(),
            error_message: message.as_deref(),
            resource_type: *kind,
            resource_name: name,
        }
    });
    call.respond(&AlterConfigsResponse { responses: responses.collect(), ..Default::default() })
}
