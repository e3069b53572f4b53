//! Ratios of two results of the same workload: how many times better the first is.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

/// What is compared: path in the report, unit, whether more is better.
pub const FIGURES: &[(&str, &str, bool)] = &[
    ("millstream.recordsPerSecond", "messages/s", true),
    ("millstream.mbPerSecond", "MB/s", true),
    ("millstream.transactionsPerSecond", "transactions/s", true),
    ("millstream.readRecordsPerSecond", "messages/s read", true),
    ("millstream.readMbPerCpuSecond", "MB read a CPU second", true),
    ("millstream.brokerCpuUsPerRecord", "us of broker CPU a message", false),
    ("millstream.brokerCpuUsPerRequest", "us of broker CPU a request", false),
    ("millstream.usage.brokerCpuCores", "cores of the broker", false),
    ("millstream.usage.brokerRssBytes", "bytes of broker memory", false),
    ("millstream.aggregatedPublishLatencyFromDue50pct", "ms p50 from due", false),
    ("millstream.aggregatedPublishLatencyFromDue99pct", "ms p99 from due", false),
    ("millstream.aggregatedPublishLatencyFromDue999pct", "ms p99.9 from due", false),
    ("millstream.aggregatedPublishLatencyFromDue9999pct", "ms p99.99 from due", false),
    ("aggregatedPublishLatency50pct", "ms p50 from sent", false),
    ("aggregatedPublishLatency99pct", "ms p99 from sent", false),
    ("aggregatedEndToEndLatency50pct", "ms p50 end to end", false),
    ("aggregatedEndToEndLatency99pct", "ms p99 end to end", false),
    ("aggregatedEndToEndLatency999pct", "ms p99.9 end to end", false),
];

/// The `compare` command: prints a row for each figure that both files have.
pub fn run(one: &Path, other: &Path) -> Result<bool> {
    let read = |path: &Path| -> Result<Value> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        serde_json::from_str(&text).with_context(|| path.display().to_string())
    };
    print!("{}", table(&read(one)?, &read(other)?));
    Ok(true)
}

/// The rows. Plans that differ are told first: their ratios mean something else.
pub fn table(one: &Value, other: &Value) -> String {
    let mut out = String::new();
    let plans = (at(one, "millstream.plan"), at(other, "millstream.plan"));
    if let (Some(Value::Object(ours)), Some(Value::Object(theirs))) = plans {
        for (name, value) in ours {
            if theirs.get(name) != Some(value) {
                let other = theirs.get(name).unwrap_or(&Value::Null);
                out += &format!("the plans differ: {name} is {value} and {other}\n");
            }
        }
    }
    for (side, report) in [("A", one), ("B", other)] {
        if at(report, "millstream.checks.good") == Some(&Value::Bool(false)) {
            out += &format!("{side} did not pass its own checks: its figures mean nothing\n");
        }
    }
    out += &format!("{:>28} {:>14} {:>14} {:>10}\n", "", "A", "B", "A is");
    for (path, unit, more) in FIGURES {
        let values = (number(one, path), number(other, path));
        let (Some(ours), Some(theirs)) = values else { continue };
        if ours <= 0.0 || theirs <= 0.0 {
            continue;
        }
        let times = if *more { ours / theirs } else { theirs / ours };
        out += &format!("{unit:>28} {:>14} {:>14} {times:>8.2} x\n", short(ours), short(theirs));
    }
    out + "A is so many times better; below 1 it lost\n"
}

fn at<'a>(report: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(report, |value, word| value.get(word))
}

fn number(report: &Value, path: &str) -> Option<f64> {
    at(report, path)?.as_f64()
}

fn short(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 1.0 => format!("{value:.2}"),
        value => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ratios_say_how_many_times_better_the_first_is_and_what_makes_them_void() {
        let report = |rate: f64, p99: f64, size: u32, good: bool| {
            json!({
                "aggregatedPublishLatency99pct": p99,
                "millstream": {
                    "recordsPerSecond": rate,
                    "plan": {"messageSize": size},
                    "checks": {"good": good},
                },
            })
        };
        let text = table(&report(3000.0, 2.0, 100, true), &report(1000.0, 1.0, 100, true));
        assert!(text.contains("3.00 x") && text.contains("0.50 x"), "{text}");
        assert!(!text.contains("differ") && !text.contains("checks"), "{text}");
        let text = table(&report(1.0, 1.0, 100, false), &report(1.0, 1.0, 50, true));
        assert!(text.contains("messageSize is 100 and 50"), "{text}");
        assert!(text.contains("A did not pass"), "{text}");
    }
}
