//! The list of all settings, for people.

use crate::config::{BROKER_SETTINGS, Change, Setting, TOPIC_SETTINGS};

/// Every setting with its default, what it may hold and what it does.
pub fn list() -> String {
    let mut text = String::from("Settings of the broker (file, --set, or while it runs):\n\n");
    BROKER_SETTINGS.iter().for_each(|setting| describe(setting, &mut text));
    text.push_str("Settings of a topic (CreateTopics, IncrementalAlterConfigs):\n\n");
    TOPIC_SETTINGS.iter().for_each(|setting| describe(setting, &mut text));
    text
}

fn describe(setting: &Setting, text: &mut String) {
    let default = setting.default.unwrap_or("not set");
    text.push_str(&format!("{} [{default}]\n", setting.name));
    text.push_str(&format!("    {}\n", setting.doc));
    text.push_str(&format!("    Allowed: {}.", setting.allowed_text()));
    if let Some(broker_name) = setting.broker_name {
        text.push_str(&format!(" Default from the broker's {broker_name}."));
    } else if setting.change == Change::AtStart {
        text.push_str(" Set at start.");
    }
    text.push_str("\n\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_listed_with_its_default() {
        let text = list();
        for setting in BROKER_SETTINGS.iter().chain(TOPIC_SETTINGS) {
            let default = setting.default.unwrap_or("not set");
            assert!(text.contains(&format!("{} [{default}]\n", setting.name)), "{}", setting.name);
        }
    }
}
