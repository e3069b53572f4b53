//! DescribeConfigs (key 32).

use crate::wire::declare::wire;

wire! {
    /// Reads settings of topics, brokers and groups; null keys mean all.
    request DescribeConfigsRequest<'a> for DescribeConfigs, versions 1-4, flexible 4 {
        resources: Vec<DescribeConfigsResource<'a>>;
        include_synonyms: bool;
        include_documentation: bool, in 3+;
    }

    /// An element of `resources` in [`DescribeConfigsRequest`].
    struct DescribeConfigsResource<'a> {
        resource_type: i8;
        resource_name: &'a str;
        /// Null (or empty, as Kafka takes it) means all.
        configuration_keys: Option<Vec<&'a str>> = Some(Vec::new());
    }

    /// Answer to [`DescribeConfigsRequest`].
    response DescribeConfigsResponse<'a> for DescribeConfigs, versions 1-4, flexible 4 {
        throttle_time_ms: i32;
        results: Vec<DescribeConfigsResult<'a>>;
    }

    /// An element of `results` in [`DescribeConfigsResponse`].
    struct DescribeConfigsResult<'a> {
        error_code: i16;
        error_message: Option<&'a str> = Some("");
        resource_type: i8;
        resource_name: &'a str;
        configs: Vec<DescribeConfigsResourceResult<'a>>;
    }

    /// An element of `configs` in [`DescribeConfigsResult`].
    struct DescribeConfigsResourceResult<'a> {
        name: &'a str;
        value: Option<&'a str> = Some("");
        read_only: bool;
        /// 1 topic, 2 and 3 dynamic broker, 4 static broker, 5 default.
        config_source: i8 = -1;
        is_sensitive: bool;
        synonyms: Vec<DescribeConfigsSynonym<'a>>;
        config_type: i8, in 3+, else ignored;
        documentation: Option<&'a str> = Some(""), in 3+, else ignored;
    }

    /// An element of `synonyms` in [`DescribeConfigsResourceResult`].
    struct DescribeConfigsSynonym<'a> {
        name: &'a str;
        value: Option<&'a str> = Some("");
        source: i8;
    }
}
