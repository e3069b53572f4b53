//! The table.

use hdrhistogram::Histogram;
use serde_json::Value;

use crate::run::{Outcome, Stats};

const SHOWN: [(&str, f64); 6] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999), ("max", 1.0)];

/// A run, to be read.
pub fn table(outcome: &Outcome, driver: &str, host: &Value) -> String {
    let (plan, total, usage) = (&outcome.plan, &outcome.total, &outcome.usage);
    let mut out = format!("{} against {driver}\n", plan.name);
    if let Value::Object(facts) = host {
        for (name, value) in facts {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            out += &format!("{name:>24}  {text}\n");
        }
    }
    let seconds = usage.seconds.max(f64::MIN_POSITIVE);
    let rate = |count: u64| count as f64 / seconds;
    let mut row = |name: &str, value: String| out += &format!("{name:>24}  {value}\n");
    row("measured", format!("{seconds:.1} s, {} connections", plan.connections()));
    row(
        "acknowledged",
        format!(
            "{:.0} messages/s, {:.0} requests/s, {:.1} MB/s",
            rate(total.records),
            rate(total.requests),
            rate(total.bytes) / 1e6
        ),
    );
    if plan.transactions.is_some() {
        row("transactions", format!("{:.1}/s", rate(total.transactions)));
    }
    if plan.consumers > 0 {
        let (records, bytes) = (rate(total.read_records), rate(total.read_bytes) / 1e6);
        row("read", format!("{records:.0} messages/s, {bytes:.1} MB/s"));
    }
    if let Some(cores) = usage.broker_cores {
        let cpu = cores * seconds * 1e6;
        let each = |name: &str, count: u64| match count {
            0 => String::new(),
            count => format!(", {:.3} us a {name}", cpu / count as f64),
        };
        row(
            "broker CPU",
            format!(
                "{:.0} % of a core{}{}{}",
                cores * 100.0,
                each("message", total.records),
                each("request", total.requests),
                each("message read", total.read_records)
            ),
        );
    }
    if let Some(bytes) = usage.broker_rss {
        row("broker memory (RSS)", format!("{:.0} MiB", bytes as f64 / f64::from(1 << 20)));
    }
    if let Some(cores) = usage.client_cores {
        row("client CPU", format!("{:.0} % of a core", cores * 100.0));
    }
    if let (Some(writes), Some(syncs)) = (usage.device_writes, usage.device_syncs) {
        // Whoever does not sync leaves some of it for later.
        let bytes = usage.device_bytes.filter(|_| total.bytes > 0);
        let each = bytes.map(|bytes| bytes as f64 / total.bytes as f64);
        let each = each.map(|each| format!(", {each:.2} bytes written a byte produced"));
        let each = each.unwrap_or_default();
        row("device", format!("{:.0} writes/s, {:.0} flushes/s{each}", rate(writes), rate(syncs)));
    }
    out + &latencies(total) + &verdict(outcome)
}

fn latencies(total: &Stats) -> String {
    let mut out = format!("{:>24}", "latency, ms");
    for (name, _) in SHOWN {
        out += &format!("{name:>11}");
    }
    out.push('\n');
    for (name, histogram) in [
        ("from due", &total.due),
        ("from sent", &total.sent),
        ("end to end, from due", &total.end_to_end),
    ] {
        out += &line(name, histogram);
    }
    out
}

fn line(name: &str, histogram: &Histogram<u64>) -> String {
    if histogram.is_empty() {
        return String::new();
    }
    let mut out = format!("{name:>24}");
    for (_, quantile) in SHOWN {
        out += &format!("{:>11.3}", histogram.value_at_quantile(quantile) as f64 / 1e3);
    }
    out + "\n"
}

fn verdict(outcome: &Outcome) -> String {
    let checks = &outcome.checks;
    let good = checks.hold(outcome.plan.acks);
    let mut out = format!(
        "{:>24}  {}: {} acknowledged; {} missing, {} too many; read: {} lost, {} repeated, {} damaged, \
         {} foreign, {} aborted and seen, {} never came; {} refused\n",
        "checked",
        if good { "good" } else { "BAD" },
        outcome.acked,
        checks.missing,
        checks.surplus,
        checks.faults.lost,
        checks.faults.duplicate,
        checks.faults.corrupt,
        checks.faults.foreign,
        checks.faults.aborted_seen,
        checks.unread,
        checks.errors
    );
    for text in [&checks.faults.first, &checks.complaint].into_iter().flatten() {
        out += &format!("{:>24}  {text}\n", "");
    }
    out
}
