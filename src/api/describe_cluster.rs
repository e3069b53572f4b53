//! DescribeCluster (key 60): the brokers. KIP-700, KIP-919.

use super::{Answer, Call, Close};
use crate::wire::ErrorCode;
use crate::wire::messages::describe_cluster::{
    DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse,
};

const BROKERS: i8 = 1;
const CONTROLLERS: i8 = 2;

pub fn handle(call: &Call) -> Result<Answer, Close> {
    let request: DescribeClusterRequest = call.request()?;
    if request.endpoint_type != BROKERS {
        let code = match request.endpoint_type {
            CONTROLLERS => ErrorCode::MismatchedEndpointType,
            _ => ErrorCode::UnsupportedEndpointType,
        };
        let message = format!(
            "endpoint type {} cannot be asked of a broker; ask for type {BROKERS}",
            request.endpoint_type
        );
        let mut response = DescribeClusterResponse {
            error_code: code.into(),
            error_message: Some(&message),
            ..Default::default()
        };
        if call.version >= 1 {
            response.endpoint_type = request.endpoint_type;
        }
        return call.respond(&response);
    }
    let image = call.image();
    let brokers = image.start.brokers.iter().map(|broker| {
        let endpoint = call.endpoint(broker);
        DescribeClusterBroker {
            broker_id: broker.id.get(),
            host: &endpoint.host,
            port: i32::from(endpoint.port),
            rack: broker.rack.as_deref(),
            is_fenced: false,
        }
    });
    let asked = request.include_cluster_authorized_operations;
    call.respond(&DescribeClusterResponse {
        cluster_id: &image.start.cluster_id,
        controller_id: image.node_id().get(),
        brokers: brokers.collect(),
        cluster_authorized_operations: call.rights_on_cluster(&image, asked),
        ..Default::default()
    })
}
