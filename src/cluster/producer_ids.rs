//! The producer ids that one core may hand out.

use super::limits::PRODUCER_ID_BLOCKS_KEPT_MAX;
use millstream_io::units::ProducerId;
use std::collections::VecDeque;
use std::ops::Range;

/// Ids of blocks that are durable in the store. Lives on one core; what it holds at a stop is
/// given up.
#[derive(Debug, Default)]
pub struct ProducerIds {
    blocks: VecDeque<Range<i64>>,
}

impl ProducerIds {
    /// The next id, if a block is there.
    pub fn take(&mut self) -> Option<ProducerId> {
        let block = self.blocks.front_mut()?;
        let id = block.next()?;
        if block.is_empty() {
            self.blocks.pop_front();
        }
        ProducerId::new(id)
    }

    /// Adds a block. Blocks beyond the bound are dropped: their ids are never used, which is
    /// allowed.
    pub fn add(&mut self, block: Range<i64>) {
        assert!(!block.is_empty() && block.start >= 0, "a block of producer ids is {block:?}");
        if self.blocks.len() < PRODUCER_ID_BLOCKS_KEPT_MAX {
            self.blocks.push_back(block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_is_given_once_and_only_from_blocks() {
        let mut ids = ProducerIds::default();
        assert_eq!(ids.take(), None);
        ids.add(0..2);
        ids.add(1000..1001);
        ids.add(2000..2001);
        let taken: Vec<_> = std::iter::from_fn(|| ids.take()).map(ProducerId::get).collect();
        assert_eq!(taken, [0, 1, 1000]);
    }
}
