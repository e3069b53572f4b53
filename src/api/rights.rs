//! What the caller of a request may do, by the access rules as they are now.
//!
//! Without an authorizer everything is allowed, and a question costs one look at a setting. With one it
//! costs a look-up of the resource's name, one of each prefix of it that rules have, and no allocation,
//! unless it is refused: then a line goes into the log, so many in a while.

use super::Call;
use crate::authorizer::decision::{decide, decide_for_any};
use crate::authorizer::{Asking, Resource, ResourceKind, Verdict};
use crate::cluster::image::MetadataImage;
use crate::wire::ErrorCode;
use crate::wire::apis::AclOperation;

/// What can be done with a resource of a kind (KIP-430).
fn operations(kind: ResourceKind) -> &'static [AclOperation] {
    use AclOperation::{
        Alter, AlterConfigs, ClusterAction, Create, CreateTokens, Delete, Describe,
        DescribeConfigs, DescribeTokens, IdempotentWrite, Read, TwoPhaseCommit, Write,
    };
    match kind {
        ResourceKind::Topic => {
            &[Read, Write, Create, Delete, Alter, Describe, DescribeConfigs, AlterConfigs]
        }
        ResourceKind::Group => &[Read, Delete, Describe, DescribeConfigs, AlterConfigs],
        ResourceKind::Cluster => &[
            Create,
            Alter,
            Describe,
            ClusterAction,
            DescribeConfigs,
            AlterConfigs,
            IdempotentWrite,
        ],
        ResourceKind::TransactionalId => &[Describe, Write, TwoPhaseCommit],
        ResourceKind::DelegationToken => &[Describe],
        ResourceKind::User => &[CreateTokens, DescribeTokens],
    }
}

/// What goes with a refused right on the cluster.
pub const REFUSED: &str = "Cluster authorization failed.";

/// The answer when the client did not ask which operations it may do.
pub const NOT_ASKED: i32 = i32::MIN;

/// The code for what the caller may not do with a resource.
pub fn refusal(kind: ResourceKind) -> ErrorCode {
    match kind {
        ResourceKind::Topic => ErrorCode::TopicAuthorizationFailed,
        ResourceKind::Group => ErrorCode::GroupAuthorizationFailed,
        ResourceKind::Cluster | ResourceKind::User => ErrorCode::ClusterAuthorizationFailed,
        ResourceKind::TransactionalId => ErrorCode::TransactionalIdAuthorizationFailed,
        ResourceKind::DelegationToken => ErrorCode::DelegationTokenAuthorizationFailed,
    }
}

impl Call {
    /// Whether the caller may do `operation` with `resource`. A refusal is logged.
    pub(super) fn may(
        &self,
        image: &MetadataImage,
        operation: AclOperation,
        resource: Resource<'_>,
    ) -> bool {
        self.verdict(image, operation, resource, log_refused)
    }

    /// [`Call::may`] where nobody asked for that very resource: what is left out of a list is no
    /// attempt to get at it.
    pub(super) fn may_see(
        &self,
        image: &MetadataImage,
        operation: AclOperation,
        resource: Resource<'_>,
    ) -> bool {
        self.verdict(image, operation, resource, |_, _, _, _| ())
    }

    /// [`Call::may`] with the code that a refusal is answered with.
    pub(super) fn allowed(
        &self,
        image: &MetadataImage,
        operation: AclOperation,
        resource: Resource<'_>,
    ) -> Result<(), ErrorCode> {
        match self.may(image, operation, resource) {
            true => Ok(()),
            false => Err(refusal(resource.kind())),
        }
    }

    /// Whether there is anything of a kind that the caller may do `operation` with.
    pub(super) fn may_with_any(
        &self,
        image: &MetadataImage,
        operation: AclOperation,
        kind: ResourceKind,
    ) -> bool {
        let Some(policy) = &image.broker.authorizer else { return true };
        let principal = self.caller.principal();
        let asking = Asking { principal: &principal, host: self.caller.host.to_canonical() };
        decide_for_any(policy, image.rules(), asking, operation, kind)
    }

    /// What the caller may do with `resource`, as a bit for each operation.
    pub(super) fn rights_on(&self, image: &MetadataImage, resource: Resource<'_>) -> i32 {
        let all = operations(resource.kind()).iter();
        let allowed = all.filter(|operation| self.may_see(image, **operation, resource));
        allowed.fold(0, |bits, operation| bits | 1 << (*operation as i8))
    }

    /// [`Call::rights_on`] the cluster, when the client asked; none for whom may not look at it.
    pub(super) fn rights_on_cluster(&self, image: &MetadataImage, asked: bool) -> i32 {
        match asked {
            false => NOT_ASKED,
            true if !self.may(image, AclOperation::Describe, Resource::Cluster) => 0,
            true => self.rights_on(image, Resource::Cluster),
        }
    }

    fn verdict(
        &self,
        image: &MetadataImage,
        operation: AclOperation,
        resource: Resource<'_>,
        refused: impl FnOnce(&Call, AclOperation, Resource<'_>, Verdict<'_>),
    ) -> bool {
        let Some(policy) = &image.broker.authorizer else { return true };
        let principal = self.caller.principal();
        let asking = Asking { principal: &principal, host: self.caller.host.to_canonical() };
        let verdict = decide(policy, image.rules(), asking, operation, resource);
        if !verdict.is_allowed() {
            refused(self, operation, resource, verdict);
        }
        verdict.is_allowed()
    }
}

fn log_refused(call: &Call, operation: AclOperation, resource: Resource<'_>, verdict: Verdict<'_>) {
    use millstream_io::{log_limited, runtime::log};
    let why = match verdict {
        Verdict::DeniedBy(_) => "a rule denies it",
        Verdict::NotAllowed | Verdict::Allowed => "no rule allows it",
    };
    log_limited!(
        log::info("authorizer", "refused what a client may not do")
            .field("principal", call.caller.principal())
            .field("host", call.caller.host.to_canonical())
            .field("operation", format_args!("{operation:?}"))
            .field(resource.kind().name(), resource.name())
            .field("request", call.key.name())
            .field("why", why)
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers that Apache Kafka answers when everything is allowed.
    #[test]
    fn operations_of_a_kind_are_the_bits_that_kafka_answers() {
        let bits = |kind| {
            operations(kind).iter().fold(0, |bits, operation| bits | 1 << (*operation as i8))
        };
        assert_eq!((bits(ResourceKind::Topic), bits(ResourceKind::Cluster)), (3576, 8096));
        assert_eq!(bits(ResourceKind::Group), 3400);
    }
}
