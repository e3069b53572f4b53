//! Random logs with keys, tombstones, idempotent producers and transactions, cleaned over and over
//! with maps that are too small and clocks that move on, against a model that knows records only.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use millstream_io::batch::testing::{BatchBuilder, TestRecord};
use millstream_io::batch::{Attributes, RecordBatchHeader};
use millstream_io::batch_stream::{BatchStream, Next};
use millstream_io::disk::{Disk, DiskFile, OpenHow};
use millstream_io::disk_sim::{SimDisk, SimRng};
use millstream_io::indexes::Indexes;
use millstream_io::records::{Keep, Records};
use millstream_io::segment::{Listing, SegmentFile, remove_segment};
use millstream_io::units::{
    FilePosition, LeaderEpoch, Offset, ProducerEpoch, ProducerId, SegmentId, TimestampMs, bytes_u64,
};

use super::filter::LastOfProducer;
use super::pass::{Input, Pass, PassPlan, Step};
use super::transactions::AbortedRange;

const RETENTION_MS: i64 = 100;

/// One record as a consumer sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    offset: i64,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    timestamp: i64,
}

/// What was written, and what a cleaned log must still say of it.
#[derive(Default)]
struct Model {
    /// Records of committed and plain batches, by offset.
    data: BTreeMap<i64, Seen>,
    /// When the tombstone at an offset may go; set when a pass meets it first.
    horizons: HashMap<i64, i64>,
    /// Batch of each record, and the records of each batch.
    batch_of: HashMap<i64, i64>,
}

impl Model {
    /// A pass that noted the keys of `[dirty, end)` ran at `now`.
    fn clean(&mut self, dirty: i64, end: i64, now: i64) {
        let mut newest = HashMap::new();
        for (offset, record) in self.data.range(dirty..end) {
            newest.extend(record.key.clone().map(|key| (key, *offset)));
        }
        let horizons = &self.horizons;
        let batch_of = &self.batch_of;
        self.data.retain(|offset, record| {
            let Some(key) = record.key.as_ref().filter(|_| *offset < end) else {
                return *offset >= end;
            };
            let is_newest = newest.get(key).is_none_or(|newest| offset >= newest);
            let past = horizons.get(&batch_of[offset]).is_some_and(|horizon| *horizon <= now);
            is_newest && (record.value.is_some() || !past)
        });
    }

    /// The tombstones that a pass has met may go when their time has come.
    fn set_horizons(&mut self, end_of_segments: i64, now: i64) {
        for (offset, record) in self.data.range(..end_of_segments) {
            if record.value.is_none() {
                self.horizons.entry(self.batch_of[offset]).or_insert(now + RETENTION_MS);
            }
        }
    }
}

struct Log {
    disk: SimDisk,
    dir: PathBuf,
    segments: Vec<Input>,
    aborted: Vec<AbortedRange>,
    producers: HashMap<ProducerId, LastOfProducer>,
    next: i64,
    epoch: i32,
    first_dirty: Offset,
    now: i64,
    model: Model,
    open: HashMap<i64, (i64, Vec<Seen>)>,
    keys: u64,
}

impl Log {
    fn new(rng: &mut SimRng) -> Log {
        let disk = SimDisk::new();
        let dir = PathBuf::from("/t/0");
        disk.create_dir_all(&dir).unwrap();
        Log {
            disk,
            dir,
            segments: Vec::new(),
            aborted: Vec::new(),
            producers: HashMap::new(),
            next: 0,
            epoch: 0,
            first_dirty: Offset::ZERO,
            now: 1_000_000,
            model: Model::default(),
            open: HashMap::new(),
            keys: 2 + rng.below(30),
        }
    }

    /// Writes a segment of some batches, as a leader does.
    fn write_segment(&mut self, rng: &mut SimRng) {
        self.epoch += i32::from(rng.chance(20));
        let id = SegmentId::new(LeaderEpoch::at(self.epoch), Offset::at(self.next));
        let file = self.disk.open(&id.path(&self.dir, SegmentFile::Log), OpenHow::CREATE).unwrap();
        let mut at = FilePosition::ZERO;
        for _ in 0..1 + rng.below(8) {
            let batch = self.next_batch(rng);
            file.write_at(&batch, at).unwrap();
            at = at.add_len(batch.len());
        }
        let next = Offset::at(self.next);
        self.segments.push(Input { id, bytes: at, next, damaged: false });
    }

    fn next_batch(&mut self, rng: &mut SimRng) -> Vec<u8> {
        let pid = rng.below(4) as i64;
        if rng.chance(50)
            && let Some((first, records)) = self.open.remove(&pid)
        {
            return self.marker(pid, first, records, rng);
        }
        let base = self.next;
        let count = 1 + rng.below(5) as i64;
        let some = |rng: &mut SimRng, keys: u64| TestRecord {
            timestamp_delta: rng.below(9) as i64,
            key: (!rng.chance(3)).then(|| rng.below(keys).to_string().into_bytes()),
            value: (!rng.chance(25)).then(|| vec![rng.below(256) as u8; rng.index(60)]),
            headers: Vec::new(),
        };
        let records: Vec<TestRecord> = (0..count).map(|_| some(rng, self.keys)).collect();
        let mut builder =
            BatchBuilder { records, ..Default::default() }.at_offset(base, self.epoch);
        builder.base_timestamp = self.now + rng.below(50) as i64;
        self.next += count;
        let seen = builder.records.iter().zip(base..).map(|(record, offset)| Seen {
            offset,
            key: record.key.clone(),
            value: record.value.clone(),
            timestamp: builder.base_timestamp + record.timestamp_delta,
        });
        let seen: Vec<Seen> = seen.collect();
        self.model.batch_of.extend((base..self.next).map(|offset| (offset, base)));
        if rng.chance(40) {
            self.model.data.extend(seen.into_iter().map(|seen| (seen.offset, seen)));
            return builder.build().to_vec();
        }
        let id = ProducerId::new(pid).unwrap();
        let data = Some(Offset::at(self.next - 1));
        self.producers.insert(id, LastOfProducer { epoch: ProducerEpoch::ZERO, data });
        let mut builder = builder.from_producer(pid, 0, 0);
        if rng.chance(60) || self.open.contains_key(&pid) {
            builder.attributes |= Attributes::TRANSACTIONAL;
            self.open.entry(pid).or_insert((base, Vec::new())).1.extend(seen);
        } else {
            self.model.data.extend(seen.into_iter().map(|seen| (seen.offset, seen)));
        }
        builder.build().to_vec()
    }

    fn marker(&mut self, pid: i64, first: i64, records: Vec<Seen>, rng: &mut SimRng) -> Vec<u8> {
        let commits = rng.chance(50);
        let marker = self.next;
        if commits {
            self.model.data.extend(records.into_iter().map(|seen| (seen.offset, seen)));
        } else {
            let producer = ProducerId::new(pid).unwrap();
            let (first, marker) = (Offset::at(first), Offset::at(marker));
            self.aborted.push(AbortedRange { producer, first, marker });
        }
        self.next += 1;
        let key = Some(vec![0, 0, 0, u8::from(commits)]);
        let record = TestRecord { key, value: Some(vec![0; 6]), ..Default::default() };
        let builder = BatchBuilder { records: vec![record], ..Default::default() };
        let mut builder = builder.at_offset(marker, self.epoch).from_producer(pid, 0, -1);
        builder.attributes = Attributes::CONTROL | Attributes::TRANSACTIONAL;
        builder.build().to_vec()
    }

    /// First offset of an open transaction, or the end.
    fn last_stable(&self) -> Offset {
        Offset::at(self.open.values().map(|(first, _)| *first).min().unwrap_or(self.next))
    }

    /// One pass over what may be cleaned. False when there is nothing dirty.
    fn clean(&mut self, rng: &mut SimRng) -> bool {
        let stable = self.last_stable();
        let inputs: Vec<Input> =
            self.segments.iter().take_while(|input| input.next <= stable).copied().collect();
        let Some(last) = inputs.last().filter(|last| last.next > self.first_dirty) else {
            return false;
        };
        let (dirty, ends) = (self.first_dirty, last.next);
        let plan = PassPlan {
            dir: self.dir.clone(),
            inputs,
            first_dirty: dirty,
            segment_bytes: 200 + rng.below(3000),
            aborted: self.aborted.clone(),
            producers: self.producers.clone(),
            now: TimestampMs::new(self.now),
            delete_retention_ms: RETENTION_MS,
            map_bytes: rng.below(2000),
        };
        let mut pass: Pass<SimDisk> = Pass::new(plan);
        while matches!(pass.step(&self.disk, 1 + rng.below(500)).unwrap(), Step::More) {}
        let end = pass.end();
        assert!(end > dirty, "a pass notes something");
        self.model.clean(dirty.get(), end.get(), self.now);
        let met = self.segments.iter().find(|input| input.next >= end).map_or(ends, |i| i.next);
        self.model.set_horizons(met.get(), self.now);
        while let Some(group) = pass.next_group() {
            loop {
                match pass.step(&self.disk, 1 + rng.below(500)).unwrap() {
                    Step::More => {}
                    Step::Mapped => panic!("twice"),
                    Step::Left => break,
                    Step::Written { meta, indexes, over } => {
                        self.aborted.retain(|range| !over.contains(&range.marker));
                        self.swap(&group, meta.id, meta.log_bytes, &indexes, rng);
                        break;
                    }
                }
            }
        }
        assert_eq!(pass.damaged(), []);
        self.first_dirty = end;
        true
    }

    fn swap(
        &mut self,
        group: &[SegmentId],
        id: SegmentId,
        bytes: FilePosition,
        indexes: &Indexes,
        rng: &mut SimRng,
    ) {
        let (loaded, coverage) = Indexes::load(&self.disk, &self.dir, id, bytes).unwrap();
        assert_eq!((&loaded.offsets, coverage.sealed), (&indexes.offsets, true));
        let i = self.segments.iter().position(|input| input.id == group[0]).unwrap();
        let old: Vec<Input> = self.segments.splice(i..i + group.len(), []).collect();
        let next = old.last().unwrap().next;
        assert!(coverage.next == next && id.cleaned.is_some_and(|cleaned| cleaned.next == next));
        self.segments.insert(i, Input { id, bytes, next, damaged: false });
        for gone in old.iter().filter(|_| rng.chance(70)) {
            remove_segment(&self.disk, &self.dir, gone.id).unwrap();
        }
        // What a start would take for the log, whatever was not removed.
        let listing = Listing::read(&self.disk, &self.dir).unwrap();
        let live: Vec<SegmentId> = self.segments.iter().map(|input| input.id).collect();
        assert_eq!(listing.segments, live);
    }

    /// Every batch as it stands in the files.
    fn batches(&self) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        for input in &self.segments {
            let path = input.id.path(&self.dir, SegmentFile::Log);
            let file = self.disk.open(&path, OpenHow::READ).unwrap();
            assert_eq!(file.len().unwrap(), input.bytes.get());
            let mut stream = BatchStream::new(file, input.id, input.bytes);
            loop {
                let batch = match stream.step().unwrap() {
                    Next::Batch(_, batch) => batch,
                    Next::Read(_) => continue,
                    Next::End => break,
                };
                all.push(batch.to_vec());
            }
            assert_eq!(stream.due(), input.next, "the last batch tells the end");
        }
        all
    }

    /// A reader of committed records, with the aborted list, as clients do it.
    fn committed(&self) -> Vec<Seen> {
        let stable = self.last_stable().get();
        let mut aborted = self.aborted.clone();
        aborted.sort_by_key(|range| range.first);
        let (mut aborted, mut skipped) = (aborted.into_iter().peekable(), HashSet::new());
        let mut seen = Vec::new();
        for batch in self.batches() {
            let header = RecordBatchHeader::view(&batch).unwrap();
            let last = header.last_offset().unwrap();
            let pid = header.producer().map(|stamp| stamp.id);
            while let Some(range) = aborted.next_if(|range| pid.is_some() && range.first <= last) {
                skipped.insert(Some(range.producer));
            }
            let mut records = Records::open(&batch, Keep::KeysAndValues).unwrap();
            if header.attributes().is_control() {
                let record = records.next_record().unwrap();
                if record.and_then(|r| r.key).is_some_and(|key| key[3] == 0) {
                    skipped.remove(&pid);
                }
                continue;
            }
            if header.attributes().is_transactional() && skipped.contains(&pid) {
                continue;
            }
            while let Some(r) = records.next_record().unwrap() {
                if r.offset.get() < stable {
                    seen.push(Seen {
                        offset: r.offset.get(),
                        key: r.key.map(<[u8]>::to_vec),
                        value: r.value.map(<[u8]>::to_vec),
                        timestamp: r.timestamp.get(),
                    });
                }
            }
        }
        seen
    }

    fn check(&self, seed: u64) {
        let stable = self.last_stable().get();
        let due: Vec<Seen> =
            self.model.data.range(..stable).map(|(_, seen)| seen.clone()).collect();
        let (seen, offsets) = (self.committed(), |all: &[Seen]| -> Vec<i64> {
            all.iter().map(|seen| seen.offset).collect()
        });
        assert_eq!(offsets(&seen), offsets(&due), "seed {seed}");
        assert_eq!(seen, due, "seed {seed}");
    }
}

/// What a reader of committed records sees after every pass is what the model says, whatever the size
/// of the map, of the steps and of the groups.
#[test]
fn readers_see_the_newest_record_of_each_key_and_nothing_of_aborted_transactions() {
    let mut cleaned = 0;
    for seed in 0..250 {
        let mut rng = SimRng::new(seed);
        let mut log = Log::new(&mut rng);
        for _ in 0..1 + rng.below(5) {
            for _ in 0..1 + rng.below(6) {
                log.write_segment(&mut rng);
            }
            log.check(seed);
            while log.clean(&mut rng) {
                cleaned += 1;
                log.check(seed);
                log.now += rng.below(RETENTION_MS as u64) as i64;
            }
            log.now += rng.below(3 * RETENTION_MS as u64) as i64;
        }
    }
    assert!(cleaned > 500, "{cleaned} passes");
}

/// With every transaction closed and every horizon passed a log is one value a key, and the last batch
/// of each producer.
#[test]
fn log_ends_small_without_tombstones_markers_and_aborted_data() {
    for seed in 0..60 {
        let mut rng = SimRng::new(1000 + seed);
        let mut log = Log::new(&mut rng);
        (0..12).for_each(|_| log.write_segment(&mut rng));
        while let Some(pid) = log.open.keys().next().copied() {
            let (first, records) = log.open.remove(&pid).unwrap();
            let id = SegmentId::new(LeaderEpoch::at(log.epoch), Offset::at(log.next));
            let marker = log.marker(pid, first, records, &mut rng);
            let file =
                log.disk.open(&id.path(&log.dir, SegmentFile::Log), OpenHow::CREATE).unwrap();
            file.write_at(&marker, FilePosition::ZERO).unwrap();
            let bytes = FilePosition::new(bytes_u64(marker.len()));
            let next = Offset::at(log.next);
            log.segments.push(Input { id, bytes, next, damaged: false });
        }
        log.keys = 1;
        for pid in 0..4 {
            // A transaction stays as long as the last batch of its producer is in it.
            let id = SegmentId::new(LeaderEpoch::at(log.epoch), Offset::at(log.next));
            let record =
                TestRecord { key: Some(vec![0xff]), value: Some(vec![1]), ..Default::default() };
            let builder = BatchBuilder { records: vec![record], ..Default::default() };
            let batch = builder.at_offset(log.next, log.epoch).from_producer(pid, 0, 9).build();
            let file =
                log.disk.open(&id.path(&log.dir, SegmentFile::Log), OpenHow::CREATE).unwrap();
            file.write_at(&batch, FilePosition::ZERO).unwrap();
            let offset = log.next;
            let (key, value) = (Some(vec![0xff]), Some(vec![1]));
            let seen = Seen { offset, key, value, timestamp: 1_700_000_000_000 };
            log.model.data.insert(offset, seen);
            log.model.batch_of.insert(offset, offset);
            let data = Some(Offset::at(offset));
            let last = LastOfProducer { epoch: ProducerEpoch::ZERO, data };
            log.producers.insert(ProducerId::new(pid).unwrap(), last);
            log.next += 1;
            let bytes = FilePosition::new(bytes_u64(batch.len()));
            log.segments.push(Input { id, bytes, next: Offset::at(log.next), damaged: false });
        }
        for _ in 0..6 {
            while log.clean(&mut rng) {}
            log.now += 2 * RETENTION_MS;
            log.first_dirty = Offset::ZERO;
        }
        log.check(seed);
        let mut records = 0;
        for batch in log.batches() {
            let header = RecordBatchHeader::view(&batch).unwrap();
            if header.attributes().is_control() {
                let mut reader = Records::open(&batch, Keep::Keys).unwrap();
                let record = reader.next_record().unwrap();
                // Values that were committed stay, and so does what committed them.
                let commits = record.and_then(|r| r.key).is_none_or(|key| key[3] == 1);
                assert!(commits, "seed {seed}: an abort marker is left: {header:?}");
            } else {
                records += header.record_count();
            }
        }
        assert_eq!(records as usize, log.model.data.len(), "seed {seed}");
        assert!(log.model.data.values().all(|seen| seen.value.is_some()), "seed {seed}");
    }
}

/// A damaged segment stays byte for byte, and what it may hold of older values keeps every tombstone
/// behind it.
#[test]
fn damaged_segment_is_never_written_anew_and_brings_no_deleted_key_back() {
    let mut rng = SimRng::new(7);
    let mut log = Log::new(&mut rng);
    let segment = |log: &mut Log, key: &str, value: Option<&str>| {
        let id = SegmentId::new(LeaderEpoch::ZERO, Offset::at(log.next));
        let record = TestRecord {
            key: Some(key.into()),
            value: value.map(Into::into),
            ..Default::default()
        };
        let builder = BatchBuilder { records: vec![record.clone(), record], ..Default::default() };
        let batch = builder.at_offset(log.next, 0).build();
        let file = log.disk.open(&id.path(&log.dir, SegmentFile::Log), OpenHow::CREATE).unwrap();
        file.write_at(&batch, FilePosition::ZERO).unwrap();
        log.next += 2;
        let bytes = FilePosition::new(bytes_u64(batch.len()));
        log.segments.push(Input { id, bytes, next: Offset::at(log.next), damaged: false });
        id
    };
    let first = segment(&mut log, "gone", Some("old"));
    let damaged = segment(&mut log, "gone", Some("older"));
    let tombstone = segment(&mut log, "gone", None);
    segment(&mut log, "other", Some("new"));
    let path = damaged.path(&log.dir, SegmentFile::Log);
    let file = log.disk.open(&path, OpenHow::WRITE).unwrap();
    file.write_at(b"x", FilePosition::new(75)).unwrap();
    let before = log.disk.read_all(&path, 10_000).unwrap();
    let mut kept = Vec::new();
    for _ in 0..3 {
        let plan = PassPlan {
            dir: log.dir.clone(),
            inputs: log.segments.clone(),
            first_dirty: Offset::ZERO,
            segment_bytes: 1 << 20,
            aborted: Vec::new(),
            producers: HashMap::new(),
            now: TimestampMs::new(log.now),
            delete_retention_ms: RETENTION_MS,
            map_bytes: 1 << 20,
        };
        let mut pass: Pass<SimDisk> = Pass::new(plan);
        while !matches!(pass.step(&log.disk, 100).unwrap(), Step::Mapped) {}
        while let Some(group) = pass.next_group() {
            assert!(!group.contains(&damaged));
            let step = loop {
                match pass.step(&log.disk, 100).unwrap() {
                    Step::More => {}
                    other => break other,
                }
            };
            if let Step::Written { meta, indexes, .. } = step {
                log.swap(&group, meta.id, meta.log_bytes, &indexes, &mut rng);
            }
        }
        assert_eq!(pass.damaged(), [damaged]);
        log.now += 2 * RETENTION_MS;
        let holder = log.segments.iter().find(|input| input.id.base == tombstone.base).unwrap().id;
        kept.push(count(&log.disk, &holder.path(&log.dir, SegmentFile::Log)));
    }
    assert_eq!(log.disk.read_all(&path, 10_000).unwrap(), before);
    assert_eq!(kept, [2, 2, 2], "the newest tombstone and the newest value of the other key");
    let emptied = log.segments[0].id;
    assert_eq!(emptied.base, first.base);
    assert_eq!(count(&log.disk, &emptied.path(&log.dir, SegmentFile::Log)), 0);
}

/// A log of segments of one record each, and a pass over all of them that has noted every key.
fn mapped(keys: &[&str], first_dirty: i64) -> (Log, Pass<SimDisk>) {
    let mut log = Log::new(&mut SimRng::new(1));
    for key in keys {
        let id = SegmentId::new(LeaderEpoch::ZERO, Offset::at(log.next));
        let record = TestRecord {
            key: Some((*key).into()),
            value: Some(b"value".to_vec()),
            ..Default::default()
        };
        let builder = BatchBuilder { records: vec![record], ..Default::default() };
        let batch = builder.at_offset(log.next, 0).build();
        let file = log.disk.open(&id.path(&log.dir, SegmentFile::Log), OpenHow::CREATE).unwrap();
        file.write_at(&batch, FilePosition::ZERO).unwrap();
        log.next += 1;
        let bytes = FilePosition::new(bytes_u64(batch.len()));
        log.segments.push(Input { id, bytes, next: Offset::at(log.next), damaged: false });
    }
    let plan = PassPlan {
        dir: log.dir.clone(),
        inputs: log.segments.clone(),
        first_dirty: Offset::at(first_dirty),
        segment_bytes: 1 << 20,
        aborted: Vec::new(),
        producers: HashMap::new(),
        now: TimestampMs::new(log.now),
        delete_retention_ms: RETENTION_MS,
        map_bytes: 1 << 20,
    };
    let mut pass = Pass::new(plan);
    while !matches!(pass.step(&log.disk, 100).unwrap(), Step::Mapped) {}
    (log, pass)
}

fn written(log: &Log, pass: &mut Pass<SimDisk>) -> Step {
    loop {
        match pass.step(&log.disk, 100).unwrap() {
            Step::More => {}
            other => return other,
        }
    }
}

/// Goal: a deletion of records costs no key that it does not concern its cleaning. No later pass would
/// look for the older record, and when the newer one is a tombstone whose time is over, the key would
/// be back.
#[test]
fn deletion_of_a_groups_first_segments_leaves_none_behind_them_uncleaned() {
    let (log, mut pass) = mapped(&["deleted", "key", "key", "last"], 0);
    assert_eq!(pass.next_group().unwrap().len(), 4);
    assert!(pass.leave_deleted(1));
    let Step::Written { meta, .. } = written(&log, &mut pass) else { panic!("left") };
    assert_eq!((meta.id.base, meta.next), (Offset::at(1), Offset::at(4)));
    assert_eq!(count(&log.disk, &meta.id.path(&log.dir, SegmentFile::Log)), 2);
    assert_eq!(pass.next_group(), None);
    assert_eq!(pass.end(), Offset::at(4));
    let (_, mut pass) = mapped(&["deleted", "deleted too"], 0);
    assert_eq!(pass.next_group().unwrap().len(), 2);
    assert!(!pass.leave_deleted(2), "nothing remains");
    assert_eq!(pass.next_group(), None);
}

/// As above, of damage that is found when the keys are noted already.
#[test]
fn damage_found_late_leaves_its_neighbours_to_the_next_pass() {
    let (log, mut pass) = mapped(&["clean", "key", "damaged", "key"], 1);
    let damaged = log.segments[2].id;
    let file = log.disk.open(&damaged.path(&log.dir, SegmentFile::Log), OpenHow::WRITE).unwrap();
    file.write_at(b"x", FilePosition::new(75)).unwrap();
    assert_eq!(pass.next_group().unwrap().len(), 4);
    assert!(matches!(written(&log, &mut pass), Step::Left));
    assert_eq!(pass.next_group(), None);
    assert_eq!(
        (pass.damaged(), pass.end()),
        (&[damaged][..], Offset::ZERO),
        "all must be noted anew"
    );
}

/// Goal: no start brings a list of aborted transactions back that names one without a marker: clients would
/// skip what its producer commits behind it. Method: a first pass empties a transaction, a second one
/// gives its marker a horizon and would have it forgotten, and the broker dies before that is durable.
/// The third pass, behind the horizon, is told of the transaction again.
#[test]
fn marker_of_a_transaction_that_is_still_listed_stays_whatever_its_horizon() {
    let mut rng = SimRng::new(3);
    let mut log = Log::new(&mut rng);
    let producer = ProducerId::new(7).unwrap();
    let put = |log: &mut Log, batch: &[u8]| {
        let base = RecordBatchHeader::view(batch).unwrap().base_offset().unwrap();
        let id = SegmentId::new(LeaderEpoch::ZERO, base);
        let file = log.disk.open(&id.path(&log.dir, SegmentFile::Log), OpenHow::CREATE).unwrap();
        file.write_at(batch, FilePosition::ZERO).unwrap();
        let bytes = FilePosition::new(bytes_u64(batch.len()));
        log.segments.push(Input { id, bytes, next: Offset::at(log.next), damaged: false });
    };
    let record = TestRecord { key: Some(vec![1]), value: Some(vec![1]), ..TestRecord::default() };
    let builder = BatchBuilder { records: vec![record.clone()], ..Default::default() };
    let mut data = builder.at_offset(0, 0).from_producer(7, 0, 0);
    data.attributes |= Attributes::TRANSACTIONAL;
    log.next = 1;
    put(&mut log, &data.build());
    let key = Some(vec![0, 0, 0, 0]);
    let marker = TestRecord { key, value: Some(vec![0; 6]), ..TestRecord::default() };
    let builder = BatchBuilder { records: vec![marker], ..Default::default() };
    let mut marker = builder.at_offset(1, 0).from_producer(7, 0, -1);
    marker.attributes = Attributes::CONTROL | Attributes::TRANSACTIONAL;
    log.next = 2;
    put(&mut log, &marker.build());
    let builder = BatchBuilder { records: vec![record], ..Default::default() };
    log.next = 3;
    put(&mut log, &builder.at_offset(2, 0).build());
    let range = AbortedRange { producer, first: Offset::ZERO, marker: Offset::at(1) };
    let has_marker = |log: &Log| {
        let control = |batch: &Vec<u8>| {
            let header = RecordBatchHeader::view(batch).unwrap();
            header.attributes().is_control() && header.record_count() > 0
        };
        log.batches().iter().any(control)
    };
    let mut pass = |log: &mut Log, aborted: Vec<AbortedRange>| {
        let plan = PassPlan {
            dir: log.dir.clone(),
            inputs: log.segments.clone(),
            first_dirty: Offset::ZERO,
            segment_bytes: 1 << 20,
            aborted,
            producers: HashMap::new(),
            now: TimestampMs::new(log.now),
            delete_retention_ms: RETENTION_MS,
            map_bytes: 1 << 20,
        };
        let mut pass: Pass<SimDisk> = Pass::new(plan);
        while !matches!(pass.step(&log.disk, 100).unwrap(), Step::Mapped) {}
        let group = pass.next_group().unwrap();
        let forgotten = match written(log, &mut pass) {
            Step::Written { meta, indexes, over } => {
                log.swap(&group, meta.id, meta.log_bytes, &indexes, &mut rng);
                over
            }
            _ => Vec::new(),
        };
        log.now += 2 * RETENTION_MS;
        (has_marker(log), forgotten.contains(&range.marker))
    };
    assert_eq!(pass(&mut log, vec![range]), (true, false), "its data was there");
    assert_eq!(pass(&mut log, vec![range]), (true, true), "a horizon, and it is forgotten");
    assert!(pass(&mut log, vec![range]).0, "a start has brought the list back");
    assert!(!pass(&mut log, Vec::new()).0, "forgotten for good");
}

fn count(disk: &SimDisk, path: &Path) -> i32 {
    let bytes = disk.read_all(path, 1 << 20).unwrap();
    let (mut at, mut count) = (0, 0);
    while at < bytes.len() {
        let header = RecordBatchHeader::view(&bytes[at..]).unwrap();
        count += header.record_count();
        at += header.total_bytes().unwrap();
    }
    count
}
