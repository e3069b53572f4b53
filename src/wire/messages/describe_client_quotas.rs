//! DescribeClientQuotas (key 48).

use crate::wire::declare::wire;

wire! {
    /// Lists client quotas that match a filter (KIP-546).
    request DescribeClientQuotasRequest<'a> for DescribeClientQuotas, versions 0-1, flexible 1 {
        components: Vec<ComponentData<'a>>;
        strict: bool;
    }

    /// An element of `components` in [`DescribeClientQuotasRequest`].
    struct ComponentData<'a> {
        entity_type: &'a str;
        match_type: i8;
        r#match: Option<&'a str> = Some("");
    }

    /// Answer to [`DescribeClientQuotasRequest`].
    response DescribeClientQuotasResponse<'a>
        for DescribeClientQuotas, versions 0-1, flexible 1
    {
        throttle_time_ms: i32;
        error_code: i16;
        error_message: Option<&'a str> = Some("");
        entries: Option<Vec<EntryData<'a>>> = Some(Vec::new());
    }

    /// An element of `entries` in [`DescribeClientQuotasResponse`].
    struct EntryData<'a> {
        entity: Vec<EntityData<'a>>;
        values: Vec<ValueData<'a>>;
    }

    /// An element of `entity` in [`EntryData`].
    struct EntityData<'a> {
        entity_type: &'a str;
        entity_name: Option<&'a str> = Some("");
    }

    /// An element of `values` in [`EntryData`].
    struct ValueData<'a> {
        key: &'a str;
        value: f64;
    }
}
