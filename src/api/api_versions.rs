//! ApiVersions (key 18): what is served. KIP-35, KIP-511, KIP-584.

use super::{Answer, Call, Close};
use crate::wire::messages::api_versions::{
    ApiVersion, ApiVersionsRequest, ApiVersionsResponse, FinalizedFeatureKey, SupportedFeatureKey,
};
use crate::wire::{ApiKey, ErrorCode, apis};

/// Answers with the table. A version from tomorrow is answered in the form of version 0 with
/// UNSUPPORTED_VERSION and our own range for this key, so that the client can ask again.
///
/// One feature is named: `transaction.version` 2, upon which clients bump their epochs with each
/// transaction (KIP-890). Its lowest version is 0, which clients of versions before 4 do not take for
/// a supported feature (KIP-1022).
pub fn handle(call: &Call) -> Result<Answer, Close> {
    let served = apis::find(ApiKey::ApiVersions).is_some_and(|api| api.serves(call.version));
    if !served {
        return call.respond_at(&unsupported(), 0);
    }
    let request: ApiVersionsRequest<'_> = call.request()?;
    let names_itself = call.version < 3
        || (is_software_name(request.client_software_name)
            && is_software_name(request.client_software_version));
    if !names_itself {
        let error_code = ErrorCode::InvalidRequest.into();
        return call.respond(&ApiVersionsResponse { error_code, ..Default::default() });
    }
    let supported = SupportedFeatureKey {
        name: TRANSACTION_VERSION,
        min_version: 0,
        max_version: TRANSACTION_VERSION_MAX,
    };
    let finalized = FinalizedFeatureKey {
        name: TRANSACTION_VERSION,
        max_version_level: TRANSACTION_VERSION_MAX,
        min_version_level: TRANSACTION_VERSION_MAX,
    };
    let starts = call.image().start.starts;
    call.respond(&ApiVersionsResponse {
        api_keys: apis::advertised(),
        supported_features: if call.version < 4 { Vec::new() } else { vec![supported] },
        // Rises with each start: another version of this broker may know other features.
        finalized_features_epoch: i64::try_from(starts).unwrap_or(i64::MAX),
        finalized_features: vec![finalized],
        ..Default::default()
    })
}

const TRANSACTION_VERSION: &str = "transaction.version";
const TRANSACTION_VERSION_MAX: i16 = 2;

fn unsupported() -> ApiVersionsResponse<'static> {
    let key = ApiKey::ApiVersions.number();
    let api_keys: Vec<ApiVersion> =
        apis::advertised().into_iter().filter(|api| api.api_key == key).collect();
    let error_code = ErrorCode::UnsupportedVersion.into();
    ApiVersionsResponse { error_code, api_keys, ..Default::default() }
}

/// KIP-511: letters, digits, dots and dashes, neither first nor last a dot or dash.
fn is_software_name(name: &str) -> bool {
    let inner = |c: u8| c.is_ascii_alphanumeric() || c == b'.' || c == b'-';
    let outer = |c: Option<&u8>| c.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    bytes.iter().all(|c| inner(*c)) && outer(bytes.first()) && outer(bytes.last())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn software_names_follow_kip_511() {
        for good in ["a", "apache-kafka-java", "4.0.0", "A-1.b"] {
            assert!(is_software_name(good), "{good}");
        }
        for bad in ["", " ", "a b", "-a", "a-", "a.", ".", "a\n", "é"] {
            assert!(!is_software_name(bad), "{bad}");
        }
    }
}
