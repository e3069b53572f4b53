//! The five offsets that say how far a partition's log has come, and the one setter that keeps
//! them in order.

use millstream_io::units::Offset;

/// The offsets of one partition, at one moment:
///
/// ```text
/// log_start <= LastStableOffset <= HighWatermark <= durable_end <= log_end
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    /// First offset that may be read; rises with retention and DeleteRecords.
    pub log_start: Offset,
    /// Below it no transaction is open: where readers of committed records stop.
    pub last_stable: Offset,
    /// Below it records are durable on enough replicas: where readers stop.
    pub high_watermark: Offset,
    /// Below it records are on our own stable storage.
    pub durable_end: Offset,
    /// The next record gets this offset.
    pub log_end: Offset,
}

/// Holder of [`Marks`]: every change goes through one setter that asserts their order, and that
/// what a client may have seen never goes back. Lives on the owner's core.
#[derive(Clone, Debug)]
pub struct Watermarks {
    marks: Marks,
}

impl Watermarks {
    /// After recovery: everything that was found is durable. `first_unstable` is where the oldest
    /// open transaction begins.
    ///
    /// # Panics
    /// When `log_start` lies behind `log_end`.
    pub fn recovered(
        log_start: Offset,
        log_end: Offset,
        first_unstable: Option<Offset>,
    ) -> Watermarks {
        let marks = Marks {
            log_start,
            last_stable: first_unstable.map_or(log_end, |open| open.max(log_start).min(log_end)),
            high_watermark: log_end,
            durable_end: log_end,
            log_end,
        };
        marks.assert_order();
        Watermarks { marks }
    }

    #[inline]
    pub fn get(&self) -> Marks {
        self.marks
    }

    #[inline]
    pub fn log_start(&self) -> Offset {
        self.marks.log_start
    }

    #[inline]
    pub fn last_stable(&self) -> Offset {
        self.marks.last_stable
    }

    #[inline]
    pub fn high_watermark(&self) -> Offset {
        self.marks.high_watermark
    }

    #[inline]
    pub fn durable_end(&self) -> Offset {
        self.marks.durable_end
    }

    #[inline]
    pub fn log_end(&self) -> Offset {
        self.marks.log_end
    }

    /// Records were staged up to `log_end`.
    pub fn staged(&mut self, log_end: Offset) {
        assert!(
            log_end >= self.marks.log_end,
            "staging to {log_end} behind the log end {}",
            self.marks.log_end
        );
        self.set(Marks { log_end, ..self.marks });
    }

    /// Staged records that nobody has seen were refused: the log ends at `log_end` again, and the
    /// offsets behind it are given anew.
    pub fn refused(&mut self, log_end: Offset) {
        self.set(Marks { log_end, ..self.marks });
    }

    /// Records up to `durable_end` are on stable storage. With one replica that moves the
    /// HighWatermark too, and the LastStableOffset follows it up to the first open transaction.
    pub fn durable(&mut self, durable_end: Offset, first_unstable: Option<Offset>) {
        let high_watermark = durable_end;
        let last_stable = match first_unstable {
            // Deleted records keep no reader waiting.
            Some(open) => open.max(self.marks.log_start).min(high_watermark),
            None => high_watermark,
        };
        self.set(Marks { last_stable, high_watermark, durable_end, ..self.marks });
    }

    /// Records below `log_start` are given up, those of open transactions too. An offset at or below
    /// the present start changes nothing.
    ///
    /// # Panics
    /// When it lies behind the HighWatermark: what nobody has seen is not deleted.
    pub fn delete_before(&mut self, log_start: Offset) {
        if log_start > self.marks.log_start {
            let last_stable = self.marks.last_stable.max(log_start);
            self.set(Marks { log_start, last_stable, ..self.marks });
        }
    }

    /// The one setter.
    ///
    /// Called for each batch: inlined, and with its messages apart, the five offsets stay in
    /// registers. On the stack they cost a wait for all stores before, the copied batch included.
    #[inline(always)]
    fn set(&mut self, next: Marks) {
        let was = self.marks;
        let rises = next.log_start >= was.log_start
            && next.last_stable >= was.last_stable
            && next.high_watermark >= was.high_watermark
            && next.durable_end >= was.durable_end;
        if !rises {
            goes_back(was, next);
        }
        next.assert_order();
        self.marks = next;
    }
}

impl Marks {
    #[inline(always)]
    fn assert_order(self) {
        let in_order = self.log_start <= self.last_stable
            && self.last_stable <= self.high_watermark
            && self.high_watermark <= self.durable_end
            && self.durable_end <= self.log_end;
        if !in_order {
            out_of_order(self);
        }
    }
}

#[cold]
#[inline(never)]
fn goes_back(was: Marks, next: Marks) -> ! {
    panic!("a watermark goes back: {was:?} -> {next:?}")
}

#[cold]
#[inline(never)]
fn out_of_order(marks: Marks) -> ! {
    panic!("watermarks out of order: {marks:?}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(offset: i64) -> Offset {
        Offset::at(offset)
    }

    #[test]
    fn high_watermark_waits_for_durability() {
        let mut marks = Watermarks::recovered(at(0), at(10), None);
        marks.staged(at(25));
        assert_eq!(marks.high_watermark(), at(10));
        marks.durable(at(20), None);
        assert_eq!((marks.high_watermark(), marks.last_stable()), (at(20), at(20)));
        assert_eq!(marks.log_end(), at(25));
    }

    #[test]
    fn last_stable_offset_stops_at_the_first_open_transaction() {
        let mut marks = Watermarks::recovered(at(0), at(10), None);
        marks.staged(at(30));
        marks.durable(at(30), Some(at(12)));
        assert_eq!(marks.last_stable(), at(12));
        marks.durable(at(30), None);
        assert_eq!(marks.last_stable(), at(30));
    }

    #[test]
    fn refused_records_give_their_offsets_back() {
        let mut marks = Watermarks::recovered(at(0), at(10), None);
        marks.staged(at(25));
        marks.refused(at(10));
        marks.staged(at(11));
        assert_eq!(marks.log_end(), at(11));
    }

    #[test]
    #[should_panic(expected = "out of order")]
    fn durable_end_never_passes_the_log_end() {
        Watermarks::recovered(at(0), at(10), None).durable(at(11), None);
    }

    #[test]
    #[should_panic(expected = "out of order")]
    fn refusing_durable_records_is_a_broken_promise() {
        Watermarks::recovered(at(0), at(10), None).refused(at(9));
    }

    #[test]
    #[should_panic(expected = "goes back")]
    fn high_watermark_never_goes_back() {
        let mut marks = Watermarks::recovered(at(0), at(10), None);
        marks.staged(at(20));
        marks.durable(at(20), None);
        marks.durable(at(15), None);
    }

    #[test]
    #[should_panic(expected = "out of order")]
    fn log_start_never_passes_the_high_watermark() {
        Watermarks::recovered(at(0), at(10), None).delete_before(at(11));
    }

    #[test]
    fn deleted_records_of_an_open_transaction_keep_no_reader_waiting() {
        let mut marks = Watermarks::recovered(at(0), at(10), None);
        marks.staged(at(30));
        marks.durable(at(30), Some(at(12)));
        marks.delete_before(at(20));
        assert_eq!((marks.log_start(), marks.last_stable()), (at(20), at(20)));
        marks.staged(at(31));
        marks.durable(at(31), Some(at(12)));
        assert_eq!(marks.last_stable(), at(20));
    }

    proptest! {
        /// A random walk against the plainest model: five numbers and their order.
        #[test]
        fn walk_keeps_the_order(steps in proptest::collection::vec((0u8..4, 0i64..9), 0..200)) {
            let mut marks = Watermarks::recovered(at(0), at(0), None);
            let (mut start, mut durable, mut end) = (0, 0, 0);
            for (step, by) in steps {
                match step {
                    0 => { end += by; marks.staged(at(end)); }
                    1 => { durable = (durable + by).min(end); marks.durable(at(durable), None); }
                    2 => { end = durable.max(end - by); marks.refused(at(end)); }
                    _ => { start = (start + by).min(durable); marks.delete_before(at(start)); }
                }
                let got = marks.get();
                prop_assert_eq!(got.log_start, at(start));
                prop_assert_eq!(got.high_watermark, at(durable));
                prop_assert_eq!(got.last_stable, at(durable));
                prop_assert_eq!(got.log_end, at(end));
            }
        }
    }
}
