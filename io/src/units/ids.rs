//! Identifiers of what a broker owns: nodes, shards, partitions, epochs, segments, journal files.

use std::fmt;
use std::str::FromStr;

use super::{Offset, TopicId};

/// Number of a partition in its topic: 0, 1, 2, ...
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PartitionIndex(i32);

impl PartitionIndex {
    /// `None` when negative.
    #[inline]
    pub const fn new(value: i32) -> Option<PartitionIndex> {
        if value < 0 { None } else { Some(PartitionIndex(value)) }
    }

    /// A partition index of our own making.
    ///
    /// # Panics
    /// When `value` is negative.
    #[inline]
    #[track_caller]
    pub const fn at(value: i32) -> PartitionIndex {
        assert!(value >= 0, "a partition index is never negative");
        PartitionIndex(value)
    }

    #[inline]
    pub const fn get(self) -> i32 {
        self.0
    }

    /// The index as a place in a table of partitions.
    #[inline]
    pub const fn to_usize(self) -> usize {
        self.0.unsigned_abs() as usize
    }
}

impl fmt::Display for PartitionIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for PartitionIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}", self.0)
    }
}

/// One partition of one topic, by the topic's id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    pub topic: TopicId,
    pub partition: PartitionIndex,
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

impl fmt::Debug for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Which leader of a partition wrote a batch: rises with each new leader, never goes back (KIP-101).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct LeaderEpoch(i32);

impl LeaderEpoch {
    /// The epoch of a partition's first leader.
    pub const ZERO: LeaderEpoch = LeaderEpoch(0);

    /// `None` when negative (the wire's -1 means "not known", and is no epoch).
    #[inline]
    pub const fn new(value: i32) -> Option<LeaderEpoch> {
        if value < 0 { None } else { Some(LeaderEpoch(value)) }
    }

    /// An epoch of our own making.
    ///
    /// # Panics
    /// When `value` is negative.
    #[inline]
    #[track_caller]
    pub const fn at(value: i32) -> LeaderEpoch {
        assert!(value >= 0, "a leader epoch is never negative");
        LeaderEpoch(value)
    }

    #[inline]
    pub const fn get(self) -> i32 {
        self.0
    }

    /// The next leader's epoch.
    ///
    /// # Panics
    /// After 2^31 - 1 changes of leader.
    #[inline]
    #[track_caller]
    pub const fn next(self) -> LeaderEpoch {
        match self.0.checked_add(1) {
            Some(value) => LeaderEpoch(value),
            None => panic!("leader epoch overflow"),
        }
    }
}

impl fmt::Display for LeaderEpoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for LeaderEpoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "e{}", self.0)
    }
}

/// Number of a broker in its cluster (`node.id`), never negative.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(i32);

impl NodeId {
    /// `None` when negative.
    #[inline]
    pub const fn new(value: i32) -> Option<NodeId> {
        if value < 0 { None } else { Some(NodeId(value)) }
    }

    #[inline]
    pub const fn get(self) -> i32 {
        self.0
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Number of a shard (one pinned core) in this process: 0, 1, 2, ...
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ShardId(u16);

impl ShardId {
    #[inline]
    pub const fn new(value: u16) -> ShardId {
        ShardId(value)
    }

    #[inline]
    pub const fn get(self) -> u16 {
        self.0
    }

    /// The id as a place in a table of shards.
    #[inline]
    pub const fn to_usize(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for ShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Number of a journal file over the life of one shard's journal; never used twice.
///
/// A file that is recycled gets the next number, which is how its old content is told from its new.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct JournalSeq(u64);

impl JournalSeq {
    pub const ZERO: JournalSeq = JournalSeq(0);

    #[inline]
    pub const fn new(value: u64) -> JournalSeq {
        JournalSeq(value)
    }

    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The number behind this one.
    ///
    /// # Panics
    /// After 2^64 - 1 files.
    #[inline]
    #[track_caller]
    pub const fn next(self) -> JournalSeq {
        match self.0.checked_add(1) {
            Some(value) => JournalSeq(value),
            None => panic!("journal sequence overflow"),
        }
    }
}

impl fmt::Display for JournalSeq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Number of a commit round over the life of one shard's journal; rises by one a frame.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct RoundNumber(u64);

impl RoundNumber {
    pub const ZERO: RoundNumber = RoundNumber(0);

    #[inline]
    pub const fn new(value: u64) -> RoundNumber {
        RoundNumber(value)
    }

    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The number behind this one.
    ///
    /// # Panics
    /// After 2^64 - 1 rounds.
    #[inline]
    #[track_caller]
    pub const fn next(self) -> RoundNumber {
        match self.0.checked_add(1) {
            Some(value) => RoundNumber(value),
            None => panic!("round number overflow"),
        }
    }
}

impl fmt::Display for RoundNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Name of one segment: the epoch of the leader that opened it and the offset of its first record.
///
/// Ordered by base offset first, since a later segment has a higher base and never a lower epoch.
/// Printed as the stem of its file names, `<epoch:08x>-<base:020>`; that of a cleaned segment goes
/// on with `-<next:020>-<generation:08x>`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SegmentId {
    pub epoch: LeaderEpoch,
    pub base: Offset,
    /// Compaction wrote it, in place of one or more segments of the same epoch.
    pub cleaned: Option<Cleaned>,
}

/// What the name of a segment says that compaction wrote. It never grows, and records may be missing
/// in it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Cleaned {
    /// Higher than that of every segment it stands for; the first is 1.
    pub generation: u32,
    /// Offset behind the last record of the segments it stands for.
    pub next: Offset,
}

impl SegmentId {
    /// A segment as its leader wrote it.
    pub const fn new(epoch: LeaderEpoch, base: Offset) -> SegmentId {
        SegmentId { epoch, base, cleaned: None }
    }

    /// How often compaction has written the records of this segment anew.
    pub fn generation(self) -> u32 {
        self.cleaned.map_or(0, |cleaned| cleaned.generation)
    }

    /// True when this segment holds whatever is left of the records of `other`, which may go.
    pub fn replaces(self, other: SegmentId) -> bool {
        self.cleaned.is_some_and(|cleaned| {
            cleaned.generation > other.generation()
                && self.epoch >= other.epoch
                && (self.base..cleaned.next).contains(&other.base)
        })
    }
}

impl Ord for SegmentId {
    fn cmp(&self, other: &SegmentId) -> std::cmp::Ordering {
        let key = |id: &SegmentId| (id.base, id.epoch, id.cleaned);
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for SegmentId {
    fn partial_cmp(&self, other: &SegmentId) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for SegmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}-{:020}", self.epoch.get(), self.base.get())?;
        match self.cleaned {
            Some(Cleaned { next, generation }) => {
                write!(f, "-{:020}-{generation:08x}", next.get())
            }
            None => Ok(()),
        }
    }
}

impl fmt::Debug for SegmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The stem is not exactly `<epoch:08x>-<base:020>`, or that and `-<next:020>-<generation:08x>`, in
/// lower-case hex and decimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ParseSegmentIdError;

impl fmt::Display for ParseSegmentIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a segment name of the form <epoch:08x>-<base offset:020>")
    }
}

impl std::error::Error for ParseSegmentIdError {}

impl FromStr for SegmentId {
    type Err = ParseSegmentIdError;

    /// Reads exactly what `Display` prints; a name that would print differently is refused.
    fn from_str(stem: &str) -> Result<SegmentId, ParseSegmentIdError> {
        let mut parts = stem.split('-');
        let (epoch, base) = (hex(parts.next())?, offset(parts.next())?);
        let epoch = i32::try_from(epoch).ok().and_then(LeaderEpoch::new);
        let epoch = epoch.ok_or(ParseSegmentIdError)?;
        let cleaned = match parts.next() {
            None => None,
            next => Some(Cleaned { next: offset(next)?, generation: hex(parts.next())? }),
        };
        let possible = cleaned.is_none_or(|c| c.generation > 0 && c.next > base);
        if parts.next().is_some() || !possible {
            return Err(ParseSegmentIdError);
        }
        Ok(SegmentId { epoch, base, cleaned })
    }
}

fn hex(part: Option<&str>) -> Result<u32, ParseSegmentIdError> {
    let is_hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    let part = part.filter(|part| part.len() == 8 && part.bytes().all(is_hex));
    let part = part.ok_or(ParseSegmentIdError)?;
    u32::from_str_radix(part, 16).map_err(|_| ParseSegmentIdError)
}

fn offset(part: Option<&str>) -> Result<Offset, ParseSegmentIdError> {
    let part = part.filter(|part| part.len() == 20 && part.bytes().all(|b| b.is_ascii_digit()));
    let offset = part.ok_or(ParseSegmentIdError)?.parse::<i64>().ok().and_then(Offset::new);
    offset.ok_or(ParseSegmentIdError)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segment_name_round_trips_and_refuses_lookalikes() {
        let id = SegmentId::new(LeaderEpoch::at(0x2a), Offset::at(1234));
        assert_eq!(id.to_string(), "0000002a-00000000000000001234");
        assert_eq!(id.to_string().parse(), Ok(id));
        for wrong in [
            "",
            "0000002A-00000000000000001234",
            "2a-00000000000000001234",
            "0000002a-0000000000000001234",
            "0000002a-99999999999999999999",
            "ffffffff-00000000000000001234",
            "+000002a-00000000000000001234",
            "0000002a-+0000000000000001234",
            "0000002a00000000000000001234",
            "0000002a-00000000000000001234-",
            "0000002a-00000000000000001234-00000000000000001235",
            "0000002a-00000000000000001234-00000000000000001235-00000000",
            "0000002a-00000000000000001234-00000000000000001234-00000001",
            "0000002a-00000000000000001234-00000000000000001235-00000001-",
        ] {
            assert_eq!(wrong.parse::<SegmentId>(), Err(ParseSegmentIdError), "{wrong}");
        }
    }

    #[test]
    fn cleaned_segment_names_what_it_replaces() {
        let written = |base| SegmentId::new(LeaderEpoch::at(2), Offset::at(base));
        let cleaned = |base, next, generation| SegmentId {
            cleaned: Some(Cleaned { next: Offset::at(next), generation }),
            ..written(base)
        };
        let id = cleaned(10, 30, 0x1b);
        assert_eq!(id.to_string(), "00000002-00000000000000000010-00000000000000000030-0000001b");
        assert_eq!(id.to_string().parse(), Ok(id));
        for gone in [written(10), written(29), cleaned(10, 20, 1), cleaned(10, 30, 0x1a)] {
            assert!(id.replaces(gone) && id > written(10), "{gone}");
        }
        let newer_epoch = SegmentId { epoch: LeaderEpoch::at(3), ..written(20) };
        for stays in [written(9), written(30), cleaned(10, 40, 0x1c), id, newer_epoch] {
            assert!(!id.replaces(stays), "{stays}");
        }
        assert!(!written(10).replaces(written(10)));
    }

    #[test]
    fn segments_order_by_base_before_epoch() {
        let id = |epoch, base| SegmentId::new(LeaderEpoch::at(epoch), Offset::at(base));
        assert!(id(9, 10) < id(1, 11));
        assert!(id(1, 10) < id(9, 10));
    }

    #[test]
    fn negative_ids_are_refused() {
        assert_eq!(PartitionIndex::new(-1), None);
        assert_eq!(LeaderEpoch::new(-1), None);
        assert_eq!(NodeId::new(-1), None);
    }
}
