//! How units stand in state files: numbers as numbers, topic ids as text.

use serde::de::{self, Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};

use super::{
    LeaderEpoch, NodeId, Offset, PartitionIndex, ProducerEpoch, ProducerId, TimestampMs, TopicId,
};

macro_rules! as_checked_number {
    ($($unit:ident: $number:ty),* $(,)?) => {$(
        impl Serialize for $unit {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                self.get().serialize(to)
            }
        }

        impl<'de> Deserialize<'de> for $unit {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<$unit, D::Error> {
                let number = <$number>::deserialize(from)?;
                $unit::new(number).ok_or_else(|| {
                    de::Error::custom(format_args!("{} is negative: {number}", stringify!($unit)))
                })
            }
        }
    )*};
}

as_checked_number! {
    Offset: i64,
    PartitionIndex: i32,
    LeaderEpoch: i32,
    NodeId: i32,
    ProducerId: i64,
    ProducerEpoch: i16,
}

impl Serialize for TimestampMs {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.get().serialize(to)
    }
}

impl<'de> Deserialize<'de> for TimestampMs {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<TimestampMs, D::Error> {
        i64::deserialize(from).map(TimestampMs::new)
    }
}

impl Serialize for TopicId {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TopicId {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<TopicId, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(de::Error::custom)
    }
}
