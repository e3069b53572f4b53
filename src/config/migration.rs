//! Which changes between the two group protocols happen while a group has members (KIP-848).

use std::str::FromStr;

/// `group.consumer.migration.policy`. A group without members changes whatever it says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MigrationPolicy {
    /// None, and no member of the classic protocol comes into a group of the other.
    Disabled,
    /// From the classic protocol to the consumer protocol.
    Upgrade,
    /// From the consumer protocol to the classic protocol.
    Downgrade,
    #[default]
    Bidirectional,
}

impl MigrationPolicy {
    /// The words of the setting.
    pub const WORDS: [&'static str; 4] = ["disabled", "upgrade", "downgrade", "bidirectional"];

    pub const fn upgrades(self) -> bool {
        matches!(self, MigrationPolicy::Upgrade | MigrationPolicy::Bidirectional)
    }

    pub const fn downgrades(self) -> bool {
        matches!(self, MigrationPolicy::Downgrade | MigrationPolicy::Bidirectional)
    }
}

/// No such word; the table of settings lets none through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownPolicy;

impl FromStr for MigrationPolicy {
    type Err = UnknownPolicy;

    fn from_str(word: &str) -> Result<MigrationPolicy, UnknownPolicy> {
        match word {
            "disabled" => Ok(MigrationPolicy::Disabled),
            "upgrade" => Ok(MigrationPolicy::Upgrade),
            "downgrade" => Ok(MigrationPolicy::Downgrade),
            "bidirectional" => Ok(MigrationPolicy::Bidirectional),
            _ => Err(UnknownPolicy),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_of_the_setting_is_a_policy_and_says_what_it_allows() {
        let allowed = MigrationPolicy::WORDS.map(|word| {
            let policy: MigrationPolicy = word.parse().unwrap();
            (policy.upgrades(), policy.downgrades())
        });
        assert_eq!(allowed, [(false, false), (true, false), (false, true), (true, true)]);
        assert_eq!("bidirectional".parse(), Ok(MigrationPolicy::default()));
        assert_eq!("".parse::<MigrationPolicy>(), Err(UnknownPolicy));
    }
}
