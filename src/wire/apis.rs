//! The one table of what the broker serves. Dispatch, the answer to ApiVersions and the README's
//! table come from it, so an API is served exactly when it has a row here.
//!
//! The codec knows more ([`ApiKey::versions`]); a row narrows that to the versions whose meaning is
//! implemented. Compile-time checks below hold the table to the codec.

use super::ApiKey;
use super::messages::api_versions::ApiVersion;
use super::schema::Versions;

/// A served API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Api {
    pub key: ApiKey,
    /// Versions that are answered.
    pub served: Versions,
    /// Lowest version in the answer to ApiVersions. Below `served.min` only for Produce: old
    /// clients take compression for unsupported when version 0 is missing (KAFKA-18659), although
    /// versions 0 to 2 are refused.
    pub advertised_min: i16,
    pub login: LoginGate,
    pub rights: Rights,
    pub quota: QuotaClass,
}

/// Whether an API may be called before the client has proved who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginGate {
    /// Part of the greeting and of the login itself.
    Open,
    /// Only after the login, on listeners that ask for one.
    AfterLogin,
}

/// Which right a caller needs before all others, and on what. Some requests need one on each topic
/// besides, some have a second way; `tests/clients/aclrules.py` has all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// None.
    None,
    /// On the cluster.
    Cluster(AclOperation),
    /// On each topic that the request names; topics without the right are answered with an error.
    Topics(AclOperation),
    /// On each group that the request names.
    Groups(AclOperation),
    /// On the transactional id; without one, on the cluster ([`AclOperation::IdempotentWrite`]).
    TransactionalId(AclOperation),
    /// On each resource that the request names, by its type.
    Resources(AclOperation),
}

impl Rights {
    fn words(self) -> String {
        let (operation, on) = match self {
            Rights::None => return "none".to_owned(),
            Rights::Cluster(operation) => (operation, "the cluster"),
            Rights::Topics(operation) => (operation, "the topic"),
            Rights::Groups(operation) => (operation, "the group"),
            Rights::TransactionalId(operation) => (operation, "the transactional id"),
            Rights::Resources(operation) => (operation, "what it names"),
        };
        format!("{operation:?} on {on}")
    }
}

/// An operation that access rules speak of, by its number on the wire (KIP-140).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(i8)]
pub enum AclOperation {
    Read = 3,
    Write = 4,
    Create = 5,
    Delete = 6,
    Alter = 7,
    Describe = 8,
    ClusterAction = 9,
    DescribeConfigs = 10,
    AlterConfigs = 11,
    IdempotentWrite = 12,
    CreateTokens = 13,
    DescribeTokens = 14,
    TwoPhaseCommit = 15,
}

impl AclOperation {
    pub const ALL: [AclOperation; 13] = [
        AclOperation::Read,
        AclOperation::Write,
        AclOperation::Create,
        AclOperation::Delete,
        AclOperation::Alter,
        AclOperation::Describe,
        AclOperation::ClusterAction,
        AclOperation::DescribeConfigs,
        AclOperation::AlterConfigs,
        AclOperation::IdempotentWrite,
        AclOperation::CreateTokens,
        AclOperation::DescribeTokens,
        AclOperation::TwoPhaseCommit,
    ];

    /// The operation with this number on the wire.
    pub fn new(number: i8) -> Option<AclOperation> {
        AclOperation::ALL.into_iter().find(|operation| *operation as i8 == number)
    }
}

/// Which quota a request is charged to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaClass {
    /// Bytes produced, and request time.
    Produce,
    /// Bytes fetched, and request time.
    Fetch,
    /// Partitions created or deleted (KIP-599), and request time.
    ControllerMutation,
    /// Request time alone.
    Request,
    /// Nothing: requests between brokers.
    Exempt,
}

/// All rows, by ascending key.
pub const TABLE: &[Api] = &[
    row(ApiKey::Produce, 3, 13, Rights::Topics(AclOperation::Write))
        .advertised_from(0)
        .charged_to(QuotaClass::Produce),
    row(ApiKey::Fetch, 4, 18, Rights::Topics(AclOperation::Read)).charged_to(QuotaClass::Fetch),
    row(ApiKey::ListOffsets, 1, 10, Rights::Topics(AclOperation::Describe)),
    row(ApiKey::Metadata, 0, 13, Rights::Topics(AclOperation::Describe)),
    row(ApiKey::OffsetCommit, 2, 10, Rights::Groups(AclOperation::Read)),
    row(ApiKey::OffsetFetch, 1, 10, Rights::Groups(AclOperation::Describe)),
    row(ApiKey::FindCoordinator, 0, 6, Rights::Groups(AclOperation::Describe)),
    row(ApiKey::JoinGroup, 0, 9, Rights::Groups(AclOperation::Read)),
    row(ApiKey::Heartbeat, 0, 4, Rights::Groups(AclOperation::Read)),
    row(ApiKey::LeaveGroup, 0, 5, Rights::Groups(AclOperation::Read)),
    row(ApiKey::SyncGroup, 0, 5, Rights::Groups(AclOperation::Read)),
    row(ApiKey::DescribeGroups, 0, 6, Rights::Groups(AclOperation::Describe)),
    row(ApiKey::ListGroups, 0, 5, Rights::Groups(AclOperation::Describe)),
    row(ApiKey::SaslHandshake, 0, 1, Rights::None).before_login(),
    row(ApiKey::ApiVersions, 0, 4, Rights::None).before_login(),
    row(ApiKey::CreateTopics, 2, 7, Rights::Topics(AclOperation::Create))
        .charged_to(QuotaClass::ControllerMutation),
    row(ApiKey::DeleteTopics, 1, 6, Rights::Topics(AclOperation::Delete))
        .charged_to(QuotaClass::ControllerMutation),
    row(ApiKey::DeleteRecords, 0, 2, Rights::Topics(AclOperation::Delete)),
    row(ApiKey::InitProducerId, 0, 5, Rights::TransactionalId(AclOperation::Write)),
    row(ApiKey::OffsetForLeaderEpoch, 2, 4, Rights::Topics(AclOperation::Describe)),
    row(ApiKey::AddPartitionsToTxn, 0, 5, Rights::TransactionalId(AclOperation::Write)),
    row(ApiKey::AddOffsetsToTxn, 0, 4, Rights::TransactionalId(AclOperation::Write)),
    row(ApiKey::EndTxn, 0, 5, Rights::TransactionalId(AclOperation::Write)),
    row(ApiKey::WriteTxnMarkers, 1, 2, Rights::Cluster(AclOperation::ClusterAction))
        .charged_to(QuotaClass::Exempt),
    row(ApiKey::TxnOffsetCommit, 0, 5, Rights::TransactionalId(AclOperation::Write)),
    row(ApiKey::DescribeAcls, 1, 3, Rights::Cluster(AclOperation::Describe)),
    row(ApiKey::CreateAcls, 1, 3, Rights::Cluster(AclOperation::Alter)),
    row(ApiKey::DeleteAcls, 1, 3, Rights::Cluster(AclOperation::Alter)),
    row(ApiKey::DescribeConfigs, 1, 4, Rights::Resources(AclOperation::DescribeConfigs)),
    row(ApiKey::AlterConfigs, 0, 2, Rights::Resources(AclOperation::AlterConfigs)),
    row(ApiKey::AlterReplicaLogDirs, 1, 2, Rights::Cluster(AclOperation::Alter)),
    row(ApiKey::DescribeLogDirs, 1, 4, Rights::Cluster(AclOperation::Describe)),
    row(ApiKey::SaslAuthenticate, 0, 2, Rights::None).before_login(),
    row(ApiKey::CreatePartitions, 0, 3, Rights::Topics(AclOperation::Alter))
        .charged_to(QuotaClass::ControllerMutation),
    row(ApiKey::DeleteGroups, 0, 2, Rights::Groups(AclOperation::Delete)),
    row(ApiKey::ElectLeaders, 0, 2, Rights::Cluster(AclOperation::Alter)),
    row(ApiKey::IncrementalAlterConfigs, 0, 1, Rights::Resources(AclOperation::AlterConfigs)),
    row(ApiKey::AlterPartitionReassignments, 0, 1, Rights::Cluster(AclOperation::Alter)),
    row(ApiKey::ListPartitionReassignments, 0, 0, Rights::Cluster(AclOperation::Describe)),
    row(ApiKey::OffsetDelete, 0, 0, Rights::Groups(AclOperation::Delete)),
    row(ApiKey::DescribeUserScramCredentials, 0, 0, Rights::Cluster(AclOperation::Describe)),
    row(ApiKey::AlterUserScramCredentials, 0, 0, Rights::Cluster(AclOperation::Alter)),
    row(ApiKey::DescribeCluster, 0, 2, Rights::None),
    row(ApiKey::DescribeProducers, 0, 0, Rights::Topics(AclOperation::Read)),
    row(ApiKey::DescribeTransactions, 0, 0, Rights::TransactionalId(AclOperation::Describe)),
    row(ApiKey::ListTransactions, 0, 2, Rights::TransactionalId(AclOperation::Describe)),
    row(ApiKey::ConsumerGroupHeartbeat, 0, 1, Rights::Groups(AclOperation::Read)),
    row(ApiKey::ConsumerGroupDescribe, 0, 1, Rights::Groups(AclOperation::Describe)),
    row(ApiKey::ListConfigResources, 0, 1, Rights::Cluster(AclOperation::DescribeConfigs)),
    row(ApiKey::DescribeTopicPartitions, 0, 0, Rights::Topics(AclOperation::Describe)),
];

/// The row of `key`, if it is served.
pub fn find(key: ApiKey) -> Option<&'static Api> {
    match ROW_OF[key.number() as usize] {
        NO_ROW => None,
        row => Some(&TABLE[usize::from(row)]),
    }
}

/// What the answer to ApiVersions lists.
pub fn advertised() -> Vec<ApiVersion> {
    let entry = |api: &Api| ApiVersion {
        api_key: api.key.number(),
        min_version: api.advertised_min,
        max_version: api.served.max,
    };
    TABLE.iter().map(entry).collect()
}

/// The table as the README prints it.
pub fn markdown_table() -> String {
    let mut text = String::from("| Key | API | Versions | Flexible from | Right |\n");
    text.push_str("|---|---|---|---|---|\n");
    for api in TABLE {
        let flexible = api.key.flexible_versions();
        let flexible_from = if flexible.contains(i16::MAX) {
            flexible.min.to_string()
        } else {
            String::from("never")
        };
        let Versions { min, max } = api.served;
        let (key, name) = (api.key.number(), api.key.name());
        let right = api.rights.words();
        text.push_str(&format!("| {key} | {name} | {min}-{max} | {flexible_from} | {right} |\n"));
    }
    text
}

const fn row(key: ApiKey, min: i16, max: i16, rights: Rights) -> Api {
    Api {
        key,
        served: Versions::new(min, max),
        advertised_min: min,
        login: LoginGate::AfterLogin,
        rights,
        quota: QuotaClass::Request,
    }
}

impl Api {
    /// Whether `version` is answered.
    pub const fn serves(&self, version: i16) -> bool {
        self.served.contains(version)
    }

    const fn advertised_from(mut self, version: i16) -> Self {
        self.advertised_min = version;
        self
    }

    const fn charged_to(mut self, quota: QuotaClass) -> Self {
        self.quota = quota;
        self
    }

    const fn before_login(mut self) -> Self {
        self.login = LoginGate::Open;
        self
    }
}

const NO_ROW: u8 = u8::MAX;

/// Key number to place in [`TABLE`].
const ROW_OF: [u8; KEY_NUMBERS] = {
    let mut rows = [NO_ROW; KEY_NUMBERS];
    let mut index = 0;
    while index < TABLE.len() {
        rows[TABLE[index].key.number() as usize] = index as u8;
        index += 1;
    }
    rows
};

const KEY_NUMBERS: usize = ApiKey::ALL[ApiKey::ALL.len() - 1].number() as usize + 1;

// Rows ascend, so none stands twice; what is served can be read and written; nothing is advertised
// that has no version.
const _: () = {
    assert!(TABLE.len() < NO_ROW as usize);
    let mut index = 0;
    while index < TABLE.len() {
        let api = &TABLE[index];
        assert!(index == 0 || TABLE[index - 1].key.number() < api.key.number());
        assert!(api.served.min <= api.served.max);
        assert!(api.key.versions().contains(api.served.min));
        assert!(api.key.versions().contains(api.served.max));
        assert!(0 <= api.advertised_min && api.advertised_min <= api.served.min);
        index += 1;
    }
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn find_answers_for_every_key_of_the_table_and_no_other() {
        for key in ApiKey::ALL {
            let row = TABLE.iter().find(|api| api.key == *key);
            assert_eq!(find(*key), row);
        }
    }

    #[test]
    fn only_produce_advertises_versions_it_refuses() {
        for api in TABLE {
            let advertises_more = api.advertised_min < api.served.min;
            assert_eq!(advertises_more, api.key == ApiKey::Produce, "{}", api.key.name());
        }
        let produce = find(ApiKey::Produce).unwrap();
        assert!(produce.advertised_min == 0 && !produce.serves(2) && produce.serves(3));
    }

    #[test]
    fn floors_that_old_clients_need_are_open() {
        // Each pair: a version that a client in use today insists on.
        for (key, version) in [
            (ApiKey::ApiVersions, 0),
            (ApiKey::Metadata, 1),
            (ApiKey::Produce, 3),
            (ApiKey::Fetch, 4),
            (ApiKey::ListOffsets, 1),
            (ApiKey::InitProducerId, 0),
            (ApiKey::OffsetForLeaderEpoch, 2),
        ] {
            assert!(find(key).unwrap().serves(version), "{} {version}", key.name());
        }
    }

    #[test]
    fn markdown_has_a_line_for_every_row() {
        let text = markdown_table();
        assert_eq!(text.lines().count(), TABLE.len() + 2);
        assert!(text.contains("| 0 | Produce | 3-13 | 9 | Write on the topic |\n"));
    }
}
