//! Closed loops: a fixed number of requests in flight, the next one when one is answered.

use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::batch::{Batch, Depth};
use crate::client::{
    Driver, Expect, Frame, Outputs, Response, Topic, Verifier, Versions, fetch, produce,
    read_fetch, read_produce,
};

/// A load without an answer for so long has hung.
const SILENCE_LIMIT: Duration = Duration::from_secs(60);
/// One wait for events; bounds how late a loop sees its deadline.
const TURN: Duration = Duration::from_millis(20);

/// What a load has done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub requests: u64,
    pub records: u64,
    /// Bytes of record batches, without the requests around them.
    pub bytes: u64,
}

impl Tally {
    /// What was done since `earlier`.
    pub fn since(self, earlier: Tally) -> Tally {
        Tally {
            requests: self.requests - earlier.requests,
            records: self.records - earlier.records,
            bytes: self.bytes - earlier.bytes,
        }
    }
}

/// One request of a produce load: the same batch for some partitions of a topic.
#[derive(Clone, Debug)]
pub struct Shot {
    frame: Rc<Frame>,
    partitions: Vec<i32>,
    records: u64,
    bytes: u64,
}

impl Shot {
    pub fn new(
        versions: Versions,
        topic: &Topic,
        partitions: &[i32],
        batch: &Batch,
    ) -> Result<Shot> {
        let parts: Vec<(i32, &[u8])> =
            partitions.iter().map(|index| (*index, batch.bytes.as_slice())).collect();
        Ok(Shot {
            frame: Rc::new(produce(versions, topic, &parts)?),
            partitions: partitions.to_vec(),
            records: u64::from(batch.records),
            bytes: batch.bytes.len() as u64,
        })
    }

    /// The request.
    pub fn frame(&self) -> &Rc<Frame> {
        &self.frame
    }

    /// Checks an answer: success for each partition asked, each with an offset.
    pub fn check(&self, version: i16, bytes: &[u8]) -> Result<()> {
        let mut count = 0;
        read_produce(version, bytes, |answer| {
            ensure!(self.partitions.contains(&answer.partition), "{answer:?} was not asked for");
            ensure!(answer.base_offset >= 0, "{answer:?} is a success without an offset");
            count += 1;
            Ok(())
        })?;
        ensure!(count == self.partitions.len(), "{count} of {} answered", self.partitions.len());
        Ok(())
    }
}

/// Connections that each send their shots in turn, `in_flight` at a time.
pub struct ProduceLoop {
    driver: Driver,
    version: i16,
    shots: Vec<Vec<Shot>>,
    next: Vec<usize>,
    in_flight: usize,
    started: bool,
    /// Acknowledged so far.
    pub tally: Tally,
    /// Acknowledged records of each partition.
    pub acked: Vec<u64>,
}

impl ProduceLoop {
    /// One connection for each list of shots.
    pub fn new(
        driver: Driver,
        versions: Versions,
        partitions: i32,
        shots: Vec<Vec<Shot>>,
        in_flight: usize,
    ) -> Result<ProduceLoop> {
        ensure!(driver.connections() == shots.len(), "as many connections as lists of shots");
        ensure!(shots.iter().all(|list| !list.is_empty()) && in_flight > 0, "nothing to send");
        Ok(ProduceLoop {
            next: vec![0; shots.len()],
            driver,
            version: versions.produce,
            shots,
            in_flight,
            started: false,
            tally: Tally::default(),
            acked: vec![0; usize::try_from(partitions)?],
        })
    }

    /// Loads for `time`, longer (up to tenfold) while fewer than `requests` are answered, and says
    /// what was acknowledged in it. Requests stay in flight.
    pub fn run(&mut self, time: Duration, requests: u64) -> Result<Tally> {
        let (begun, from) = (Instant::now(), self.tally.requests);
        self.run_while(|tally| {
            let elapsed = begun.elapsed();
            elapsed < time || (tally.requests - from < requests && elapsed < time * 10)
        })
    }

    /// Loads for `time`, or until `bytes` of batches are acknowledged.
    pub fn run_up_to(&mut self, time: Duration, bytes: u64) -> Result<Tally> {
        let (begun, from) = (Instant::now(), self.tally.bytes);
        self.run_while(|tally| begun.elapsed() < time && tally.bytes - from < bytes)
    }

    /// Waits for all answers; the connections stay open.
    pub fn drain(&mut self) -> Result<()> {
        let mut state = State { tally: &mut self.tally, acked: &mut self.acked };
        let (shots, version) = (&self.shots, self.version);
        self.driver.drain(SILENCE_LIMIT, &mut |response, _| {
            state.count(&shots[response.connection][tag(&response)], version, &response)
        })?;
        self.started = false;
        Ok(())
    }

    fn run_while(&mut self, mut more: impl FnMut(&Tally) -> bool) -> Result<Tally> {
        let before = self.tally;
        if !self.started {
            self.started = true;
            for connection in 0..self.shots.len() {
                for _ in 0..self.in_flight {
                    let (shots, next) = (&self.shots[connection], &mut self.next[connection]);
                    send_next(self.driver.outputs(), connection, shots, next);
                }
            }
        }
        let mut silent = Instant::now();
        while more(&self.tally) {
            let mut state = State { tally: &mut self.tally, acked: &mut self.acked };
            let (shots, version, next) = (&self.shots, self.version, &mut self.next);
            let answers = self.driver.turn(TURN, &mut |response, outputs| {
                let connection = response.connection;
                state.count(&shots[connection][tag(&response)], version, &response)?;
                send_next(outputs, connection, &shots[connection], &mut next[connection]);
                Ok(())
            })?;
            if answers > 0 {
                silent = Instant::now();
            }
            ensure!(silent.elapsed() < SILENCE_LIMIT, "no answer for {SILENCE_LIMIT:?}");
        }
        Ok(self.tally.since(before))
    }
}

struct State<'a> {
    tally: &'a mut Tally,
    acked: &'a mut [u64],
}

impl State<'_> {
    fn count(&mut self, shot: &Shot, version: i16, response: &Response<'_>) -> Result<()> {
        shot.check(version, response.bytes)?;
        let partitions = shot.partitions.len() as u64;
        self.tally.requests += 1;
        self.tally.records += shot.records * partitions;
        self.tally.bytes += shot.bytes * partitions;
        for partition in &shot.partitions {
            self.acked[usize::try_from(*partition)?] += shot.records;
        }
        Ok(())
    }
}

fn send_next(outputs: &mut Outputs, connection: usize, shots: &[Shot], next: &mut usize) {
    outputs.send(connection, &shots[*next].frame, *next as u64);
    *next = (*next + 1) % shots.len();
}

fn tag(response: &Response<'_>) -> usize {
    usize::try_from(response.tag).unwrap_or(usize::MAX)
}

/// A range of offsets of one partition.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    pub partition: i32,
    pub from: i64,
    pub to: i64,
}

/// Connections that each read their spans, one request in flight, over and over; all is checked.
pub struct FetchLoop {
    driver: Driver,
    versions: Versions,
    topic: Topic,
    expect: Expect,
    readers: Vec<Vec<Reader>>,
    partition_bytes: i32,
    started: bool,
    /// When the last record came.
    heard: Instant,
    /// Of so many answers one is looked at whole, of the others the headers.
    whole_of: u64,
    pub tally: Tally,
}

/// Reads of one span.
struct Reader {
    span: Span,
    verifier: Verifier,
    /// How often it was read to its end.
    passes: u64,
}

impl FetchLoop {
    /// One connection for each list of spans.
    pub fn new(
        driver: Driver,
        versions: Versions,
        topic: &Topic,
        expect: Expect,
        spans: Vec<Vec<Span>>,
        partition_bytes: i32,
    ) -> Result<FetchLoop> {
        ensure!(driver.connections() == spans.len(), "as many connections as lists of spans");
        let some = |list: &Vec<Span>| !list.is_empty() && list.iter().all(|s| s.from < s.to);
        ensure!(spans.iter().all(some), "an empty span would be read for ever: {spans:?}");
        let reader = |span: Span| Reader { span, verifier: Verifier::from(span.from), passes: 0 };
        Ok(FetchLoop {
            driver,
            versions,
            topic: topic.clone(),
            expect,
            readers: spans.into_iter().map(|list| list.into_iter().map(reader).collect()).collect(),
            partition_bytes,
            started: false,
            heard: Instant::now(),
            whole_of: 1,
            tally: Tally::default(),
        })
    }

    /// From now on looks at one of so many answers whole, and at the headers of the others.
    pub fn look_whole_at_one_of(&mut self, answers: u64) {
        self.whole_of = answers.max(1);
    }

    /// Reads for `time` and says what came in it.
    pub fn run(&mut self, time: Duration) -> Result<Tally> {
        let (before, begun) = (self.tally, Instant::now());
        while begun.elapsed() < time {
            self.turn(TURN)?;
        }
        Ok(self.tally.since(before))
    }

    /// Reads until every span was read once, or more often.
    pub fn run_once(&mut self) -> Result<Tally> {
        let before = self.tally;
        while !self.is_through() {
            self.turn(TURN)?;
        }
        Ok(self.tally.since(before))
    }

    /// Reads on until every partition was read up to its offset in `ends`, or beyond.
    pub fn run_to(&mut self, ends: &[i64]) -> Result<Tally> {
        let before = self.tally;
        let behind = |reader: &Reader| {
            let end = usize::try_from(reader.span.partition).ok().and_then(|part| ends.get(part));
            end.is_some_and(|end| reader.verifier.next < *end)
        };
        while self.readers.iter().flatten().any(behind) {
            self.turn(TURN)?;
        }
        Ok(self.tally.since(before))
    }

    /// Whether every span was read to its end.
    pub fn is_through(&self) -> bool {
        self.readers.iter().flatten().all(|reader| reader.passes > 0)
    }

    /// Takes what comes within `limit`, and asks for more.
    pub fn turn(&mut self, limit: Duration) -> Result<()> {
        if !self.started {
            (self.started, self.heard) = (true, Instant::now());
            for (connection, readers) in self.readers.iter().enumerate() {
                let frame = request(self.versions, &self.topic, readers, self.partition_bytes)?;
                self.driver.outputs().send(connection, &frame, 0);
            }
        }
        let before = self.tally.records;
        let (expect, versions, topic) = (&self.expect, self.versions, &self.topic);
        let (readers, bytes) = (&mut self.readers, self.partition_bytes);
        let (tally, whole_of) = (&mut self.tally, self.whole_of);
        self.driver.turn(limit, &mut |response, outputs| {
            let readers = &mut readers[response.connection];
            accept(versions, (expect, whole_of), &response, readers, tally)?;
            let frame = request(versions, topic, readers, bytes)?;
            outputs.send(response.connection, &frame, 0);
            Ok(())
        })?;
        if self.tally.records > before {
            self.heard = Instant::now();
        }
        ensure!(self.heard.elapsed() < SILENCE_LIMIT, "no record for {SILENCE_LIMIT:?}");
        Ok(())
    }

    /// Takes the answers that are under way and asks for no more; the next turn begins again.
    pub fn drain(&mut self) -> Result<()> {
        let (expect, versions) = (&self.expect, self.versions);
        let (readers, tally, whole_of) = (&mut self.readers, &mut self.tally, self.whole_of);
        self.driver.drain(SILENCE_LIMIT, &mut |response, _| {
            let readers = &mut readers[response.connection];
            accept(versions, (expect, whole_of), &response, readers, tally)
        })?;
        self.started = false;
        Ok(())
    }
}

fn accept(
    versions: Versions,
    (expect, whole_of): (&Expect, u64),
    response: &Response<'_>,
    readers: &mut [Reader],
    tally: &mut Tally,
) -> Result<()> {
    let whole = tally.requests.is_multiple_of(whole_of);
    let depth = if whole { Depth::Whole } else { Depth::Header };
    tally.requests += 1;
    read_fetch(versions.fetch, response.bytes, |answer| {
        let reader = readers.iter_mut().find(|reader| reader.span.partition == answer.partition);
        let reader = reader.context("a partition that was not asked for")?;
        tally.records += reader.verifier.accept(expect, depth, answer.records)?;
        tally.bytes += answer.records.len() as u64;
        if reader.verifier.next >= reader.span.to {
            reader.passes += 1;
            reader.verifier = Verifier::from(reader.span.from);
        }
        Ok(())
    })
    .with_context(|| format!("connection {}", response.connection))
}

fn request(
    versions: Versions,
    topic: &Topic,
    readers: &[Reader],
    partition_bytes: i32,
) -> Result<Rc<Frame>> {
    let parts: Vec<(i32, i64)> =
        readers.iter().map(|reader| (reader.span.partition, reader.verifier.next)).collect();
    Ok(Rc::new(fetch(versions, topic, &parts, 500, partition_bytes)?))
}

/// Compares what was acknowledged with where the logs end.
pub fn check_ends(ends: &[i64], starts: &[i64], acked: &[u64]) -> Result<()> {
    for (partition, acked) in acked.iter().enumerate() {
        let grown = ends[partition] - starts[partition];
        ensure!(
            i64::try_from(*acked) == Ok(grown),
            "partition {partition} grew by {grown} records, and {acked} were acknowledged"
        );
    }
    Ok(())
}
