//! The first record of a time within one batch.

use millstream_io::batch::{Codec, RecordBatchHeader, TimestampType, at};
use millstream_io::units::{Offset, TimestampMs};

/// A record's offset and timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedRecord {
    pub offset: Offset,
    pub time: TimestampMs,
}

/// The records of a batch are not what its header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadRecords;

/// The first record of `batch` at offset `from` or behind whose timestamp is `time` or later.
///
/// `batch` is one whole stored batch whose CRC holds. For the records of a compressed batch the
/// batch's first offset stands in: a reader that starts there misses none of them.
///
/// # Errors
/// [`BadRecords`]: the producer sent records that do not parse.
pub fn first_at(
    batch: &[u8],
    time: TimestampMs,
    from: Offset,
) -> Result<Option<TimedRecord>, BadRecords> {
    let header = RecordBatchHeader::view(batch).ok_or(BadRecords)?;
    let base = header.base_offset().ok_or(BadRecords)?;
    let next = header.next_offset().ok_or(BadRecords)?;
    let attributes = header.attributes();
    let first = base.max(from);
    let stamped = attributes.timestamp_type() == TimestampType::LogAppendTime;
    if stamped || attributes.codec() != Some(Codec::None) {
        let late = header.max_timestamp() >= time && first < next;
        return Ok(late.then_some(TimedRecord { offset: first, time: header.max_timestamp() }));
    }
    let mut records = Reader { rest: &batch[at::RECORDS..] };
    for _ in 0..header.record_count() {
        let (time_delta, offset_delta) = records.next_record()?;
        let offset = base.checked_add(offset_delta).filter(|offset| *offset < next);
        let offset = offset.ok_or(BadRecords)?;
        let at = TimestampMs::new(header.base_timestamp().get().wrapping_add(time_delta));
        if at >= time && offset >= from {
            return Ok(Some(TimedRecord { offset, time: at }));
        }
    }
    Ok(None)
}

/// Reads the uncompressed records of a batch, as far as their timestamps and offsets.
struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    /// Timestamp delta and offset delta of the next record.
    fn next_record(&mut self) -> Result<(i64, u64), BadRecords> {
        let length = usize::try_from(self.varlong()?).map_err(|_| BadRecords)?;
        let body = self.rest.get(..length).ok_or(BadRecords)?;
        let behind = &self.rest[length..];
        let mut record = Reader { rest: body.get(1..).ok_or(BadRecords)? };
        let time_delta = record.varlong()?;
        let offset_delta = u64::try_from(record.varlong()?).map_err(|_| BadRecords)?;
        self.rest = behind;
        Ok((time_delta, offset_delta))
    }

    /// A zigzag varint of at most ten bytes.
    fn varlong(&mut self) -> Result<i64, BadRecords> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.rest.split_first().ok_or(BadRecords)?;
            self.rest = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok((value >> 1).cast_signed() ^ -((value & 1).cast_signed()));
            }
        }
        Err(BadRecords)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_io::batch::stamp;
    use millstream_io::batch::testing::{BatchBuilder, TestRecord};
    use millstream_io::units::LeaderEpoch;
    use proptest::prelude::*;

    fn batch(deltas: &[i64]) -> Vec<u8> {
        let record = |delta: &i64| TestRecord { timestamp_delta: *delta, ..Default::default() };
        let records = deltas.iter().map(record).collect();
        BatchBuilder { base_timestamp: 1000, records, ..Default::default() }
            .at_offset(50, 0)
            .build()
            .to_vec()
    }

    fn find(bytes: &[u8], time: i64, from: i64) -> Option<(i64, i64)> {
        let found = first_at(bytes, TimestampMs::new(time), Offset::at(from)).expect("good");
        found.map(|record| (record.offset.get(), record.time.get()))
    }

    /// Trap 17: the first record with a timestamp at or behind the one asked for.
    #[test]
    fn first_record_of_a_time_is_found_within_its_batch() {
        let bytes = batch(&[0, 5, 3, 9, 7]);
        assert_eq!(find(&bytes, 0, 0), Some((50, 1000)));
        assert_eq!(find(&bytes, 1001, 0), Some((51, 1005)));
        assert_eq!(find(&bytes, 1006, 0), Some((53, 1009)));
        assert_eq!(find(&bytes, 1006, 54), Some((54, 1007)));
        assert_eq!(find(&bytes, 1010, 0), None);
    }

    #[test]
    fn broker_stamp_stands_for_every_record() {
        let mut bytes = batch(&[0, 5]);
        stamp::place(&mut bytes, Offset::at(50), LeaderEpoch::at(0));
        stamp::log_append_time(&mut bytes, TimestampMs::new(7000));
        assert_eq!(find(&bytes, 6999, 51), Some((51, 7000)));
        assert_eq!(find(&bytes, 7001, 0), None);
    }

    proptest! {
        #[test]
        fn no_records_make_the_search_panic(payload: Vec<u8>, count in 0i32..50) {
            let builder = BatchBuilder {
                payload: Some(payload),
                record_count: Some(count),
                last_offset_delta: Some(49),
                ..Default::default()
            };
            let _ = first_at(&builder.build(), TimestampMs::new(i64::MAX), Offset::ZERO);
        }
    }
}
