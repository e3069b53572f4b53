//! DescribeCluster (key 60).

use crate::wire::declare::wire;

wire! {
    /// Asks for the brokers or controllers of the cluster (KIP-700, KIP-919).
    request DescribeClusterRequest for DescribeCluster, versions 0-2, flexible 0 {
        include_cluster_authorized_operations: bool;
        endpoint_type: i8 = 1, in 1+;
        include_fenced_brokers: bool, in 2+;
    }

    /// Answer to [`DescribeClusterRequest`].
    response DescribeClusterResponse<'a> for DescribeCluster, versions 0-2, flexible 0 {
        throttle_time_ms: i32;
        error_code: i16;
        error_message: Option<&'a str> = None;
        endpoint_type: i8 = 1, in 1+;
        cluster_id: &'a str;
        controller_id: i32 = -1;
        brokers: Vec<DescribeClusterBroker<'a>>;
        cluster_authorized_operations: i32 = i32::MIN;
    }

    /// An element of `brokers` in [`DescribeClusterResponse`].
    struct DescribeClusterBroker<'a> {
        broker_id: i32;
        host: &'a str;
        port: i32;
        rack: Option<&'a str> = None;
        is_fenced: bool, in 2+;
    }
}
