//! Who may do what: access rules as Apache Kafka's StandardAuthorizer understands them (KIP-11,
//! KIP-290). Pure decisions; what asks for them stands in the rooms, and what keeps the rules with the
//! cluster's metadata.
//!
//! A caller may do what a rule allows and none denies. Super users may do everything. On what no rule
//! concerns at all, nobody else may do anything, or everybody may, as `allow.everyone.if.no.acl.found`
//! says.

pub mod decision;
pub mod filter;
mod index;
pub mod policy;
pub mod principal;
pub mod rule;
pub mod rules;

pub use decision::{Asking, Verdict};
pub use filter::RuleFilter;
pub use policy::Policy;
pub use principal::Principal;
pub use rule::{PatternKind, Permission, Resource, ResourceKind, Rule, RuleOperation};
pub use rules::Rules;

#[cfg(test)]
#[path = "authorizer/model_tests.rs"]
mod model_tests;
