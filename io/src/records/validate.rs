//! Deep validation: every record of a producer's batch, before it is stored.

use std::fmt;

use super::{Keep, Records, RecordsError};
use crate::batch::CheckedBatch;
use crate::units::TimestampMs;

/// What the topic asks of records, besides being whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rules {
    /// The topic is compacted: a record without a key is refused.
    pub keys_required: bool,
    /// Timestamps must lie within these, both included. `None` when they are not checked.
    pub timestamps: Option<(TimestampMs, TimestampMs)>,
}

/// One record that breaks a rule of its topic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadRecord {
    /// Place in the batch.
    pub index: u32,
    pub fault: Fault,
}

/// Which rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    Keyless,
    Timestamp { timestamp: TimestampMs },
}

/// Why a batch is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DeepError {
    /// The records cannot be read, or are not numbered 0, 1, 2, ...
    Records(RecordsError),
    /// These records, at most [`BAD_RECORDS_MAX`] of them, break rules of the topic.
    Bad(Vec<BadRecord>),
}

/// Bad records that are told one by one.
pub const BAD_RECORDS_MAX: usize = 100;

/// Reads every record and holds it to the rules. Says the largest timestamp there really is, which
/// some producers do not put in the header.
///
/// # Errors
/// [`DeepError`].
pub fn validate(batch: &CheckedBatch, rules: Rules) -> Result<TimestampMs, DeepError> {
    let mut records = Records::open(batch.bytes(), Keep::Nothing)?;
    let mut bad = Vec::new();
    let mut largest: Option<TimestampMs> = None;
    while let Some(record) = records.next_record()? {
        // A producer's batch starts at offset 0 and leaves none out.
        if record.offset.get() != i64::from(record.index) {
            let (index, delta) = (record.index, record.offset.get());
            return Err(RecordsError::OffsetDelta { index, delta }.into());
        }
        largest = largest.max(Some(record.timestamp));
        let fault = fault_of(rules, record.key_bytes.is_none(), record.timestamp);
        if let Some(fault) = fault.filter(|_| bad.len() < BAD_RECORDS_MAX) {
            bad.push(BadRecord { index: record.index, fault });
        }
    }
    if !bad.is_empty() {
        return Err(DeepError::Bad(bad));
    }
    Ok(largest.unwrap_or(TimestampMs::NONE))
}

fn fault_of(rules: Rules, keyless: bool, timestamp: TimestampMs) -> Option<Fault> {
    if rules.keys_required && keyless {
        return Some(Fault::Keyless);
    }
    let (from, to) = rules.timestamps?;
    let outside = !timestamp.is_none() && (timestamp < from || timestamp > to);
    outside.then_some(Fault::Timestamp { timestamp })
}

impl From<RecordsError> for DeepError {
    fn from(error: RecordsError) -> DeepError {
        DeepError::Records(error)
    }
}

impl fmt::Display for DeepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeepError::Records(error) => error.fmt(f),
            DeepError::Bad(bad) => match bad.first() {
                Some(first) => write!(f, "record {} {}", first.index, first.fault),
                None => f.write_str("a record breaks a rule of its topic"),
            },
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Keyless => f.write_str("has no key, and the topic is compacted"),
            Fault::Timestamp { timestamp } => {
                write!(f, "has the timestamp {timestamp}, which is out of the allowed range")
            }
        }
    }
}

impl std::error::Error for DeepError {}
