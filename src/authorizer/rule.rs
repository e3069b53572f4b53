//! One access rule: a principal, from a host, may or may not do something with some resources.

use super::principal::Principal;
use crate::wire::apis::AclOperation;
use std::net::IpAddr;

/// The one name of the resource [`ResourceKind::Cluster`].
pub const CLUSTER_NAME: &str = "kafka-cluster";
/// As the name of a literal pattern, every resource of its kind; as a host, every host.
pub const EVERY: &str = "*";

/// A kind of resource, by its number on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(i8)]
pub enum ResourceKind {
    Topic = 2,
    Group = 3,
    Cluster = 4,
    TransactionalId = 5,
    DelegationToken = 6,
    User = 7,
}

impl ResourceKind {
    pub const ALL: [ResourceKind; 6] = [
        ResourceKind::Topic,
        ResourceKind::Group,
        ResourceKind::Cluster,
        ResourceKind::TransactionalId,
        ResourceKind::DelegationToken,
        ResourceKind::User,
    ];

    pub fn new(number: i8) -> Option<ResourceKind> {
        ResourceKind::ALL.into_iter().find(|kind| *kind as i8 == number)
    }

    pub fn name(self) -> &'static str {
        match self {
            ResourceKind::Topic => "Topic",
            ResourceKind::Group => "Group",
            ResourceKind::Cluster => "Cluster",
            ResourceKind::TransactionalId => "TransactionalId",
            ResourceKind::DelegationToken => "DelegationToken",
            ResourceKind::User => "User",
        }
    }
}

/// One resource that somebody wants to do something with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource<'a> {
    Topic(&'a str),
    Group(&'a str),
    Cluster,
    TransactionalId(&'a str),
}

impl<'a> Resource<'a> {
    pub fn kind(self) -> ResourceKind {
        match self {
            Resource::Topic(_) => ResourceKind::Topic,
            Resource::Group(_) => ResourceKind::Group,
            Resource::Cluster => ResourceKind::Cluster,
            Resource::TransactionalId(_) => ResourceKind::TransactionalId,
        }
    }

    pub fn name(self) -> &'a str {
        match self {
            Resource::Topic(name) | Resource::Group(name) | Resource::TransactionalId(name) => name,
            Resource::Cluster => CLUSTER_NAME,
        }
    }
}

/// How the name of a rule is held against that of a resource, by its number on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(i8)]
pub enum PatternKind {
    /// The same name, or any if the rule's is `*`.
    Literal = 3,
    /// A name that begins so.
    Prefixed = 4,
}

impl PatternKind {
    pub fn new(number: i8) -> Option<PatternKind> {
        [PatternKind::Literal, PatternKind::Prefixed].into_iter().find(|kind| *kind as i8 == number)
    }
}

/// What a rule is about, by its number on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RuleOperation {
    All,
    One(AclOperation),
}

impl RuleOperation {
    const ALL: i8 = 2;

    pub fn new(number: i8) -> Option<RuleOperation> {
        match number {
            RuleOperation::ALL => Some(RuleOperation::All),
            number => AclOperation::new(number).map(RuleOperation::One),
        }
    }

    pub fn number(self) -> i8 {
        match self {
            RuleOperation::All => RuleOperation::ALL,
            RuleOperation::One(operation) => operation as i8,
        }
    }

    /// Whether a rule about this is one about `asked`. To be allowed some things lets one look at
    /// their object; to be denied them does not keep one from looking.
    pub fn covers(self, asked: AclOperation, permission: Permission) -> bool {
        use AclOperation::{Alter, AlterConfigs, Delete, Describe, DescribeConfigs, Read, Write};
        match (self, asked, permission) {
            (RuleOperation::All, ..) => true,
            (RuleOperation::One(of_rule), asked, _) if of_rule == asked => true,
            (RuleOperation::One(Read | Write | Delete | Alter), Describe, Permission::Allow) => {
                true
            }
            (RuleOperation::One(AlterConfigs), DescribeConfigs, Permission::Allow) => true,
            (RuleOperation::One(_), ..) => false,
        }
    }
}

/// What a rule says, by its number on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(i8)]
pub enum Permission {
    Deny = 2,
    Allow = 3,
}

impl Permission {
    pub fn new(number: i8) -> Option<Permission> {
        [Permission::Deny, Permission::Allow].into_iter().find(|one| *one as i8 == number)
    }
}

/// An access rule. The order of rules is that of the resources that they are about.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rule {
    pub kind: ResourceKind,
    pub name: Box<str>,
    pub pattern: PatternKind,
    pub principal: Principal,
    pub host: Box<str>,
    pub operation: RuleOperation,
    pub permission: Permission,
}

impl Rule {
    /// Bytes of its texts.
    pub fn text_bytes(&self) -> usize {
        self.name.len()
            + self.host.len()
            + self.principal.kind().len()
            + self.principal.name().len()
    }

    /// Whether it is about every resource of its kind.
    pub fn is_about_all(&self) -> bool {
        self.pattern == PatternKind::Literal && *self.name == *EVERY
    }

    /// Whom it lets in or keeps out by where they come from.
    pub fn hosts(&self) -> Hosts {
        match (&*self.host, self.host.parse::<IpAddr>()) {
            (EVERY, _) => Hosts::All,
            (_, Ok(address)) => Hosts::One(address.to_canonical()),
            // A name is nowhere looked up, so nobody comes from it.
            (_, Err(_)) => Hosts::None,
        }
    }
}

/// The hosts that a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hosts {
    All,
    One(IpAddr),
    None,
}

impl Hosts {
    pub fn include(self, host: IpAddr) -> bool {
        match self {
            Hosts::All => true,
            Hosts::One(address) => address == host,
            Hosts::None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use AclOperation as Op;

    const OPERATIONS: std::ops::RangeInclusive<i8> = 3..=15;

    /// The two lists of KIP-11 and KIP-133 as Apache Kafka's documentation has them.
    #[test]
    fn what_is_allowed_lets_one_look_and_what_is_denied_keeps_nobody_from_it() {
        for of_rule in OPERATIONS.filter_map(Op::new) {
            for asked in OPERATIONS.filter_map(Op::new) {
                let same = of_rule == asked;
                let looks = asked == Op::Describe
                    && [Op::Read, Op::Write, Op::Delete, Op::Alter].contains(&of_rule)
                    || (asked, of_rule) == (Op::DescribeConfigs, Op::AlterConfigs);
                let rule = RuleOperation::One(of_rule);
                assert_eq!(rule.covers(asked, Permission::Deny), same);
                assert_eq!(rule.covers(asked, Permission::Allow), same || looks);
                assert!(RuleOperation::All.covers(asked, Permission::Deny));
            }
        }
        assert_eq!(OPERATIONS.filter_map(Op::new).count(), 13);
    }

    #[test]
    fn numbers_of_the_wire_are_read_back_and_others_are_none() {
        for number in i8::MIN..=i8::MAX {
            let kind = ResourceKind::new(number);
            assert_eq!(kind.map(|kind| kind as i8), (2..=7).contains(&number).then_some(number));
            let operation = RuleOperation::new(number);
            let expected = (2..=15).contains(&number).then_some(number);
            assert_eq!(operation.map(RuleOperation::number), expected);
            let pattern = PatternKind::new(number).map(|pattern| pattern as i8);
            assert_eq!(pattern, (3..=4).contains(&number).then_some(number));
            let permission = Permission::new(number).map(|permission| permission as i8);
            assert_eq!(permission, (2..=3).contains(&number).then_some(number));
        }
    }

    #[test]
    fn host_is_an_address_or_every_one_and_a_name_is_nobodys() {
        let rule = |host: &str| Rule {
            kind: ResourceKind::Topic,
            name: "t".into(),
            pattern: PatternKind::Literal,
            principal: Principal::ANONYMOUS,
            host: host.into(),
            operation: RuleOperation::All,
            permission: Permission::Allow,
        };
        let here: IpAddr = "127.0.0.1".parse().unwrap();
        let six: IpAddr = "::1".parse().unwrap();
        assert!(rule("*").hosts().include(here) && rule("*").hosts().include(six));
        assert!(rule("127.0.0.1").hosts().include(here));
        assert!(rule("::ffff:127.0.0.1").hosts().include(here));
        // As Java writes it, and as everybody else does.
        assert!(rule("0:0:0:0:0:0:0:1").hosts().include(six) && rule("::1").hosts().include(six));
        for nobody in ["localhost", "127.0.0.0/8", "127.0.0.2", ""] {
            assert!(!rule(nobody).hosts().include(here), "{nobody}");
        }
    }
}
