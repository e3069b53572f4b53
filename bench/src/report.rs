//! What a run gave, in three forms: a table to be read, JSON to be compared, a page to be looked at.

/// Ratios of two results.
pub mod compare;
/// One self-contained page with plots.
pub mod html;
/// JSON with the field names of the OpenMessaging Benchmark.
pub mod json;
/// Plots, drawn here.
pub mod svg;
/// The table.
pub mod table;

/// Percentiles of all reports: the name of the OpenMessaging Benchmark, the quantile.
pub const PERCENTILES: [(&str, f64); 8] = [
    ("50pct", 0.5),
    ("75pct", 0.75),
    ("95pct", 0.95),
    ("99pct", 0.99),
    ("999pct", 0.999),
    ("9999pct", 0.9999),
    ("99999pct", 0.99999),
    ("Max", 1.0),
];
