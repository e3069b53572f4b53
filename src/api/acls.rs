//! What the APIs of access rules have in common: this broker has no authorizer, as Apache Kafka
//! has none by default, and says so. An operator's tool then knows that everybody may do everything.

/// Apache Kafka's words.
pub const DISABLED: &str = "No Authorizer is configured.";
