//! What a consumer holds against what comes: every batch whole and one of ours, every number of every
//! producer once and in order, no offset left out.

use std::collections::HashMap;

use crate::batch::known::{Found, Known, What};
use crate::batch::template::{ABORTED, Stamp};

/// What was wrong, in batches unless it says otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Numbers of a producer that were passed over, and offsets that were.
    pub lost: u64,
    /// Numbers that had been seen before.
    pub duplicate: u64,
    /// Bytes that are not what their checksum says.
    pub corrupt: u64,
    /// Whole batches that this run did not send.
    pub foreign: u64,
    /// Batches of aborted transactions that a reader of committed data was not told to skip.
    pub aborted_seen: u64,
    /// The first of all, in words.
    pub first: Option<String>,
}

impl Faults {
    /// Whether nothing was wrong.
    pub fn none(&self) -> bool {
        self.sum() == 0
    }

    /// How many things were.
    pub fn sum(&self) -> u64 {
        self.lost + self.duplicate + self.corrupt + self.foreign + self.aborted_seen
    }

    /// Adds those of another consumer.
    pub fn add(&mut self, other: &Faults) {
        self.lost += other.lost;
        self.duplicate += other.duplicate;
        self.corrupt += other.corrupt;
        self.foreign += other.foreign;
        self.aborted_seen += other.aborted_seen;
        if self.first.is_none() {
            self.first.clone_from(&other.first);
        }
    }

    /// Notes the first of all in words.
    pub fn note(&mut self, text: impl FnOnce() -> String) {
        if self.first.is_none() {
            self.first = Some(text());
        }
    }
}

/// One partition's place in the books.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub partition: i32,
    /// Offset that comes next.
    pub next: i64,
}

/// What the batches of one answer amounted to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Records that an application would have been given.
    pub records: u64,
}

/// The books of one consumer.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Partition, producer -> number that comes next.
    numbers: HashMap<(i32, u32), u64>,
    pub faults: Faults,
}

impl Ledger {
    /// Forgets a partition: it is read from its beginning again.
    pub fn restart(&mut self, partition: i32) {
        self.numbers.retain(|(of, _), _| *of != partition);
    }

    /// Enters the batches of an answer. `aborted` are the transactions that a reader of committed data
    /// is told to skip (producer id, first offset); `None` when all data counts. Hands out the stamps of
    /// batches that an application would have been given.
    pub fn enter(
        &mut self,
        known: &Known,
        place: &mut Place,
        mut bytes: &[u8],
        aborted: Option<&[(i64, i64)]>,
        mut seen: impl FnMut(Stamp, u64),
    ) -> Taken {
        let mut taken = Taken::default();
        let mut skip = Skip::new(aborted);
        while let Some(found) = known.first(bytes) {
            bytes = &bytes[found.length.min(bytes.len())..];
            if !self.follows(place, &found) {
                continue;
            }
            place.next = found.base_offset + i64::from(found.records);
            let hidden = skip.hides(&found);
            match found.what {
                What::Marker(_) => {}
                What::Ours(stamp) => {
                    let stamp = self.number(place.partition, &found, stamp);
                    let doomed = stamp.number & ABORTED != 0;
                    if !hidden {
                        taken.records += u64::from(found.records);
                        seen(stamp, u64::from(found.records));
                    }
                    if aborted.is_some() && doomed != hidden {
                        self.misled(place.partition, &found, doomed);
                    }
                }
                What::Foreign => {
                    self.faults.foreign += 1;
                    self.faults.note(|| {
                        format!(
                            "partition {}, offset {}: a batch that this run did not send",
                            place.partition, found.base_offset
                        )
                    });
                }
                What::Corrupt => {
                    self.faults.corrupt += 1;
                    self.faults.note(|| {
                        format!(
                            "partition {}, offset {}: a damaged batch",
                            place.partition, found.base_offset
                        )
                    });
                }
            }
        }
        taken
    }

    /// Whether the batch is where it should be; offsets that were passed over are lost.
    fn follows(&mut self, place: &Place, found: &Found) -> bool {
        let (partition, next, base) = (place.partition, place.next, found.base_offset);
        if base > next {
            self.faults.lost += 1;
            self.faults
                .note(|| format!("partition {partition}: offset {next} is followed by {base}"));
        }
        if base + i64::from(found.records) <= next {
            self.faults.duplicate += 1;
            self.faults
                .note(|| format!("partition {partition}: offset {base} again, {next} is next"));
            return false;
        }
        true
    }

    fn number(&mut self, partition: i32, found: &Found, stamp: Stamp) -> Stamp {
        let expected = self.numbers.entry((partition, stamp.producer)).or_default();
        let number = stamp.number & !ABORTED;
        if number > *expected {
            self.faults.lost += number - *expected;
            self.faults.note(|| {
                format!(
                    "partition {partition}, offset {}: producer {}'s batch {number}, {expected} is next",
                    found.base_offset, stamp.producer
                )
            });
        } else if number < *expected {
            self.faults.duplicate += 1;
            self.faults.note(|| {
                format!(
                    "partition {partition}, offset {}: producer {}'s batch {number} again",
                    found.base_offset, stamp.producer
                )
            });
        }
        *expected = (*expected).max(number + 1);
        stamp
    }

    fn misled(&mut self, partition: i32, found: &Found, doomed: bool) {
        let offset = found.base_offset;
        if doomed {
            self.faults.aborted_seen += 1;
            self.faults.note(|| {
                format!("partition {partition}, offset {offset}: aborted, and not hidden")
            });
        } else {
            self.faults.lost += 1;
            self.faults
                .note(|| format!("partition {partition}, offset {offset}: committed, and hidden"));
        }
    }
}

/// Which batches of an answer a reader of committed data skips, as Kafka's clients do.
struct Skip {
    /// By first offset, from the last to the first.
    ahead: Vec<(i64, i64)>,
    within: Vec<i64>,
}

impl Skip {
    fn new(aborted: Option<&[(i64, i64)]>) -> Skip {
        let mut ahead = aborted.unwrap_or_default().to_vec();
        ahead.sort_unstable_by_key(|(_, first)| std::cmp::Reverse(*first));
        Skip { ahead, within: Vec::new() }
    }

    fn hides(&mut self, found: &Found) -> bool {
        let end = found.base_offset + i64::from(found.records);
        while let Some((producer, first)) = self.ahead.last().copied()
            && first < end
        {
            self.ahead.pop();
            self.within.push(producer);
        }
        if found.what == What::Marker(false) {
            self.within.retain(|producer| *producer != found.producer_id);
        }
        found.transactional && self.within.contains(&found.producer_id)
    }
}
