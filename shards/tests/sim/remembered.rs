//! What a partition must remember of each producer, by brute force: from the batches of its log in
//! their order, and nothing else. And which of them must stand in a compacted log for ever: the last
//! one of each producer.

use std::collections::BTreeMap;

use millstream_io::batch::stored;
use millstream_shards::query::ActiveProducer;

use super::model::{Model, Verdict};
use super::transactions::Role;

/// The producers of a partition, by id.
#[derive(Debug)]
pub struct Remembered(BTreeMap<i64, Producer>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Producer {
    epoch: i16,
    /// Its last batch of data.
    last: Option<Data>,
    /// It has a marker.
    marked: bool,
    open: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Data {
    epoch: i16,
    sequence: i32,
    next_sequence: i32,
    /// The offset behind it.
    end: i64,
}

/// The last batch of data of each producer that stands in a log, by its id.
#[derive(Debug, Default)]
pub struct Standing(BTreeMap<i64, (i16, i32, i64)>);

impl Remembered {
    /// `None` when a batch in front of `end` is not known: it was deleted unseen.
    pub fn of(model: &Model, partition: usize, end: i64) -> Option<Remembered> {
        let (mut all, mut next) = (BTreeMap::new(), 0);
        for (base, batch) in model.placed_in(partition) {
            if base != next {
                return None;
            }
            next = base + i64::from(batch.records);
            if let Role::Marker { pid, epoch, .. } = batch.role {
                let before: Producer = all.get(&pid).copied().unwrap_or_default();
                all.insert(pid, Producer { epoch, marked: true, open: None, ..before });
                continue;
            }
            let builder = &batch.builder;
            if builder.producer_id < 0 {
                continue;
            }
            let one = all.entry(builder.producer_id).or_default();
            let (epoch, sequence) = (builder.producer_epoch, builder.base_sequence);
            let next_sequence = sequence + batch.records as i32;
            (one.epoch, one.last) =
                (epoch, Some(Data { epoch, sequence, next_sequence, end: next }));
            if matches!(batch.role, Role::Data { .. }) {
                one.open = one.open.or(Some(base));
            }
        }
        (next == end).then_some(Remembered(all))
    }

    /// Compares what a partition says with what is true.
    pub fn judge(&self, partition: usize, active: &[ActiveProducer]) -> Verdict {
        let told = |p: &ActiveProducer| {
            let last = p.last_sequence.map(|sequence| sequence.get());
            let open = p.transaction_start.map(|offset| offset.get());
            (p.id.get(), (p.epoch.get(), last, p.coordinator_epoch, open))
        };
        let told: BTreeMap<_, _> = active.iter().map(told).collect();
        let due = |(pid, p): (&i64, &Producer)| {
            let last = p.last.filter(|last| last.epoch == p.epoch);
            let last = last.map(|last| last.next_sequence - 1);
            (*pid, (p.epoch, last, p.marked.then_some(0), p.open))
        };
        let due: BTreeMap<_, _> = self.0.iter().map(due).collect();
        if told == due {
            return Ok(());
        }
        Err(format!("p{partition}: the producers are {due:?}, and it knows {told:?}"))
    }

    /// The last batch of data of each producer stands in a log that starts at `start`, if only empty.
    pub fn judge_standing(&self, partition: usize, start: i64, standing: &Standing) -> Verdict {
        for (pid, producer) in &self.0 {
            let Some(last) = producer.last.filter(|last| last.end > start) else { continue };
            let due = (last.epoch, last.sequence, last.end);
            let stands = standing.0.get(pid);
            if stands != Some(&due) {
                return Err(format!(
                    "p{partition}: the last batch of producer {pid} is {due:?}, and {stands:?} stands"
                ));
            }
        }
        Ok(())
    }
}

impl Standing {
    /// Takes the next batches of the log.
    pub fn add(&mut self, mut bytes: &[u8]) {
        while let Ok(header) = stored::whole(bytes) {
            if header.producer_id_raw() >= 0 && !header.attributes().is_control() {
                let end = header.next_offset().expect("whole").get();
                let what = (header.producer_epoch_raw(), header.base_sequence_raw(), end);
                self.0.insert(header.producer_id_raw(), what);
            }
            bytes = &bytes[header.total_bytes().expect("whole")..];
        }
    }
}
