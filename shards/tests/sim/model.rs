//! What the outside world knows of a log, and what it must therefore find there: the judge.
//!
//! Every batch carries a number of its own in its base timestamp. A batch is *open* from its
//! sending until an answer or a recovery tells where it is; it is *placed* once it was acknowledged
//! or seen by a reader, and then must stand at that offset for ever; it is *absent* when a recovery
//! did not find it, and then must never appear, unless it is sent again.
//!
//! Of a log start it knows the highest that was acknowledged or seen, below which nothing may be
//! served ever again, and the highest that anybody asked for, from which on everything must be there.
//! What stands between the two is deleted or is not: a crash may decide, and only once.
//!
//! A compacted log is judged record by record, in `compacted.rs`.

mod compacted;

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use millstream_io::batch::testing::BatchBuilder;
use millstream_io::batch::{EndMarker, RecordBatchHeader, stored};
use millstream_io::units::TimestampMs;

pub use compacted::{Compacted, Keys};

use super::transactions::{Claims, Client, Role};

/// Number of a batch.
pub type BatchId = u64;

/// Base timestamp of batch 0.
const TIME_ZERO: i64 = 1_700_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Open,
    Placed(i64),
    Absent,
}

#[derive(Clone, Debug)]
pub struct Batch {
    pub partition: usize,
    pub records: u32,
    /// Makes its bytes, if it is no marker.
    pub builder: BatchBuilder,
    pub role: Role,
    /// Its place among all, which it carries in its time.
    number: BatchId,
    /// The time when it was made.
    made_at: i64,
    bytes: usize,
    crc: u32,
    pub state: State,
    /// It was acknowledged, not only seen.
    pub acked: bool,
}

/// All batches ever sent, and where they stand.
#[derive(Debug, Default)]
pub struct Model {
    pub batches: Vec<Batch>,
    /// For each partition: base offset to batch, of those that are placed.
    placed: HashMap<usize, BTreeMap<i64, BatchId>>,
    starts: HashMap<usize, LogStart>,
    /// What is known of compacted records, if they are compacted.
    pub compaction: Option<Compacted>,
    /// How far the time has gone on besides, in which passes think they run.
    pub skipped_ms: u64,
    /// A full disk made a shard give up what it had saved of producers: after a crash the retry of a
    /// deleted batch may be stored once more.
    pub producers_forgotten: bool,
    pub clients: Vec<Client>,
    pub claims: Claims,
}

/// What was sure when a read began.
#[derive(Clone, Copy, Debug)]
pub struct Sure {
    pub log_start: i64,
    /// Reads of compacted partitions that had ended.
    reads: u64,
}

/// What is known of a partition's log start.
#[derive(Clone, Copy, Debug, Default)]
struct LogStart {
    /// Acknowledged, or seen by somebody.
    sure: i64,
    /// Asked for, with or without an answer.
    asked: i64,
}

/// A broken promise, in words.
pub type Verdict = Result<(), String>;

impl Model {
    /// Makes a new batch; the caller sends it.
    pub fn new_batch(
        &mut self,
        partition: usize,
        records: usize,
        value_bytes: usize,
        producer: Option<(i64, i32)>,
    ) -> BatchId {
        let id = self.batches.len() as BatchId;
        let mut builder = self.new_builder(id, records, value_bytes);
        if let Some((pid, sequence)) = producer {
            builder = builder.from_producer(pid, 0, sequence);
        }
        self.add(partition, builder, Role::Plain)
    }

    /// Makes a new batch of a transaction; the caller sends it.
    pub fn new_transactional(
        &mut self,
        (client, records, value_bytes): (usize, usize, usize),
    ) -> BatchId {
        let id = self.batches.len() as BatchId;
        let Client { pid, partition, epoch, sequence, .. } = self.clients[client];
        let builder = self.new_builder(id, records, value_bytes);
        let builder =
            BatchBuilder { attributes: 0x10, ..builder.from_producer(pid, epoch, sequence) };
        self.add(partition, builder, Role::Data { pid })
    }

    fn new_builder(&self, id: BatchId, records: usize, value_bytes: usize) -> BatchBuilder {
        let mut builder = BatchBuilder::of_values(vec![vec![id as u8; value_bytes]; records]);
        if let Some(compacted) = &self.compaction {
            builder.records = compacted.keys.records(id, records as u64, value_bytes);
        }
        builder.base_timestamp = TIME_ZERO + id as i64;
        builder
    }

    /// A marker is to be sent; with the time it must carry.
    pub fn new_marker(&mut self, partition: usize, marker: &EndMarker) -> (BatchId, TimestampMs) {
        let now = TimestampMs::new(TIME_ZERO + self.batches.len() as i64);
        let built = marker.compose(now).into_bytes();
        let (pid, epoch) = (marker.producer.get(), marker.epoch.get());
        let role = Role::Marker { pid, epoch, outcome: marker.outcome };
        let builder = BatchBuilder::of_values([""]);
        let id = self.add(partition, builder, role);
        let batch = &mut self.batches[id as usize];
        batch.crc = RecordBatchHeader::view(&built).expect("a batch").crc();
        batch.bytes = built.len();
        (id, now)
    }

    fn add(&mut self, partition: usize, builder: BatchBuilder, role: Role) -> BatchId {
        let id = self.batches.len() as BatchId;
        let built = builder.build();
        let crc = RecordBatchHeader::view(&built).expect("a batch").crc();
        self.batches.push(Batch {
            partition,
            records: builder.records.len() as u32,
            builder,
            role,
            number: id,
            made_at: self.now().get(),
            bytes: built.len(),
            crc,
            state: State::Open,
            acked: false,
        });
        id
    }

    /// The time in which passes think they run: it goes on with every batch, and never back.
    pub fn now(&self) -> TimestampMs {
        TimestampMs::new(TIME_ZERO + (self.batches.len() as u64 + self.skipped_ms) as i64)
    }

    /// The batches whose place is known, in log order, with their base offsets.
    pub fn placed_in(&self, partition: usize) -> impl Iterator<Item = (i64, &Batch)> {
        let placed = self.placed.get(&partition).into_iter().flatten();
        placed.map(|(offset, id)| (*offset, &self.batches[*id as usize]))
    }

    /// The batch is sent, perhaps once more.
    pub fn send(&mut self, id: BatchId) -> Bytes {
        let batch = &mut self.batches[id as usize];
        if batch.state == State::Absent {
            batch.state = State::Open;
        }
        batch.builder.build()
    }

    pub fn acked(&mut self, id: BatchId, offset: i64) -> Verdict {
        self.place(id, offset, "acknowledged")?;
        self.batches[id as usize].acked = true;
        Ok(())
    }

    /// Reads what a reader got from `offset` on: whole, sound, known batches at their offsets,
    /// without a gap. Gives the offset behind them.
    pub fn saw(
        &mut self,
        partition: usize,
        offset: i64,
        mut bytes: &[u8],
        sure: Sure,
    ) -> Result<i64, String> {
        if self.compaction.is_some() {
            return self.saw_records(partition, offset, bytes, sure);
        }
        let mut next = offset;
        let mut first = true;
        while !bytes.is_empty() {
            let header = stored::whole(bytes).map_err(|e| format!("p{partition} @{next}: {e}"))?;
            let (base, end) =
                (header.base_offset_raw(), header.next_offset().expect("whole").get());
            let fits = if first { base <= offset && offset < end } else { base == next };
            if !fits {
                return Err(format!("p{partition}: batch @{base}..{end} where @{next} was due"));
            }
            let id = header.base_timestamp().get() - TIME_ZERO;
            let len = header.total_bytes().expect("whole");
            self.check_content(partition, id, header, len)?;
            self.place(id as BatchId, base, "seen")?;
            (next, first) = (end, false);
            bytes = &bytes[len..];
        }
        Ok(next)
    }

    /// Batches that were made so far, and one.
    pub fn batch_count(&self) -> u64 {
        self.batches.len() as u64 + 1
    }

    /// Somebody asks for the records below `offset` to be deleted.
    pub fn asks_deletion(&mut self, partition: usize, offset: i64) {
        let start = self.starts.entry(partition).or_default();
        start.asked = start.asked.max(offset);
    }

    /// Nothing below this offset is served any more.
    pub fn log_start(&self, partition: usize) -> i64 {
        self.starts.get(&partition).map_or(0, |start| start.sure)
    }

    /// Somebody was told of a log start, who asked when `before` was sure.
    pub fn saw_log_start(&mut self, partition: usize, offset: i64, before: i64) -> Verdict {
        let start = self.starts.entry(partition).or_default();
        if offset < before {
            return Err(format!(
                "p{partition}: the log start goes back from @{before} to @{offset}"
            ));
        }
        if offset > start.asked {
            return Err(format!(
                "p{partition}: the log starts at @{offset}, and nobody asked for more than @{}",
                start.asked
            ));
        }
        start.sure = start.sure.max(offset);
        Ok(())
    }

    /// A recovery has decided: what was asked for and not done is not done later.
    pub fn settle_log_start(&mut self, partition: usize) {
        let start = self.starts.entry(partition).or_default();
        start.asked = start.sure;
    }

    /// A recovery is over, and everything of `partition` was read from its log start to `end`:
    /// whatever is not placed now is absent, unless it was deleted unseen, and whatever is placed
    /// stands in between.
    pub fn recovered(&mut self, partition: usize, end: i64) -> Verdict {
        let start = self.log_start(partition);
        let placed = self.placed.entry(partition).or_default();
        let (mut due, mut unseen) = (0, 0);
        for (offset, id) in placed.iter() {
            let behind = offset + i64::from(self.batches[*id as usize].records);
            let hole = offset - due;
            if hole > 0 && *offset > start && self.compaction.is_none() {
                let at = due.max(start);
                return Err(format!("p{partition}: a hole at @{at}, the next batch is @{offset}"));
            }
            unseen += hole;
            due = behind;
        }
        if due < start {
            unseen += start - due;
            due = start;
        }
        if due != end {
            let (offset, id) = placed.last_key_value().map(|(o, id)| (*o, *id)).unwrap_or_default();
            return Err(format!(
                "p{partition}: the log ends at @{end}, and batch {id} stands at @{offset}..{due}"
            ));
        }
        for batch in self.batches.iter_mut().filter(|b| b.partition == partition) {
            if batch.state == State::Open && i64::from(batch.records) > unseen {
                batch.state = State::Absent;
            }
        }
        Ok(())
    }

    pub fn sure(&self, partition: usize) -> Sure {
        let reads = self.compaction.as_ref().map_or(0, |compacted| compacted.reads);
        Sure { log_start: self.log_start(partition), reads }
    }

    fn check_content(
        &self,
        partition: usize,
        id: i64,
        header: RecordBatchHeader<'_>,
        len: usize,
    ) -> Verdict {
        let known = usize::try_from(id).ok().and_then(|id| self.batches.get(id));
        let Some(batch) = known else {
            return Err(format!("p{partition}: batch {id} was never sent"));
        };
        let same = batch.partition == partition && batch.crc == header.crc() && batch.bytes == len;
        if same { Ok(()) } else { Err(format!("p{partition}: batch {id} is not what was sent")) }
    }

    fn place(&mut self, id: BatchId, offset: i64, how: &str) -> Verdict {
        let batch = &mut self.batches[id as usize];
        let partition = batch.partition;
        let start = self.starts.get(&partition).map_or(0, |start| start.sure);
        let may_come_again =
            |at| self.producers_forgotten && at + i64::from(batch.records) <= start;
        match batch.state {
            State::Placed(at) if at == offset => return Ok(()),
            State::Placed(at) if may_come_again(at) => batch.state = State::Placed(offset),
            State::Placed(at) => {
                return Err(format!(
                    "p{partition}: batch {id} is {how} @{offset} and stands @{at}"
                ));
            }
            State::Absent => {
                return Err(format!("p{partition}: lost batch {id} is {how} @{offset} again"));
            }
            State::Open => batch.state = State::Placed(offset),
        }
        let end = offset + i64::from(batch.records);
        let placed = self.placed.entry(partition).or_default();
        let before = placed.range(..end).next_back().map(|(at, id)| (*at, *id));
        placed.insert(offset, id);
        let overlap = before
            .filter(|(at, other)| at + i64::from(self.batches[*other as usize].records) > offset);
        match overlap {
            Some((at, other)) => Err(format!(
                "p{partition}: batch {id} is {how} @{offset}, where batch {other} stands @{at}"
            )),
            None => Ok(()),
        }
    }
}
