//! The settings of the broker that concern access rules.

use super::broker::start;
use super::setting::{Allowed, Setting};
use crate::authorizer::Policy;

/// The one authorizer there is, by Kafka's name for its like.
pub const STANDARD: &str = "org.apache.kafka.metadata.authorizer.StandardAuthorizer";

const CLASS: &str = "authorizer.class.name";
const SUPER_USERS: &str = "super.users";
const WITHOUT_RULES: &str = "allow.everyone.if.no.acl.found";

/// Part of the broker's table of settings.
pub(super) const AUTHORIZER_SETTINGS: &[Setting] = &[
    start(
        WITHOUT_RULES,
        Allowed::Bool,
        Some("false"),
        "Whether everybody may do everything with a resource that no access rule concerns. It counts \
         with an authorizer only.",
    ),
    start(
        CLASS,
        Allowed::Text,
        Some(""),
        "What decides who may do what. Empty, everybody may do everything; \
         `org.apache.kafka.metadata.authorizer.StandardAuthorizer` has access rules (ACLs) obeyed, as \
         Apache Kafka's of that name does. There is no other.",
    ),
    start(
        SUPER_USERS,
        Allowed::Text,
        Some(""),
        "Those who may do everything whatever the access rules say, as User:NAME, separated by \
         semicolons. It counts with an authorizer only.",
    ),
];

/// The authorizer's settings, if there is one.
///
/// # Errors
/// In words, for whoever set them.
pub fn read(value: &impl Fn(&'static str) -> Option<String>) -> Result<Option<Policy>, String> {
    let text = |name| value(name).unwrap_or_default();
    match text(CLASS).as_str() {
        "" => return Ok(None),
        STANDARD => {}
        other => {
            return Err(format!(
                "{CLASS} says {other}: this broker has the rules of {STANDARD}; write that, or \
                 nothing to let everybody do everything"
            ));
        }
    }
    let super_users = Policy::parse_super_users(&text(SUPER_USERS)).map_err(|part| {
        format!(
            "{SUPER_USERS} says {part}: write each as User:NAME, separated by semicolons, for example \
             User:admin;User:alice"
        )
    })?;
    Ok(Some(Policy { super_users, allow_without_rules: text(WITHOUT_RULES) == "true" }))
}

/// What is checked at start, with what its reader should know.
///
/// # Errors
/// As [`read`].
pub fn check_start(value: &impl Fn(&'static str) -> Option<String>) -> Result<Vec<String>, String> {
    let has_super_users = value(SUPER_USERS).is_some_and(|users| !users.is_empty());
    let warnings = match read(value)? {
        None if has_super_users => {
            vec![format!(
                "{SUPER_USERS} has no effect, since {CLASS} is empty: there is no authorizer"
            )]
        }
        Some(policy) if policy.super_users.is_empty() && !policy.allow_without_rules => {
            vec![format!(
                "{CLASS} is set and {SUPER_USERS} is empty: nobody may do anything, or make access \
                 rules, unless a rule says so already"
            )]
        }
        _ => Vec::new(),
    };
    Ok(warnings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authorizer::Principal;

    fn settings(class: &str, users: &str) -> impl Fn(&'static str) -> Option<String> {
        let (class, users) = (class.to_owned(), users.to_owned());
        move |name| match name {
            CLASS => Some(class.clone()),
            SUPER_USERS => Some(users.clone()),
            _ => Some("false".to_owned()),
        }
    }

    #[test]
    fn only_the_standard_authorizer_can_be_asked_for() {
        assert_eq!(read(&settings("", "User:a")), Ok(None));
        let policy = read(&settings(STANDARD, "User:a; User:b")).unwrap().unwrap();
        assert_eq!(policy.super_users, [Principal::user("a"), Principal::user("b")].into());
        assert!(!policy.allow_without_rules);
        let refused = read(&settings("kafka.security.authorizer.AclAuthorizer", "")).unwrap_err();
        assert!(refused.contains(CLASS) && refused.contains(STANDARD), "{refused}");
        let refused = read(&settings(STANDARD, "User:a;bob")).unwrap_err();
        assert!(refused.contains(SUPER_USERS) && refused.contains("bob"), "{refused}");
    }

    #[test]
    fn settings_that_keep_everybody_out_or_do_nothing_are_told_of() {
        let warned = |class, users| check_start(&settings(class, users)).unwrap();
        assert_eq!(warned("", ""), Vec::<String>::new());
        assert!(warned("", "User:a")[0].contains("no effect"));
        assert!(warned(STANDARD, "")[0].contains("nobody"));
        assert_eq!(warned(STANDARD, "User:a"), Vec::<String>::new());
    }
}
