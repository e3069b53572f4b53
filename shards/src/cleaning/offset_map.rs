//! From a key to the offset of its newest record, in memory of a fixed size.

use std::hash::{BuildHasher, RandomState};

use millstream_io::units::{Offset, bytes_u64, bytes_usize};

/// Keys by their 128-bit hash, under keys of the hash function that nobody outside knows: two keys
/// that fall together would cost one of them its records, so nobody must be able to make such a pair,
/// and by chance there is none.
///
/// Open addressing over one allocation; never grows. Off the cores, owned by one cleaning.
#[derive(Debug)]
pub struct OffsetMap {
    slots: Vec<Slot>,
    used: usize,
    used_max: usize,
    hashers: [RandomState; 2],
    /// Everything in front of this was seen.
    end: Offset,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    hash: [u64; 2],
    /// -1 in an empty one.
    offset: i64,
}

impl Slot {
    const EMPTY: Slot = Slot { hash: [0; 2], offset: -1 };

    fn is_empty(&self) -> bool {
        self.offset < 0
    }
}

/// Memory of one key.
pub const SLOT_BYTES: usize = size_of::<Slot>();

impl OffsetMap {
    /// A map within `bytes` of memory, and of no more than `keys` keys need; for at least one.
    pub fn new(bytes: u64, keys: u64) -> OffsetMap {
        let wanted = keys.saturating_add(1).saturating_mul(4).div_ceil(3);
        let possible = bytes / bytes_u64(SLOT_BYTES);
        let slots = bytes_usize(wanted.min(possible).max(4));
        OffsetMap {
            slots: vec![Slot::EMPTY; slots],
            used: 0,
            used_max: slots / 4 * 3,
            hashers: [RandomState::new(), RandomState::new()],
            end: Offset::ZERO,
        }
    }

    /// Keys it holds.
    pub fn len(&self) -> usize {
        self.used
    }

    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Notes that a record of `key` stands at `offset`, which is higher than any before. False when
    /// the key is new and there is no room for it; nothing is noted then.
    #[must_use]
    pub fn put(&mut self, key: &[u8], offset: Offset) -> bool {
        let hash = self.hash(key);
        let i = self.find(hash);
        if self.slots[i].is_empty() {
            if self.used >= self.used_max {
                return false;
            }
            self.used += 1;
        }
        self.slots[i] = Slot { hash, offset: offset.get() };
        true
    }

    /// Where the newest record of `key` stands, of those that were noted.
    pub fn get(&self, key: &[u8]) -> Option<Offset> {
        Offset::new(self.slots[self.find(self.hash(key))].offset)
    }

    /// Everything in front of `end` was noted: what the map says holds for records before it.
    pub fn seen_to(&mut self, end: Offset) {
        self.end = self.end.max(end);
    }

    /// Everything in front of this was noted.
    pub fn end(&self) -> Offset {
        self.end
    }

    fn hash(&self, key: &[u8]) -> [u64; 2] {
        [self.hashers[0].hash_one(key), self.hashers[1].hash_one(key)]
    }

    /// The slot of a key, or the empty one where it belongs. There is always an empty one.
    fn find(&self, hash: [u64; 2]) -> usize {
        let slots = bytes_u64(self.slots.len());
        let mut i = bytes_usize(hash[0] % slots);
        while !self.slots[i].is_empty() && self.slots[i].hash != hash {
            i = (i + 1) % self.slots.len();
        }
        i
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn map_says_what_a_larger_one_would_say() {
        let mut map = OffsetMap::new(1 << 20, 5000);
        let mut model = HashMap::new();
        for n in 0..20_000_i64 {
            let key = (n * 7919 % 4999).to_string();
            assert!(map.put(key.as_bytes(), Offset::at(n)));
            model.insert(key, Offset::at(n));
        }
        assert_eq!(map.len(), model.len());
        assert!(model.iter().all(|(key, offset)| map.get(key.as_bytes()) == Some(*offset)));
        assert_eq!(map.get(b"unknown"), None);
    }

    #[test]
    fn full_map_refuses_new_keys_and_takes_known_ones() {
        let mut map = OffsetMap::new(0, u64::MAX);
        let taken = (0..100_i64).filter(|n| map.put(&n.to_be_bytes(), Offset::at(*n))).count();
        assert_eq!(taken, 3, "four slots");
        assert!(map.put(&1_i64.to_be_bytes(), Offset::at(200)));
        assert_eq!(map.get(&1_i64.to_be_bytes()), Some(Offset::at(200)));
        assert_eq!(map.get(&99_i64.to_be_bytes()), None);
    }

    #[test]
    fn memory_is_bounded_by_the_smaller_of_room_and_keys() {
        assert!(OffsetMap::new(1 << 30, 100).slots.len() < 200);
        assert!(OffsetMap::new(24_000, 1 << 40).slots.len() * SLOT_BYTES <= 24_000 + SLOT_BYTES);
    }
}
