//! One question each. `millstream-bench micro` asks how long and how many allocations;
//! `bench/guard/run` asks how many instructions, and holds the answers to what they were.

use std::hint::black_box;

use millstream_io::batch::crc_of;
use millstream_io::units::Offset;
use millstream_shards::group_commit::{Due, GroupCommit, Taken};
use millstream_shards::table::Table;

use super::subjects::*;

/// Bytes of appends after which a log is begun anew: nothing is evicted from its tail here.
const LOG_BYTES_MAX: usize = 64 << 20;
/// About what a batch of 9,000 records of 100 B takes.
const MEGABYTE: usize = 960_000;
/// Partitions of a commit round.
const ROUND: i32 = 256;

/// A function that is called over and over, with its inputs made before.
pub struct Question {
    /// One word, for the command line and the baseline.
    pub key: &'static str,
    pub name: &'static str,
    /// Bytes that a call works through, where that says something; else 0.
    pub bytes: usize,
    pub make: fn() -> Box<dyn FnMut()>,
}

/// All of them but the hop between cores, which needs cores.
pub const QUESTIONS: &[Question] = &[
    sized(MEGABYTE, "crc-1mb", "crc of a batch of 1 MB", || {
        let batch = batch(9_000, 100);
        Box::new(move || {
            black_box(crc_of(&batch));
        })
    }),
    sized(MEGABYTE, "check-1mb", "check of a batch of 1 MB at the door", || {
        let batch = batch(9_000, 100);
        Box::new(move || drop(black_box(checked(&batch))))
    }),
    plain("check-1", "check of a batch of one record at the door", || {
        let batch = batch(1, 100);
        Box::new(move || drop(black_box(checked(&batch))))
    }),
    plain("append-1", "append and commit of one record of 100 B", || appends(1)),
    plain("append-100", "append and commit of 100 records of 100 B", || appends(100)),
    plain("append-1000", "append and commit of 1000 records of 100 B", || appends(1000)),
    plain("group-commit", "a commit round of 256 partitions and as many requests", rounds),
    plain("read-plan", "plan of a read at the tail, sequential", plans),
    plain("index-floor", "floor in the index of a segment of 1 GiB, at random", floors),
    plain("decode-produce-1", "decode of a Produce, 1 partition, 1 record", || produces(1, 1)),
    plain("decode-produce-1000", "decode of a Produce, 1 partition, 1000 records", || {
        produces(1, 1000)
    }),
    plain("decode-produce-256", "decode of a Produce, 256 partitions", || produces(256, 1)),
    plain("decode-fetch-1", "decode of a Fetch, 1 partition", || fetches(1)),
    plain("decode-fetch-256", "decode of a Fetch, 256 partitions", || fetches(256)),
    plain("answer-produce-1", "encode of a Produce answer, 1 partition", || produce_answers(1)),
    plain("answer-produce-256", "encode of a Produce answer, 256 partitions", || {
        produce_answers(256)
    }),
    plain("frame-fetch-1", "frame of a Fetch answer, 1 partition", || fetch_answers(1)),
    plain("frame-fetch-256", "frame of a Fetch answer, 256 partitions", || fetch_answers(256)),
];

const fn plain(key: &'static str, name: &'static str, make: fn() -> Box<dyn FnMut()>) -> Question {
    sized(0, key, name, make)
}

const fn sized(
    bytes: usize,
    key: &'static str,
    name: &'static str,
    make: fn() -> Box<dyn FnMut()>,
) -> Question {
    Question { key, name, bytes, make }
}

fn appends(records: u32) -> Box<dyn FnMut()> {
    let append = append(records, 100);
    let (mut log, mut staged) = (log(), 0);
    Box::new(move || {
        stage(&mut log, &append);
        commit(&mut log);
        staged += append.batch.len();
        if staged > LOG_BYTES_MAX {
            (log, staged) = (super::subjects::log(), 0);
        }
    })
}

fn rounds() -> Box<dyn FnMut()> {
    let mut table = Table::default();
    let slots: Vec<_> = (0..ROUND).map(|partition| table.insert(place_of(partition), ())).collect();
    let mut commit = GroupCommit::<u64>::new();
    Box::new(move || {
        for (ticket, slot) in (0..).zip(&slots) {
            commit.staged(*slot);
            commit.wait(Due::Next, ticket);
        }
        assert!(commit.begin(), "a round is due");
        black_box(commit.take(|_| Taken::Whole));
        commit.depart();
        commit.finish(|ticket| {
            black_box(ticket);
            None
        });
    })
}

fn plans() -> Box<dyn FnMut()> {
    let one = append(1, 100);
    let mut log = log();
    for _ in 0..1000 {
        stage(&mut log, &one);
    }
    commit(&mut log);
    let mut at = 0;
    Box::new(move || {
        drop(black_box(plan(&mut log, at, 4096)));
        at = (at + 20) % 900;
    })
}

fn floors() -> Box<dyn FnMut()> {
    let index = index();
    let mut target = 0u64;
    Box::new(move || {
        target = (target * 6_364_136_223 + 1_442_695) % (40 << 18);
        black_box(index.floor(Offset::ZERO.add(target)));
    })
}

fn produces(partitions: i32, records: u32) -> Box<dyn FnMut()> {
    let frame = produce_frame(partitions, records);
    Box::new(move || {
        black_box(decode_produce(&frame));
    })
}

fn fetches(partitions: i32) -> Box<dyn FnMut()> {
    let frame = fetch_frame(partitions);
    Box::new(move || {
        black_box(decode_fetch(&frame));
    })
}

fn produce_answers(partitions: i32) -> Box<dyn FnMut()> {
    let response = produce_response(partitions);
    let mut buffer = Vec::new();
    Box::new(move || buffer = encode_produce(&response, std::mem::take(&mut buffer)))
}

fn fetch_answers(partitions: i32) -> Box<dyn FnMut()> {
    let response = fetch_response(partitions);
    let mut buffer = Vec::new();
    Box::new(move || buffer = encode_fetch(&response, std::mem::take(&mut buffer)))
}
