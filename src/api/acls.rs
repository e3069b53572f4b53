//! What the APIs of access rules have in common.

use super::{Call, error_codes};
use crate::authorizer::{Resource, RuleFilter};
use crate::cluster::change::Refused;
use crate::cluster::image::MetadataImage;
use crate::wire::ErrorCode;
use crate::wire::apis::AclOperation;

/// Why there is no answer, with words for people.
pub type Refusal = (ErrorCode, String);

/// Whether the caller may do `operation` with the rules: they are the cluster's. Without an authorizer
/// there are none, as Apache Kafka has none by default; an operator's tool then knows that everybody may
/// do everything.
pub fn allowed(call: &Call, image: &MetadataImage, operation: AclOperation) -> Result<(), Refusal> {
    if image.broker.authorizer.is_none() {
        // Apache Kafka's words.
        let message = match operation {
            AclOperation::Describe => "No Authorizer is configured on the broker",
            _ => "No Authorizer is configured.",
        };
        return Err((ErrorCode::SecurityDisabled, message.to_owned()));
    }
    call.allowed(image, operation, Resource::Cluster)
        .map_err(|code| (code, super::rights::REFUSED.to_owned()))
}

/// A refused change as it is answered.
pub fn refusal(refused: &Refused) -> Refusal {
    (error_codes::of_refused(refused), refused.to_string())
}

/// What both kinds of filter are read from.
pub struct Asked<'a> {
    pub kind: i8,
    pub name: Option<&'a str>,
    pub pattern: i8,
    pub principal: Option<&'a str>,
    pub host: Option<&'a str>,
    pub operation: i8,
    pub permission: i8,
}

impl Asked<'_> {
    pub fn filter(&self) -> RuleFilter {
        let [name, principal, host] =
            [self.name, self.principal, self.host].map(|text| text.map(str::to_owned));
        RuleFilter {
            kind: self.kind,
            name,
            pattern: self.pattern,
            principal,
            host,
            operation: self.operation,
            permission: self.permission,
        }
    }
}
