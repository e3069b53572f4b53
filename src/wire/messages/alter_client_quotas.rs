//! AlterClientQuotas (key 49).

use crate::wire::declare::wire;

wire! {
    /// Sets or removes client quotas (KIP-546).
    request AlterClientQuotasRequest<'a> for AlterClientQuotas, versions 0-1, flexible 1 {
        entries: Vec<RequestEntryData<'a>>;
        validate_only: bool;
    }

    /// An element of `entries` in [`AlterClientQuotasRequest`].
    struct RequestEntryData<'a> {
        entity: Vec<EntityData<'a>>;
        ops: Vec<OpData<'a>>;
    }

    /// An element of `entity` in [`RequestEntryData`].
    struct EntityData<'a> {
        entity_type: &'a str;
        entity_name: Option<&'a str> = Some("");
    }

    /// An element of `ops` in [`RequestEntryData`].
    struct OpData<'a> {
        key: &'a str;
        value: f64;
        remove: bool;
    }

    /// Answer to [`AlterClientQuotasRequest`].
    response AlterClientQuotasResponse<'a> for AlterClientQuotas, versions 0-1, flexible 1 {
        throttle_time_ms: i32;
        entries: Vec<ResponseEntryData<'a>>;
    }

    /// An element of `entries` in [`AlterClientQuotasResponse`].
    struct ResponseEntryData<'a> {
        error_code: i16;
        error_message: Option<&'a str> = Some("");
        entity: Vec<EntityData<'a>>;
    }
}
