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
//! In a compacted log it judges records. One that was placed may be missing only if a newer one of its
//! key is in the log, or if it is a tombstone whose time is over; then no older one of its key may be
//! there. What a reader found missing, no later one may see, whatever crashes lie between.

use std::collections::{BTreeMap, HashMap, HashSet};

use bytes::Bytes;
use millstream_io::batch::testing::{BatchBuilder, TestRecord};
use millstream_io::batch::{EndMarker, RecordBatchHeader, stored};
use millstream_io::records::{Keep, Record, Records};
use millstream_io::units::TimestampMs;

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
    /// How records are compacted, if they are.
    pub compaction: Option<Keys>,
    /// Records that a reader found missing, by partition and offset, and when.
    gone: HashMap<(usize, i64), u64>,
    /// Reads that have ended.
    reads: u64,
    /// A full disk made a shard give up what it had saved of producers: after a crash the retry of a
    /// deleted batch may be stored once more.
    pub producers_forgotten: bool,
    pub clients: Vec<Client>,
    pub claims: Claims,
}

/// The keys of a compacted log's records.
#[derive(Clone, Copy, Debug)]
pub struct Keys {
    pub count: u64,
    /// A tombstone may go as soon as a pass has met it before.
    pub tombstones_go: bool,
}

/// What was sure when a read began.
#[derive(Clone, Copy, Debug)]
pub struct Sure {
    pub log_start: i64,
    /// Reads that had ended.
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
        let mut builder = BatchBuilder::of_values(vec![vec![id as u8; value_bytes]; records]);
        if let Some(keys) = self.compaction {
            builder.records =
                (0..records as u64).map(|i| keyed(id, i, value_bytes, keys)).collect();
        }
        builder.base_timestamp = TIME_ZERO + id as i64;
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
        let builder = BatchBuilder::of_values(vec![vec![id as u8; value_bytes]; records]);
        let builder = BatchBuilder {
            base_timestamp: TIME_ZERO + id as i64,
            attributes: 0x10,
            ..builder.from_producer(pid, epoch, sequence)
        };
        self.add(partition, builder, Role::Data { pid })
    }

    /// A marker is to be sent; with the time it must carry.
    pub fn new_marker(&mut self, partition: usize, marker: &EndMarker) -> (BatchId, TimestampMs) {
        let now = TimestampMs::new(TIME_ZERO + self.batches.len() as i64);
        let built = marker.compose(now).into_bytes();
        let role = Role::Marker { pid: marker.producer.get(), outcome: marker.outcome };
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
            bytes: built.len(),
            crc,
            state: State::Open,
            acked: false,
        });
        id
    }

    /// The batches whose place is known, in log order: base offset, records, role.
    pub fn placed_in(&self, partition: usize) -> impl Iterator<Item = (i64, u32, Role)> {
        let placed = self.placed.get(&partition).into_iter().flatten();
        placed.map(|(offset, id)| {
            let batch = &self.batches[*id as usize];
            (*offset, batch.records, batch.role)
        })
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
        Sure { log_start: self.log_start(partition), reads: self.reads }
    }

    /// As [`Model::saw`], record by record: offsets may be missing, and the next batch comes then.
    fn saw_records(
        &mut self,
        partition: usize,
        offset: i64,
        mut bytes: &[u8],
        sure: Sure,
    ) -> Result<i64, String> {
        let (mut next, mut seen) = (offset, HashSet::new());
        while !bytes.is_empty() {
            let header = stored::whole(bytes).map_err(|e| format!("p{partition} @{next}: {e}"))?;
            let end = header.next_offset().expect("whole").get();
            if end <= next || (header.base_offset_raw() < next && next != offset) {
                return Err(format!("p{partition}: a batch up to @{end} comes at @{next}"));
            }
            let len = header.total_bytes().expect("whole");
            let mut records = Records::open(&bytes[..len], Keep::All).map_err(|e| e.to_string())?;
            while let Some(record) = records.next_record().map_err(|e| e.to_string())? {
                self.saw_record(partition, &record, sure)?;
                seen.insert(record.offset.get());
            }
            next = end;
            bytes = &bytes[len..];
        }
        self.reads += 1;
        let placed: Vec<BatchId> =
            self.placed.entry(partition).or_default().range(..next).map(|(_, id)| *id).collect();
        for id in placed {
            let batch = &self.batches[id as usize];
            let State::Placed(base) = batch.state else { continue };
            for at in
                (base..base + i64::from(batch.records)).filter(|at| *at >= offset && *at < next)
            {
                if !seen.contains(&at) && at >= sure.log_start {
                    self.gone.entry((partition, at)).or_insert(self.reads);
                }
            }
        }
        Ok(next)
    }

    fn saw_record(&mut self, partition: usize, record: &Record<'_>, sure: Sure) -> Verdict {
        let offset = record.offset.get();
        let id = record.timestamp.get() - TIME_ZERO;
        let known = usize::try_from(id).ok().and_then(|id| self.batches.get(id));
        let Some(batch) = known.filter(|batch| batch.partition == partition) else {
            return Err(format!("p{partition}: record @{offset} of batch {id} was never sent"));
        };
        let index = record.header_bytes.last().map_or(usize::MAX, |index| usize::from(*index));
        let same = batch.builder.records.get(index).is_some_and(|sent| {
            (sent.key.as_deref(), sent.value.as_deref()) == (record.key, record.value)
        });
        if !same {
            return Err(format!(
                "p{partition}: record @{offset} of batch {id} is not what was sent"
            ));
        }
        if self.gone.get(&(partition, offset)).is_some_and(|when| *when <= sure.reads) {
            return Err(format!("p{partition}: record @{offset} was gone and is there again"));
        }
        self.place(id as BatchId, offset - index as i64, "seen")
    }

    /// Everything from the log start on was read since the last recovery: what is missing is replaced by
    /// a newer record of its key, or a tombstone that may go; the newest of a key is there.
    pub fn complete(&mut self, partition: usize, start: i64) -> Verdict {
        let Some(keys) = self.compaction else { return Ok(()) };
        let mut newest: HashMap<Vec<u8>, (i64, bool)> = HashMap::new();
        let mut records: Vec<(i64, Vec<u8>, bool)> = Vec::new();
        for (base, id) in self.placed.entry(partition).or_default().iter() {
            let sent = self.batches[*id as usize].builder.records.iter();
            for (offset, record) in (*base..).zip(sent) {
                let key = record.key.clone().expect("keyed");
                newest.insert(key.clone(), (offset, record.value.is_none()));
                records.push((offset, key, record.value.is_none()));
            }
        }
        // What nobody saw and nobody was told of may have replaced others.
        let open =
            self.batches.iter().filter(|b| b.partition == partition && b.state == State::Open);
        let unsure: HashSet<Vec<u8>> =
            open.flat_map(|b| &b.builder.records).filter_map(|r| r.key.clone()).collect();
        for (offset, key, is_tombstone) in records.iter().filter(|(at, ..)| *at >= start) {
            let gone = self.gone.contains_key(&(partition, *offset));
            let (last, last_is_tombstone) = newest[key];
            let last_gone = self.gone.contains_key(&(partition, last));
            let may_go =
                last > *offset || unsure.contains(key) || (*is_tombstone && keys.tombstones_go);
            if gone && !may_go {
                return Err(format!(
                    "p{partition}: the newest record @{offset} of its key is gone"
                ));
            }
            if !gone && *offset < last && last_gone && last_is_tombstone && last >= start {
                return Err(format!(
                    "p{partition}: the tombstone @{last} is gone and its key stands @{offset}"
                ));
            }
        }
        Ok(())
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

/// Record `index` of batch `id`: every fourth a tombstone.
fn keyed(id: BatchId, index: u64, value_bytes: usize, keys: Keys) -> TestRecord {
    let mix = (id * 31 + index).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    TestRecord {
        timestamp_delta: 0,
        key: Some((mix % keys.count).to_string().into_bytes()),
        value: (!(mix / keys.count).is_multiple_of(4)).then(|| vec![id as u8; value_bytes]),
        headers: vec![(b"i".to_vec(), Some(vec![index as u8]))],
    }
}
