//! Which partition of `__consumer_offsets` a group belongs to. As in Apache Kafka, so that tools
//! that look for a group's records find them.

use std::num::NonZeroU32;

/// The internal topic of groups.
pub const OFFSETS_TOPIC: &str = "__consumer_offsets";

/// The partition of `group` among `partitions`.
pub fn partition_of(group: &str, partitions: NonZeroU32) -> i32 {
    // The hash of a string in Java: over its UTF-16 units. Its sign bit is dropped.
    let hash = group
        .encode_utf16()
        .fold(0u32, |hash, unit| hash.wrapping_mul(31).wrapping_add(u32::from(unit)));
    let partition = (hash & (u32::MAX >> 1)) % partitions;
    i32::try_from(partition).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of `Utils.abs(groupId.hashCode()) % 50`.
    #[test]
    fn groups_lie_where_apache_kafka_puts_them() {
        let fifty = NonZeroU32::new(50).unwrap();
        let hash = |text: &str| partition_of(text, NonZeroU32::new(i32::MAX as u32).unwrap());
        assert_eq!(hash("hello"), 99_162_322);
        assert_eq!(hash(""), 0);
        assert_eq!(partition_of("hello", fifty), 22);
        // "polygenelubricants" hashes to the smallest int, of which only the sign bit is set.
        assert_eq!(partition_of("polygenelubricants", fifty), 0);
        // One character outside of the basic plane: two units.
        assert_eq!(hash("\u{1F600}"), 0xd83d * 31 + 0xde00);
    }
}
