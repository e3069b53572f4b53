//! How long the partitions of a coordinator took to be loaded.

use std::time::Duration;

/// Loads that came to their end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loads {
    pub count: u64,
    pub time: Duration,
    pub longest: Duration,
}

impl Loads {
    pub fn add(&mut self, took: Duration) {
        self.count += 1;
        self.time += took;
        self.longest = self.longest.max(took);
    }
}
