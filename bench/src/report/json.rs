//! JSON with the field names of the OpenMessaging Benchmark, so that its tools read it, and what that
//! cannot say under `millstream`.
//!
//! There `publishLatency` counts from when a request was sent and `publishDelayLatency` (in microseconds)
//! from when it was due to when it was sent. What a user waits for is the sum: `publishLatencyFromDue`.

use hdrhistogram::Histogram;
use serde_json::{Map, Value, json};

use super::PERCENTILES;
use crate::run::{Interval, Outcome};

/// The whole report of a run; `driver` names what it ran against.
pub fn report(outcome: &Outcome, driver: &str, host: &Value) -> Value {
    let plan = &outcome.plan;
    let measured: Vec<&Interval> = outcome.intervals.iter().filter(|one| !one.warm_up).collect();
    let seconds = plan.interval.as_secs_f64();
    let series = |of: &dyn Fn(&Interval) -> f64| -> Value {
        measured.iter().map(|one| of(one)).collect::<Vec<f64>>().into()
    };
    let mut out = Map::new();
    for (name, value) in [
        ("workload", json!(plan.name)),
        ("driver", json!(driver)),
        ("messageSize", json!(plan.message_bytes)),
        ("topics", json!(plan.topics)),
        ("partitions", json!(plan.partitions)),
        ("producersPerTopic", json!(plan.producers)),
        ("consumersPerTopic", json!(plan.consumers)),
        ("publishRate", series(&|one| one.stats.records as f64 / seconds)),
        ("publishErrorRate", series(&|one| one.stats.errors as f64 / seconds)),
        ("consumeRate", series(&|one| one.stats.read_records as f64 / seconds)),
        ("backlog", measured.iter().map(|one| one.backlog).collect::<Vec<u64>>().into()),
    ] {
        out.insert(name.to_owned(), value);
    }
    for (name, unit, of) in HISTOGRAMS {
        let each: Vec<&Histogram<u64>> = measured.iter().map(|one| of(&one.stats)).collect();
        put_series(&mut out, name, unit, &each);
        put_total(&mut out, name, unit, of(&outcome.total));
    }
    out.insert("millstream".to_owned(), own(outcome, host, &measured));
    Value::Object(out)
}

type Of = fn(&crate::run::Stats) -> &Histogram<u64>;

/// Name, microseconds of its unit, which.
const HISTOGRAMS: [(&str, f64, Of); 3] = [
    ("publishLatency", 1000.0, |stats| &stats.sent),
    ("publishDelayLatency", 1.0, |stats| &stats.delay),
    ("endToEndLatency", 1000.0, |stats| &stats.end_to_end),
];

fn put_series(out: &mut Map<String, Value>, name: &str, unit: f64, each: &[&Histogram<u64>]) {
    let averages: Vec<f64> = each.iter().map(|one| one.mean() / unit).collect();
    out.insert(format!("{name}Avg"), averages.into());
    for (percentile, quantile) in PERCENTILES {
        let values: Vec<f64> =
            each.iter().map(|one| one.value_at_quantile(quantile) as f64 / unit).collect();
        out.insert(format!("{name}{percentile}"), values.into());
    }
}

fn put_total(out: &mut Map<String, Value>, name: &str, unit: f64, total: &Histogram<u64>) {
    let mut letters = name.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    let name: String = first.into_iter().chain(letters).collect();
    out.insert(format!("aggregated{name}Avg"), json!(total.mean() / unit));
    for (percentile, quantile) in PERCENTILES {
        let value = total.value_at_quantile(quantile) as f64 / unit;
        out.insert(format!("aggregated{name}{percentile}"), json!(value));
    }
    out.insert(format!("aggregated{name}Quantiles"), quantiles(total, unit));
}

/// The curve: percentile -> latency.
fn quantiles(total: &Histogram<u64>, unit: f64) -> Value {
    let points = total.iter_quantiles(5).map(|point| {
        let percentile = point.quantile_iterated_to() * 100.0;
        (format!("{percentile:.6}"), json!(point.value_iterated_to() as f64 / unit))
    });
    Value::Object(points.collect())
}

fn own(outcome: &Outcome, host: &Value, measured: &[&Interval]) -> Value {
    let (total, plan) = (&outcome.total, &outcome.plan);
    let seconds = measured.len() as f64 * plan.interval.as_secs_f64();
    let cpu = outcome.usage.broker_cpu_seconds();
    let each = |count: u64| cpu.filter(|_| count > 0).map(|cpu| cpu * 1e6 / count as f64);
    let written = outcome.usage.device_bytes.filter(|_| total.bytes > 0);
    let per_cpu = |count: u64| cpu.filter(|cpu| *cpu > 0.0).map(|cpu| count as f64 / cpu);
    let mut due = Map::new();
    put_total(&mut due, "publishLatencyFromDue", 1000.0, &total.due);
    let mut due_series = Map::new();
    let histograms: Vec<&Histogram<u64>> = measured.iter().map(|one| &one.stats.due).collect();
    put_series(&mut due_series, "publishLatencyFromDue", 1000.0, &histograms);
    due.append(&mut due_series);
    let usage: Vec<Value> = measured.iter().map(|one| one.usage.json()).collect();
    let checks = &outcome.checks;
    let mut out = json!({
        "plan": plan.json(),
        "host": host,
        "seconds": seconds,
        "records": total.records,
        "recordsPerSecond": total.records as f64 / seconds,
        "requestsPerSecond": total.requests as f64 / seconds,
        "mbPerSecond": total.bytes as f64 / seconds / 1e6,
        "readRecordsPerSecond": total.read_records as f64 / seconds,
        "readMbPerSecond": total.read_bytes as f64 / seconds / 1e6,
        "transactionsPerSecond": total.transactions as f64 / seconds,
        "brokerCpuUsPerRecord": each(total.records),
        "brokerCpuUsPerRequest": each(total.requests),
        "brokerCpuUsPerReadRecord": each(total.read_records),
        "readMbPerCpuSecond": per_cpu(total.read_bytes).map(|bytes| bytes / 1e6),
        "deviceBytesPerByte": written.map(|bytes| bytes as f64 / total.bytes as f64),
        "usage": outcome.usage.json(),
        "usagePerInterval": usage,
        "checks": {
            "good": checks.hold(plan.acks),
            "acknowledged": outcome.acked,
            "lost": checks.faults.lost,
            "duplicate": checks.faults.duplicate,
            "corrupt": checks.faults.corrupt,
            "foreign": checks.faults.foreign,
            "abortedSeen": checks.faults.aborted_seen,
            "missing": checks.missing,
            "surplus": checks.surplus,
            "unread": checks.unread,
            "errors": checks.errors,
            "backlogPasses": checks.passes,
            "first": checks.faults.first,
            "complaint": checks.complaint,
        },
    });
    if let Value::Object(fields) = &mut out {
        fields.append(&mut due);
    }
    out
}
