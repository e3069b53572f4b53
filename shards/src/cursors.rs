//! Where sequential readers of a partition will go on.

use millstream_io::units::Offset;

use crate::position::LogPosition;

/// A few pairs of (offset, position of the batch that starts there). A consumer that reads on from
/// where its last answer ended is found here, and needs no index and no walk. Lives on the owner's
/// core; the oldest pair makes room for the newest.
#[derive(Clone, Debug, Default)]
pub struct Cursors {
    pairs: [Option<(Offset, LogPosition)>; PLACES],
    next: usize,
}

/// Consumers of one partition that read at different places at the same time and still find their
/// own. Beyond that they fall back to the index.
const PLACES: usize = 8;

impl Cursors {
    /// The position of the batch that starts at `offset`, if a reader stopped there.
    pub fn find(&self, offset: Offset) -> Option<LogPosition> {
        self.pairs.iter().flatten().find(|pair| pair.0 == offset).map(|pair| pair.1)
    }

    /// A reader that came from `from` stopped before the batch at `next`. Takes the place of the
    /// reader's last stop, or else the oldest.
    pub fn moved(&mut self, from: Offset, next: Offset, position: LogPosition) {
        let held =
            |offset| self.pairs.iter().position(|pair| pair.is_some_and(|pair| pair.0 == offset));
        let place = match held(next).or_else(|| held(from)) {
            Some(place) => place,
            None => {
                let place = self.next;
                self.next = (place + 1) % PLACES;
                place
            }
        };
        self.pairs[place] = Some((next, position));
    }

    /// Forgets what lies in front of `offset`: the bytes there are others now.
    pub fn forget_below(&mut self, offset: Offset) {
        for pair in &mut self.pairs {
            *pair = pair.filter(|(held, _)| *held >= offset);
        }
    }

    /// Forgets what lies behind `end`: those records were refused.
    pub fn refuse_from(&mut self, end: Offset) {
        for pair in &mut self.pairs {
            *pair = pair.filter(|(offset, _)| *offset <= end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(offset: i64) -> Offset {
        Offset::at(offset)
    }

    #[test]
    fn sequential_reader_keeps_one_place() {
        let mut cursors = Cursors::default();
        for other in 0..7 {
            cursors.moved(at(1000 + other), at(2000 + other), LogPosition::new(1));
        }
        for n in 0..50 {
            cursors.moved(at(n), at(n + 1), LogPosition::new(n.unsigned_abs()));
        }
        assert_eq!(cursors.find(at(50)), Some(LogPosition::new(49)));
        assert_eq!(cursors.find(at(49)), None);
        for other in 0..7 {
            assert_eq!(cursors.find(at(2000 + other)), Some(LogPosition::new(1)));
        }
    }

    #[test]
    fn oldest_stop_makes_room() {
        let mut cursors = Cursors::default();
        for n in 0..9 {
            cursors.moved(at(100 + n), at(200 + n), LogPosition::ZERO);
        }
        assert_eq!(cursors.find(at(200)), None);
        assert!((1..9).all(|n| cursors.find(at(200 + n)).is_some()));
    }

    #[test]
    fn rewritten_records_leave_no_stop() {
        let mut cursors = Cursors::default();
        cursors.moved(at(0), at(5), LogPosition::ZERO);
        cursors.moved(at(1), at(9), LogPosition::ZERO);
        cursors.forget_below(at(9));
        assert_eq!(cursors.find(at(5)), None);
        assert!(cursors.find(at(9)).is_some());
    }

    #[test]
    fn refused_records_leave_no_stop() {
        let mut cursors = Cursors::default();
        cursors.moved(at(0), at(5), LogPosition::ZERO);
        cursors.moved(at(1), at(9), LogPosition::ZERO);
        cursors.refuse_from(at(5));
        assert!(cursors.find(at(5)).is_some());
        assert_eq!(cursors.find(at(9)), None);
    }
}
