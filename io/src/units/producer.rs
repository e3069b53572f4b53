//! What an idempotent producer puts on a batch: id, epoch, sequence (KIP-98).

use std::fmt;

/// Id of an idempotent or transactional producer, given out by InitProducerId; never negative.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProducerId(i64);

impl ProducerId {
    /// `None` when negative (the wire's -1 means "no producer id").
    #[inline]
    pub const fn new(value: i64) -> Option<ProducerId> {
        if value < 0 { None } else { Some(ProducerId(value)) }
    }

    #[inline]
    pub const fn get(self) -> i64 {
        self.0
    }
}

impl fmt::Display for ProducerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for ProducerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pid{}", self.0)
    }
}

/// Incarnation of a producer id: rises by one when the id is taken over, which fences the old holder.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ProducerEpoch(i16);

impl ProducerEpoch {
    pub const ZERO: ProducerEpoch = ProducerEpoch(0);

    /// `None` when negative.
    #[inline]
    pub const fn new(value: i16) -> Option<ProducerEpoch> {
        if value < 0 { None } else { Some(ProducerEpoch(value)) }
    }

    #[inline]
    pub const fn get(self) -> i16 {
        self.0
    }

    /// The next incarnation; `None` when the id is used up and a new one is needed.
    #[inline]
    pub const fn next(self) -> Option<ProducerEpoch> {
        match self.0.checked_add(1) {
            Some(value) => Some(ProducerEpoch(value)),
            None => None,
        }
    }
}

impl fmt::Display for ProducerEpoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Number of a record within one producer's stream to one partition: 0 ..= 2^31 - 1, then 0 again.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sequence(i32);

impl Sequence {
    pub const ZERO: Sequence = Sequence(0);
    pub const MAX: Sequence = Sequence(i32::MAX);

    /// `None` when negative.
    #[inline]
    pub const fn new(value: i32) -> Option<Sequence> {
        if value < 0 { None } else { Some(Sequence(value)) }
    }

    #[inline]
    pub const fn get(self) -> i32 {
        self.0
    }

    /// The sequence `records` further on; 0 follows 2^31 - 1.
    #[inline]
    pub const fn add(self, records: u32) -> Sequence {
        const MASK: u64 = i32::MAX as u64;
        // The sum is masked to 31 bits, so it fits an i32 and is not negative.
        Sequence(((self.0 as u64 + records as u64) & MASK) as i32)
    }

    /// True when this one comes later in a stream of which both are parts, with wrap: the way from
    /// `other` to it is less than half of all sequences.
    #[inline]
    pub const fn is_behind(self, other: Sequence) -> bool {
        let ahead = self.0.wrapping_sub(other.0) & i32::MAX;
        ahead != 0 && ahead < 1 << 30
    }

    /// The sequence behind this one; 0 follows 2^31 - 1.
    #[inline]
    pub const fn next(self) -> Sequence {
        self.add(1)
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// Who wrote a batch, when it was an idempotent producer, and where in its stream the batch starts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ProducerStamp {
    pub id: ProducerId,
    pub epoch: ProducerEpoch,
    /// Sequence of the first record. `None` on a control batch, which takes no sequence.
    pub first: Option<Sequence>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_of_sequences_survives_the_wrap() {
        let at = |value| Sequence::new(value).unwrap();
        assert!(at(1).is_behind(at(0)) && !at(0).is_behind(at(1)) && !at(5).is_behind(at(5)));
        assert!(at(2).is_behind(at(i32::MAX)) && !at(i32::MAX).is_behind(at(2)));
    }

    #[test]
    fn sequence_zero_follows_the_largest() {
        assert_eq!(Sequence::MAX.next(), Sequence::ZERO);
        let late = Sequence(2_147_483_645);
        assert_eq!(late.add(5), Sequence(2));
        assert_eq!(Sequence(2_147_483_640).add(7), Sequence::MAX);
        assert_eq!(Sequence::ZERO.add(u32::MAX), Sequence::MAX);
    }

    #[test]
    fn producer_epoch_ends_at_its_largest() {
        assert_eq!(ProducerEpoch(i16::MAX).next(), None);
        assert_eq!(ProducerEpoch::ZERO.next(), ProducerEpoch::new(1));
        assert_eq!(ProducerEpoch::new(-1), None);
    }
}
