//! The list of all settings, for people: as text and as the tables of the README.

use crate::config::{Allowed, BROKER_SETTINGS, Change, GROUP_SETTINGS, Setting, TOPIC_SETTINGS};

/// Every setting with its default, what it may hold and what it does.
pub fn list() -> String {
    let mut text = String::from("Settings of the broker (file, --set, or while it runs):\n\n");
    BROKER_SETTINGS.iter().for_each(|setting| describe(setting, &mut text));
    text.push_str("Settings of a topic (CreateTopics, IncrementalAlterConfigs):\n\n");
    TOPIC_SETTINGS.iter().for_each(|setting| describe(setting, &mut text));
    text.push_str("Settings of a group (IncrementalAlterConfigs):\n\n");
    GROUP_SETTINGS.iter().for_each(|setting| describe(setting, &mut text));
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

/// All settings as Markdown tables, each under a heading. The README holds exactly this.
pub fn markdown() -> String {
    let mut text = String::from(
        "### Settings of the broker\n\n\
         | Setting | Default | Values | Changes | What it does |\n|---|---|---|---|---|\n",
    );
    for setting in BROKER_SETTINGS.iter() {
        let change = match setting.change {
            Change::AtStart => "at start",
            Change::AnyTime => "any time",
        };
        let of_topics = TOPIC_SETTINGS.iter().find(|t| t.broker_name == Some(setting.name));
        let doc = match of_topics {
            Some(topic) => format!("The default of `{}` of topics.", topic.name),
            None => doc(setting),
        };
        text.push_str(&row(setting, change, &doc));
    }
    for (whose, settings) in [("topic", TOPIC_SETTINGS), ("group", GROUP_SETTINGS)] {
        text.push_str(&format!(
            "\n### Settings of a {whose}\n\n\
             | Setting | Default | Values | Broker's name | What it does |\n\
             |---|---|---|---|---|\n",
        ));
        for setting in settings {
            let broker_name = setting.broker_name.unwrap_or_default();
            text.push_str(&row(setting, &format!("`{broker_name}`"), &doc(setting)));
        }
    }
    text
}

fn row(setting: &Setting, fourth: &str, doc: &str) -> String {
    let (default, values) = (shown_default(setting), values(setting));
    let cells = [format!("`{}`", setting.name), default, values, fourth.into(), doc.into()];
    let cells = cells.map(|cell| cell.replace('|', "\\|"));
    format!("| {} |\n", cells.join(" | "))
}

fn doc(setting: &Setting) -> String {
    match setting.allowed {
        Allowed::Only { why, .. } => format!("{} No choice: {why}.", setting.doc),
        _ => setting.doc.to_owned(),
    }
}

/// What a setting may hold, in a few words.
fn values(setting: &Setting) -> String {
    match setting.allowed {
        Allowed::Bool => "true, false".to_owned(),
        Allowed::Int { min, max } | Allowed::Long { min, max } => {
            let unit = setting.unit().unwrap_or("number");
            if is_no_limit(setting, max) {
                format!("{unit}, at least {min}")
            } else {
                format!("{unit}, {min} to {max}")
            }
        }
        Allowed::IntOr { or, min, max } => format!("{or}, or {min} to {max}"),
        Allowed::Decimal { min, max: Some(max) } => format!("{min} to {max}"),
        Allowed::Decimal { min, max: None } => format!("number, at least {min}"),
        Allowed::OneOf(words) => words.join(", "),
        Allowed::ListOf(words) => format!("list of {}", words.join(", ")),
        Allowed::Text | Allowed::Password => "text".to_owned(),
        Allowed::List => "list".to_owned(),
        Allowed::Only { value, .. } => format!("only {value}"),
    }
}

/// The default, and a long number also in units that people read.
fn shown_default(setting: &Setting) -> String {
    let Some(default) = setting.default else { return "not set".to_owned() };
    let readable = default.parse().ok().and_then(|number: i64| {
        if is_no_limit(setting, number) {
            return Some("no limit".to_owned());
        }
        const BYTES: &[(i64, &str)] = &[(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        const TIMES: &[(i64, &str)] =
            &[(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s")];
        let units = match setting.unit() {
            Some("bytes") => BYTES,
            Some("milliseconds") => TIMES,
            _ => &[],
        };
        let (size, unit) = units.iter().find(|(size, _)| number > 0 && number % size == 0)?;
        Some(format!("{} {unit}", number / size))
    });
    match readable {
        Some(readable) => format!("`{default}` ({readable})"),
        None => format!("`{default}`"),
    }
}

/// Whether a number is the end of its type, which bounds nothing.
fn is_no_limit(setting: &Setting, number: i64) -> bool {
    match setting.allowed {
        Allowed::Int { .. } => number == i64::from(i32::MAX),
        Allowed::Long { .. } => number == i64::MAX,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_listed_with_its_default() {
        let text = list();
        for setting in BROKER_SETTINGS.iter().chain(TOPIC_SETTINGS).chain(GROUP_SETTINGS) {
            let default = setting.default.unwrap_or("not set");
            assert!(text.contains(&format!("{} [{default}]\n", setting.name)), "{}", setting.name);
        }
    }

    #[test]
    fn tables_have_a_row_for_every_setting_and_say_numbers_readably() {
        let text = markdown();
        for setting in BROKER_SETTINGS.iter().chain(TOPIC_SETTINGS).chain(GROUP_SETTINGS) {
            assert!(text.contains(&format!("| `{}` | ", setting.name)), "{}", setting.name);
        }
        let columns = |line: &str| line.replace("\\|", "").matches('|').count();
        assert!(text.lines().filter(|line| line.starts_with('|')).all(|line| columns(line) == 6));
        for part in [
            "| `segment.ms` | `604800000` (7 d) | milliseconds, at least 1 | `log.roll.ms` | How",
            "| `max.message.bytes` | `1048588` | bytes, at least 0 |",
            "| `max.connections` | `2147483647` (no limit) | number, at least 1 | any time |",
            "| `num.partitions` | `1` | number, 1 to 10000 | at start |",
            "| `log.segment.bytes` | `1073741824` (1 GiB) |",
            "The default of `segment.bytes` of topics. |",
            "| `broker.rack` | not set | text |",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }
}
