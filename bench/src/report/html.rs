//! One page that needs nothing else: facts, figures, plots over time.

use std::fmt::Write as _;

use serde_json::Value;

use super::svg::{Frame, Series, plot, text};
use crate::run::{Interval, Outcome, Stats};

const STYLE: &str = "body{font:15px/1.4 system-ui,sans-serif;margin:2em auto;max-width:1320px;color:#222}\
pre{background:#f6f6f6;padding:1em;overflow-x:auto}figure{display:inline-block;width:640px;margin:.5em}\
figcaption{font-weight:600}svg{width:100%}svg text{font-size:11px;fill:#555}.legend{margin:0;font-size:13px}\
.bad{color:#b00}";

const LINES: [(&str, f64); 5] =
    [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999), ("max", 1.0)];

/// The page; `table` is what was printed, `report` the JSON.
pub fn page(outcome: &Outcome, table: &str, report: &Value) -> String {
    let title = format!("{} against {}", outcome.plan.name, word(report, "driver"));
    let mut out = format!(
        "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{}</title>\
         <style>{STYLE}</style></head><body><h1>{}</h1>",
        text(&title),
        text(&title)
    );
    if !outcome.checks.hold(outcome.plan.acks) {
        out += "<p class=\"bad\">The data did not pass its checks: no figure below means anything.</p>";
    }
    let _ = write!(out, "<pre>{}</pre>", text(table));
    for drawn in plots(outcome) {
        out += &drawn;
    }
    let plan = serde_json::to_string_pretty(&report["millstream"]["plan"]).unwrap_or_default();
    let _ = writeln!(out, "<h2>Plan</h2><pre>{}</pre></body></html>", text(&plan));
    out
}

fn word<'a>(report: &'a Value, name: &str) -> &'a str {
    report.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn plots(outcome: &Outcome) -> Vec<String> {
    let of = Over { outcome, seconds: outcome.plan.interval.as_secs_f64() };
    let mut out = of.load();
    out.extend(of.machine());
    out.push(curve(&outcome.total));
    out
}

/// Plots over time.
struct Over<'a> {
    outcome: &'a Outcome,
    /// Of an interval.
    seconds: f64,
}

impl Over<'_> {
    /// What was asked and answered.
    fn load(&self) -> Vec<String> {
        let (plan, all) = (&self.outcome.plan, &self.outcome.intervals);
        let mut out = vec![
            self.plot(
                "Messages",
                "messages/s",
                &[
                    self.line("acknowledged", |one| self.rate(Some(one.stats.records))),
                    self.line("read", |one| {
                        self.rate((plan.consumers > 0).then_some(one.stats.read_records))
                    }),
                ],
            ),
            self.latency(
                "Latency of requests, from when they were due",
                latencies(all, |s| &s.due),
            ),
            self.latency(
                "Latency of requests, from when they were sent",
                latencies(all, |s| &s.sent),
            ),
            self.latency(
                "End to end, from when a message was due",
                latencies(all, |s| &s.end_to_end),
            ),
        ];
        if plan.transactions.is_some() {
            let ended = self.line("ended", |one| self.rate(Some(one.stats.transactions)));
            out.push(self.plot("Transactions", "transactions/s", &[ended]));
        }
        if plan.consumers > 0 {
            let behind = self.line("not yet read", |one| Some(one.backlog as f64));
            out.push(self.plot("Backlog", "messages", &[behind]));
        }
        out
    }

    /// What it cost.
    fn machine(&self) -> Vec<String> {
        let mib = |bytes: f64| bytes / f64::from(1 << 20);
        let broker = self.line("broker", |one| one.usage.broker_cores);
        let client = self.line("this client", |one| one.usage.client_cores);
        let memory = self.line("RSS", |one| one.usage.broker_rss.map(|bytes| mib(bytes as f64)));
        let writes = self.line("writes", |one| self.rate(one.usage.device_writes));
        let flushes = self.line("flushes", |one| self.rate(one.usage.device_syncs));
        let written = self.line("written", |one| self.rate(one.usage.device_bytes).map(mib));
        vec![
            self.plot("CPU", "cores", &[broker, client]),
            self.plot("Memory of the broker", "MiB resident", &[memory]),
            self.plot("Device (everybody's)", "per second", &[writes, flushes]),
            self.plot("Device (everybody's)", "MiB/s written", &[written]),
        ]
    }

    fn plot(&self, title: &str, y: &str, series: &[Series]) -> String {
        plot(Frame { title, x: "seconds", y, log: false, grey_to: self.warm_up() }, series)
    }

    fn latency(&self, title: &str, series: Vec<Series>) -> String {
        let frame = Frame { title, x: "seconds", y: "ms", log: true, grey_to: self.warm_up() };
        plot(frame, &series)
    }

    fn warm_up(&self) -> f64 {
        self.outcome.plan.warm_up.as_secs_f64()
    }

    fn line(&self, name: &str, of: impl Fn(&Interval) -> Option<f64>) -> Series {
        let points = self.outcome.intervals.iter().filter_map(|one| Some((one.at, of(one)?)));
        Series::new(name, points)
    }

    fn rate(&self, count: Option<u64>) -> Option<f64> {
        count.map(|count| count as f64 / self.seconds)
    }
}

fn latencies(all: &[Interval], of: fn(&Stats) -> &hdrhistogram::Histogram<u64>) -> Vec<Series> {
    LINES
        .iter()
        .map(|(name, quantile)| {
            let points = all
                .iter()
                .filter(|one| !of(&one.stats).is_empty())
                .map(|one| (one.at, of(&one.stats).value_at_quantile(*quantile) as f64 / 1e3));
            Series::new(name, points)
        })
        .collect()
}

/// Latency by percentile, stretched at its end: one step for each nine.
fn curve(total: &Stats) -> String {
    let of = |name, histogram: &hdrhistogram::Histogram<u64>| {
        let nines = (0..=40).map(|step| f64::from(step) / 10.0);
        let points = nines.map(|nines| {
            let quantile = 1.0 - 10f64.powf(-nines);
            (nines, histogram.value_at_quantile(quantile) as f64 / 1e3)
        });
        Series::new(name, points.filter(|_| !histogram.is_empty()))
    };
    let frame = Frame {
        title: "Latency by percentile",
        x: "nines: 1 is p90, 2 is p99, 3 is p99.9, 4 is p99.99",
        y: "ms",
        log: true,
        grey_to: 0.0,
    };
    let series = [
        of("from due", &total.due),
        of("from sent", &total.sent),
        of("end to end", &total.end_to_end),
    ];
    plot(frame, &series)
}
