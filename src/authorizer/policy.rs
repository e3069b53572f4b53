//! What an operator has set about access rules.

use super::principal::Principal;
use std::collections::BTreeSet;

/// The authorizer's settings. Without it nobody is asked for rights.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Those who may do everything, whatever the rules say.
    pub super_users: BTreeSet<Principal>,
    /// Whether everybody may do everything with what no rule concerns.
    pub allow_without_rules: bool,
}

impl Policy {
    /// Reads `super.users`: principals, separated by semicolons, since names may hold commas.
    ///
    /// # Errors
    /// The part that is no principal.
    pub fn parse_super_users(text: &str) -> Result<BTreeSet<Principal>, String> {
        let parts = text.split(';').map(str::trim).filter(|part| !part.is_empty());
        parts.map(|part| Principal::parse(part).ok_or_else(|| part.to_owned())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn super_users_are_separated_by_semicolons() {
        let parsed = Policy::parse_super_users(" User:a; User:CN=b,O=c ;;User:a").unwrap();
        assert_eq!(parsed, [Principal::user("a"), Principal::user("CN=b,O=c")].into());
        assert_eq!(Policy::parse_super_users("").unwrap().len(), 0);
        assert_eq!(Policy::parse_super_users("User:a;bob"), Err("bob".to_owned()));
    }
}
