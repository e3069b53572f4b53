//! The rights that clients are told they have (KIP-430), where nobody is kept from anything.

use crate::wire::apis::AclOperation;

const TOPIC: &[AclOperation] = &[
    AclOperation::Read,
    AclOperation::Write,
    AclOperation::Create,
    AclOperation::Delete,
    AclOperation::Alter,
    AclOperation::Describe,
    AclOperation::DescribeConfigs,
    AclOperation::AlterConfigs,
];

const CLUSTER: &[AclOperation] = &[
    AclOperation::Create,
    AclOperation::Alter,
    AclOperation::Describe,
    AclOperation::ClusterAction,
    AclOperation::DescribeConfigs,
    AclOperation::AlterConfigs,
    AclOperation::IdempotentWrite,
];

const GROUP: &[AclOperation] = &[
    AclOperation::Read,
    AclOperation::Delete,
    AclOperation::Describe,
    AclOperation::DescribeConfigs,
    AclOperation::AlterConfigs,
];

/// The answer when the client did not ask.
pub const NOT_ASKED: i32 = i32::MIN;

/// What may be done with a topic, as a bit for each operation.
pub fn on_topic(asked: bool) -> i32 {
    if asked { bits(TOPIC) } else { NOT_ASKED }
}

/// What may be done with the cluster.
pub fn on_cluster(asked: bool) -> i32 {
    if asked { bits(CLUSTER) } else { NOT_ASKED }
}

/// What may be done with a group.
pub fn on_group(asked: bool) -> i32 {
    if asked { bits(GROUP) } else { NOT_ASKED }
}

fn bits(operations: &[AclOperation]) -> i32 {
    operations.iter().fold(0, |bits, operation| bits | 1 << (*operation as i8))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers that Apache Kafka answers without an authorizer.
    #[test]
    fn rights_are_the_bits_that_kafka_answers() {
        assert_eq!((on_topic(true), on_cluster(true)), (3576, 8096));
        assert_eq!(on_topic(false), i32::MIN);
    }
}
