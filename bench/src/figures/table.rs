//! Rows, their targets, and how they are shown.

use serde_json::{Value, json};

use crate::host::{SyncCost, micros};

/// How far CPU and ratio figures may miss on a machine that others use too. Neighbours that run
/// between any two wakes leave cold caches, which was seen to make a request cost 1.65 times as much
/// CPU.
const TOLERANCE: f64 = 2.0;
/// The same for figures that hold elapsed time, which a busy neighbour stretches without bound.
const TOLERANCE_ELAPSED: f64 = 3.0;

/// What a figure must not pass.
#[derive(Clone, Copy, Debug)]
pub enum Target {
    /// Reported, not judged.
    None,
    /// CPU time or a ratio within one run.
    AtMost(f64),
    AtLeast(f64),
    /// Elapsed time.
    ElapsedAtMost(f64),
    /// Counts, which have no tolerance.
    Exactly(f64),
    CountAtMost(f64),
    CountAtLeast(f64),
}

/// One figure.
#[derive(Clone, Debug)]
pub struct Row {
    pub name: String,
    pub unit: &'static str,
    pub target: Target,
    /// One value a window; the median counts.
    pub values: Vec<f64>,
    pub note: String,
}

/// All figures of one run with the facts of the host.
pub struct Report {
    host: Value,
    rows: Vec<Row>,
    failures: Vec<(String, String)>,
}

impl Row {
    /// The middle value.
    pub fn median(&self) -> f64 {
        let mut sorted = self.values.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
    }

    /// Whether the target holds; `None` when there is none.
    pub fn holds(&self, tolerant: bool) -> Option<bool> {
        let factor = |tolerance: f64| if tolerant { tolerance } else { 1.0 };
        let median = self.median();
        match self.target {
            Target::None => None,
            Target::AtMost(most) => Some(median <= most * factor(TOLERANCE)),
            Target::AtLeast(least) => Some(median >= least / factor(TOLERANCE)),
            Target::ElapsedAtMost(most) => Some(median <= most * factor(TOLERANCE_ELAPSED)),
            Target::Exactly(value) => Some(median == value),
            Target::CountAtMost(most) => Some(median <= most),
            Target::CountAtLeast(least) => Some(median >= least),
        }
    }

    fn target_text(&self) -> String {
        match self.target {
            Target::None => "-".to_owned(),
            Target::AtMost(most) | Target::ElapsedAtMost(most) | Target::CountAtMost(most) => {
                format!("<= {most}")
            }
            Target::Exactly(value) => format!("= {value}"),
            Target::AtLeast(least) | Target::CountAtLeast(least) => format!(">= {least}"),
        }
    }
}

impl Report {
    pub fn new(host: Value) -> Report {
        Report { host, rows: Vec::new(), failures: Vec::new() }
    }

    /// Adds a figure.
    pub fn row(
        &mut self,
        name: impl Into<String>,
        unit: &'static str,
        target: Target,
        values: Vec<f64>,
        note: impl Into<String>,
    ) {
        let row = Row { name: name.into(), unit, target, values, note: note.into() };
        eprintln!("  {}: {} {unit}  {}", row.name, number(row.median()), row.note);
        self.rows.push(row);
    }

    /// Notes that a figure could not be taken, which counts as missed.
    pub fn failed(&mut self, figure: &str, error: &str) {
        eprintln!("  {figure} FAILED: {error}");
        self.failures.push((figure.to_owned(), error.to_owned()));
    }

    /// The sync cost at the end, which shows whether the machine kept still.
    pub fn after(&mut self, sync: SyncCost) {
        self.host["sync_4k_p50_us_after"] = json!(micros(sync.p50));
    }

    /// Whether all targets hold and all figures were taken.
    pub fn holds(&self, tolerant: bool) -> bool {
        self.failures.is_empty() && self.rows.iter().all(|row| row.holds(tolerant) != Some(false))
    }

    /// The table, to be read.
    pub fn table(&self, tolerant: bool) -> String {
        let mut out = String::new();
        if let Value::Object(facts) = &self.host {
            for (name, value) in facts {
                let text = match value {
                    Value::String(text) => text.clone(),
                    Value::Number(n) if n.is_f64() => number(n.as_f64().unwrap_or(f64::NAN)),
                    other => other.to_string(),
                };
                out += &format!("{name:>24}  {text}\n");
            }
        }
        if tolerant {
            out += &format!(
                "\njudged with tolerance: {TOLERANCE} x for CPU and ratios, {TOLERANCE_ELAPSED} x \
                 for elapsed time\n"
            );
        }
        let width = self.rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
        out += &format!(
            "\n{:width$}  {:>10}  {:>10}  {:>21}  {:7} verdict  note\n",
            "figure", "target", "median", "min .. max", "unit"
        );
        for row in &self.rows {
            let verdict = match row.holds(tolerant) {
                None => "-",
                Some(true) => "pass",
                Some(false) => "FAIL",
            };
            let least = row.values.iter().copied().fold(f64::INFINITY, f64::min);
            let most = row.values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            out += &format!(
                "{:width$}  {:>10}  {:>10}  {:>21}  {:7} {verdict:7}  {}\n",
                row.name,
                row.target_text(),
                number(row.median()),
                format!("{} .. {}", number(least), number(most)),
                row.unit,
                row.note
            );
        }
        for (figure, error) in &self.failures {
            out += &format!("{figure}: FAILED: {error}\n");
        }
        out
    }

    /// A line for each judged figure, for programs: PASS or FAIL, and what.
    pub fn verdicts(&self, tolerant: bool) -> String {
        let mut out = String::new();
        for row in &self.rows {
            let verdict = match row.holds(tolerant) {
                None => continue,
                Some(true) => "PASS",
                Some(false) => "FAIL",
            };
            let (median, target) = (number(row.median()), row.target_text());
            out += &format!("{verdict} {}: {median} {} (target {target})\n", row.name, row.unit);
        }
        for (figure, error) in &self.failures {
            out += &format!("FAIL {figure}: {error}\n");
        }
        out
    }

    /// The same, to be kept.
    pub fn json(&self) -> Value {
        let rows: Vec<Value> = self.rows.iter().map(row_json).collect();
        let failures: Vec<Value> = self
            .failures
            .iter()
            .map(|(figure, error)| json!({ "figure": figure, "error": error }))
            .collect();
        json!({ "host": self.host, "figures": rows, "failures": failures })
    }
}

fn row_json(row: &Row) -> Value {
    let target = match row.target {
        Target::None => Value::Null,
        Target::AtMost(most) | Target::ElapsedAtMost(most) | Target::CountAtMost(most) => {
            json!({ "at_most": most })
        }
        Target::Exactly(value) => json!({ "exactly": value }),
        Target::AtLeast(least) | Target::CountAtLeast(least) => json!({ "at_least": least }),
    };
    json!({
        "name": row.name,
        "unit": row.unit,
        "target": target,
        "median": row.median(),
        "values": row.values,
        "holds": row.holds(false),
        "note": row.note,
    })
}

/// Three significant digits, or all before the point.
fn number(value: f64) -> String {
    let size = value.abs();
    if size >= 100.0 || value == 0.0 {
        format!("{value:.0}")
    } else if size >= 10.0 {
        format!("{value:.1}")
    } else if size >= 1.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.3}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(target: Target, values: &[f64]) -> Row {
        Row { name: "x".into(), unit: "us", target, values: values.to_vec(), note: String::new() }
    }

    #[test]
    fn the_median_is_judged_and_tolerance_applies_only_when_asked() {
        let late = row(Target::AtMost(1.0), &[9.0, 1.2, 0.1]);
        assert_eq!(late.median(), 1.2);
        assert_eq!(late.holds(false), Some(false));
        assert_eq!(late.holds(true), Some(true));
        let slow = row(Target::AtLeast(0.7), &[0.4]);
        assert_eq!((slow.holds(false), slow.holds(true)), (Some(false), Some(true)));
        assert_eq!(row(Target::AtLeast(0.7), &[]).holds(true), Some(false), "no value is no pass");
        assert_eq!(row(Target::Exactly(0.0), &[0.1]).holds(true), Some(false));
        assert_eq!(row(Target::None, &[5.0]).holds(false), None);
        assert_eq!(row(Target::AtMost(1.0), &[]).holds(true), Some(false), "no value is no pass");
    }

    #[test]
    fn a_figure_that_could_not_be_taken_fails_the_run() {
        let mut report = Report::new(Value::Null);
        report.row("ok", "us", Target::AtMost(1.0), vec![0.5], "");
        assert!(report.holds(false));
        report.failed("commit", "the broker is gone");
        assert!(!report.holds(true));
        assert!(report.table(true).contains("the broker is gone"));
        assert_eq!(
            report.verdicts(true),
            "PASS ok: 0.500 us (target <= 1)\nFAIL commit: the broker is gone\n"
        );
    }
}
