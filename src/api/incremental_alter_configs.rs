//! IncrementalAlterConfigs (key 44): changes single settings. KIP-339.

use super::config_resources::alter;
use super::{Answer, Call, Close};
use crate::cluster::change::{ConfigChange, ConfigOp, ConfigOpKind, Refused};
use crate::wire::messages::incremental_alter_configs::{
    AlterConfigsResource, AlterConfigsResourceResponse, AlterableConfig,
    IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse,
};

pub async fn handle(call: &Call) -> Result<Answer, Close> {
    let request: IncrementalAlterConfigsRequest<'_> = call.request()?;
    let asked: Vec<(i8, &str)> = request
        .resources
        .iter()
        .map(|resource| (resource.resource_type, resource.resource_name))
        .collect();
    let changes = request.resources.iter().map(change).collect();
    let outcomes = alter(call, &asked, changes, request.validate_only).await;
    let responses = asked.iter().zip(&outcomes).map(|((kind, name), (code, message))| {
        AlterConfigsResourceResponse {
            error_code: code.number(),
            error_message: message.as_deref(),
            resource_type: *kind,
            resource_name: name,
        }
    });
    let responses = responses.collect();
    call.respond(&IncrementalAlterConfigsResponse { responses, ..Default::default() })
}

fn change(resource: &AlterConfigsResource<'_>) -> Result<ConfigChange, Refused> {
    let ops: Result<Vec<ConfigOp>, Refused> = resource.configs.iter().map(op).collect();
    Ok(ConfigChange::Some(ops?))
}

fn op(config: &AlterableConfig<'_>) -> Result<ConfigOp, Refused> {
    let kind = match config.config_operation {
        0 => ConfigOpKind::Set,
        1 => ConfigOpKind::Delete,
        2 => ConfigOpKind::Append,
        3 => ConfigOpKind::Subtract,
        other => {
            let what = format!("Unknown operation {other} for {}", config.name);
            return Err(Refused::Request { what });
        }
    };
    Ok(ConfigOp { key: config.name.to_owned(), kind, value: config.value.map(str::to_owned) })
}
