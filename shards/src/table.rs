//! The partitions of one shard, each in a slot.

use millstream_io::units::{IdMap, TopicId, TopicPartition};

/// Where a partition lives in its shard's table. A slot is used again after its partition went
/// away, and the generation tells the old holder from the new, so a slot kept across an await
/// finds its own partition or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot {
    index: u32,
    generation: u32,
}

/// Partitions by slot and by id. Lives on the owner's core.
#[derive(Debug)]
pub struct Table<P> {
    places: Vec<Place<P>>,
    free: Vec<u32>,
    by_id: IdMap<TopicPartition, Slot>,
}

#[derive(Debug)]
struct Place<P> {
    generation: u32,
    held: Option<(TopicPartition, P)>,
}

impl<P> Default for Table<P> {
    fn default() -> Table<P> {
        Table { places: Vec::new(), free: Vec::new(), by_id: IdMap::default() }
    }
}

impl<P> Table<P> {
    /// Partitions held.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Takes a partition in.
    ///
    /// # Panics
    /// When one of that id is held already.
    pub fn insert(&mut self, at: TopicPartition, partition: P) -> Slot {
        let slot = match self.free.pop() {
            Some(index) => Slot { index, generation: self.place(index).generation },
            None => {
                let Ok(index) = u32::try_from(self.places.len()) else {
                    panic!("a shard holds {} partitions", self.places.len());
                };
                self.places.push(Place { generation: 0, held: None });
                Slot { index, generation: 0 }
            }
        };
        let before = self.by_id.insert(at, slot);
        assert!(before.is_none(), "partition {at} is opened twice, in {before:?} and {slot:?}");
        self.place_mut(slot.index).held = Some((at, partition));
        slot
    }

    /// Gives a partition away; its slot finds nothing from now on.
    pub fn remove(&mut self, slot: Slot) -> Option<P> {
        let place = self.places.get_mut(slot.index as usize)?;
        if place.generation != slot.generation {
            return None;
        }
        let (at, partition) = place.held.take()?;
        // A slot whose generations are used up is not used again.
        if let Some(next) = place.generation.checked_add(1) {
            place.generation = next;
            self.free.push(slot.index);
        }
        self.by_id.remove(&at);
        Some(partition)
    }

    pub fn slot_of(&self, at: TopicPartition) -> Option<Slot> {
        self.by_id.get(&at).copied()
    }

    pub fn get(&self, slot: Slot) -> Option<&P> {
        let place = self.places.get(slot.index as usize)?;
        let (_, partition) = place.held.as_ref()?;
        (place.generation == slot.generation).then_some(partition)
    }

    pub fn get_mut(&mut self, slot: Slot) -> Option<&mut P> {
        let place = self.places.get_mut(slot.index as usize)?;
        let (_, partition) = place.held.as_mut()?;
        (place.generation == slot.generation).then_some(partition)
    }

    /// Looks a partition up by its id.
    pub fn find_mut(&mut self, at: TopicPartition) -> Option<(Slot, &mut P)> {
        let slot = self.slot_of(at)?;
        self.get_mut(slot).map(|partition| (slot, partition))
    }

    /// The slots of a topic's partitions. Walks over all: for deletion and settings, not for
    /// requests.
    pub fn slots_of(&self, topic: TopicId) -> Vec<Slot> {
        let of_topic = self.by_id.iter().filter(|(at, _)| at.topic == topic);
        let mut slots: Vec<Slot> = of_topic.map(|(_, slot)| *slot).collect();
        slots.sort_unstable();
        slots
    }

    /// All partitions, in slot order.
    pub fn iter(&self) -> impl Iterator<Item = (Slot, &P)> {
        (0u32..).zip(&self.places).filter_map(|(index, place)| {
            let (_, partition) = place.held.as_ref()?;
            Some((Slot { index, generation: place.generation }, partition))
        })
    }

    /// Partitions from a place on, in slot order, each with its place.
    pub fn iter_from(&self, place: u32) -> impl Iterator<Item = (u32, &P)> {
        let places = self.places.get(place as usize..).unwrap_or_default();
        (place..).zip(places).filter_map(|(index, place)| {
            let (_, partition) = place.held.as_ref()?;
            Some((index, partition))
        })
    }

    /// Partitions from a place on, in slot order, each with its place and slot.
    pub fn slots_from(&self, place: u32) -> impl Iterator<Item = (u32, Slot, &P)> {
        let places = self.places.get(place as usize..).unwrap_or_default();
        (place..).zip(places).filter_map(|(index, place)| {
            let (_, partition) = place.held.as_ref()?;
            Some((index, Slot { index, generation: place.generation }, partition))
        })
    }

    /// All partitions, in slot order.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Slot, &mut P)> {
        (0u32..).zip(&mut self.places).filter_map(|(index, place)| {
            let (_, partition) = place.held.as_mut()?;
            Some((Slot { index, generation: place.generation }, partition))
        })
    }

    fn place(&self, index: u32) -> &Place<P> {
        &self.places[index as usize]
    }

    fn place_mut(&mut self, index: u32) -> &mut Place<P> {
        &mut self.places[index as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_io::units::PartitionIndex;

    fn at(topic: u8, partition: i32) -> TopicPartition {
        let topic = TopicId::from_bytes([topic; 16]);
        TopicPartition { topic, partition: PartitionIndex::at(partition) }
    }

    #[test]
    fn slot_of_a_dropped_partition_never_finds_its_successor() {
        let mut table = Table::default();
        let old = table.insert(at(1, 0), "old");
        assert_eq!(table.remove(old), Some("old"));
        let new = table.insert(at(1, 0), "new");
        assert_eq!(old.index, new.index);
        assert_eq!((table.get(old), table.get(new)), (None, Some(&"new")));
        assert_eq!(table.remove(old), None);
        assert_eq!(table.slot_of(at(1, 0)), Some(new));
        assert_eq!(table.len(), 1);
    }

    #[test]
    fn partitions_of_one_topic_are_found_together() {
        let mut table = Table::default();
        let slots = [at(1, 0), at(2, 0), at(1, 1)].map(|id| table.insert(id, id));
        assert_eq!(table.slots_of(at(1, 0).topic), [slots[0], slots[2]]);
        assert_eq!(table.iter().count(), 3);
        let from = |place| table.iter_from(place).map(|(place, _)| place).collect::<Vec<_>>();
        assert_eq!((from(0), from(1), from(3)), (vec![0, 1, 2], vec![1, 2], vec![]));
        assert_eq!(table.find_mut(at(2, 0)).map(|(slot, _)| slot), Some(slots[1]));
    }

    #[test]
    #[should_panic(expected = "opened twice")]
    fn one_id_is_never_in_two_slots() {
        let mut table = Table::default();
        table.insert(at(1, 0), ());
        table.insert(at(1, 0), ());
    }
}
