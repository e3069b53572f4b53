//! Which bytes of an open segment file were seen to be what was written.
//!
//! A batch is checked once, by the first reader who comes for it; whoever reads it again while it is
//! still in the page cache gets what was checked, and needs no look into the file.

use millstream_io::units::FilePosition;

/// Ranges of a file, ascending and apart. Lives on the owner's core, with the open file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked(Vec<Range>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    start: FilePosition,
    end: FilePosition,
}

impl Checked {
    /// `[start, end)` was checked. Where there are too many ranges, the shortest is forgotten.
    pub fn add(&mut self, start: FilePosition, end: FilePosition) {
        if start >= end {
            return;
        }
        let from = self.0.partition_point(|range| range.end < start);
        let to = self.0.partition_point(|range| range.start <= end);
        let touched = &self.0[from..to];
        let start = touched.first().map_or(start, |first| first.start.min(start));
        let end = touched.last().map_or(end, |last| last.end.max(end));
        self.0.splice(from..to, [Range { start, end }]);
        if self.0.len() > RANGES_MAX {
            let bytes = |range: &Range| range.end.since(range.start);
            let shortest = (0..self.0.len()).min_by_key(|&i| bytes(&self.0[i]));
            shortest.map(|i| self.0.remove(i));
        }
    }

    /// All of `[start, end)` was checked.
    pub fn holds(&self, start: FilePosition, end: FilePosition) -> bool {
        let behind = self.0.partition_point(|range| range.start <= start);
        let range = behind.checked_sub(1).map(|i| self.0[i]);
        range.is_some_and(|range| end <= range.end)
    }
}

/// Ranges that are kept of one file. Readers go front to back, so there are few.
const RANGES_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(at: u64) -> FilePosition {
        FilePosition::new(at)
    }

    proptest! {
        /// Method: a bit for each byte.
        #[test]
        fn ranges_hold_what_was_added(adds in prop::collection::vec((0_u64..200, 0_u64..20), 0..25)) {
            let (mut checked, mut model) = (Checked::default(), [false; 256]);
            for (start, len) in adds {
                checked.add(at(start), at(start + len));
                for byte in start..start + len {
                    model[usize::try_from(byte).unwrap()] = true;
                }
                let apart = checked.0.windows(2).all(|pair| pair[0].end < pair[1].start);
                prop_assert!(apart, "{checked:?}");
            }
            for start in 0..240_u64 {
                for end in start + 1..240 {
                    let all = (start..end).all(|byte| model[usize::try_from(byte).unwrap()]);
                    prop_assert_eq!(checked.holds(at(start), at(end)), all, "{}..{}", start, end);
                }
            }
        }
    }

    #[test]
    fn shortest_range_makes_room() {
        let mut checked = Checked::default();
        for n in 0..=RANGES_MAX as u64 {
            checked.add(at(n * 100), at(n * 100 + if n == 7 { 5 } else { 9 }));
        }
        assert_eq!(checked.0.len(), RANGES_MAX);
        assert!(!checked.holds(at(700), at(705)) && checked.holds(at(800), at(809)));
    }
}
