//! What strangers send: every prefix, every length set to nonsense, every byte flipped, for every
//! key and version. Nothing panics, and memory stays within the bound the codec names.
//!
//! Method: valid bytes from the schemas (`wire_support`), then spoiled; an allocator counts what the
//! decode of this thread holds.

mod wire_support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use millstream::wire::fuzz::{fuzz_frame_length, fuzz_request, fuzz_response};
use millstream::wire::messages::{FetchRequest, FindCoordinatorRequest, ProduceRequest};
use millstream::wire::reader::{DECODED_BYTES_FLOOR, DECODED_BYTES_MAX, DECODED_BYTES_RATIO};
use millstream::wire::schema::Schema;
use millstream::wire::{AnyRequest, AnyResponse, ApiKey, DecodeError, Message, Reader, Writer};
use wire_support::{Dice, Generated, LengthKind, Plan, generate, push_uvarint, with_length};

/// Either body of an API.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Side {
    Request,
    Response,
}

impl Side {
    fn schema(self, key: ApiKey) -> &'static Schema {
        match self {
            Side::Request => key.request_schema(),
            Side::Response => key.response_schema(),
        }
    }

    /// Decodes, and measures what the decode holds at its peak.
    fn decode(self, key: ApiKey, bytes: &[u8], version: i16) -> (Result<(), DecodeError>, usize) {
        measured(|| {
            let mut reader = Reader::new(bytes);
            match self {
                Side::Request => AnyRequest::decode(key, &mut reader, version).map(drop),
                Side::Response => AnyResponse::decode(key, &mut reader, version).map(drop),
            }
        })
    }
}

/// Most bytes that decoding `frame_len` bytes may hold: the budget, twice while an array moves.
fn bound(frame_len: usize) -> usize {
    let budget = frame_len * DECODED_BYTES_RATIO + DECODED_BYTES_FLOOR;
    2 * budget.min(DECODED_BYTES_MAX)
}

fn every_message(mut visit: impl FnMut(Side, ApiKey, i16)) {
    for key in ApiKey::ALL {
        for version in key.versions().min..=key.versions().max {
            visit(Side::Request, *key, version);
            visit(Side::Response, *key, version);
        }
    }
}

fn message(side: Side, key: ApiKey, version: i16, smallest: bool, seed: u64) -> Generated {
    let flexible = key.flexible_versions().contains(version);
    let plan = Plan { version, flexible, unknown_tags: !smallest, smallest };
    generate(side.schema(key), plan, seed)
}

#[test]
fn every_prefix_of_a_message_is_refused() {
    every_message(|side, key, version| {
        for seed in 0..3 {
            let whole = message(side, key, version, false, seed).bytes;
            let place = format!("{side:?} {} v{version} seed {seed}", key.name());
            let (decoded, _) = side.decode(key, &whole, version);
            assert_eq!(decoded, Ok(()), "{place}");
            for end in 0..whole.len() {
                let (decoded, held) = side.decode(key, &whole[..end], version);
                assert!(decoded.is_err(), "{place}: {end} of {} bytes are enough", whole.len());
                assert!(held <= bound(end), "{place}: {held} bytes held for {end}");
            }
        }
    });
}

#[test]
fn nonsense_in_any_length_is_refused_or_harmless() {
    let mut spoiled = 0;
    every_message(|side, key, version| {
        for seed in 0..4 {
            let valid = message(side, key, version, seed == 0, seed);
            let place = format!("{side:?} {} v{version} seed {seed}", key.name());
            for spot in &valid.lengths {
                for value in [-1, 0, 1, 127, 128, 0x7fff, 0x1_0000, i32::MAX - 1, i32::MAX] {
                    let bytes = with_length(&valid, *spot, value);
                    let (decoded, held) = side.decode(key, &bytes, version);
                    let nonsense = value > bytes.len() as i32;
                    // A compact length of i32::MAX wraps to a negative one, which is null.
                    let wraps = spot.kind == LengthKind::Compact && value == i32::MAX;
                    if nonsense && !wraps {
                        assert!(decoded.is_err(), "{place}: {value} at {spot:?} is taken");
                    }
                    assert!(held <= bound(bytes.len()), "{place}: {held} bytes held");
                    spoiled += 1;
                }
            }
        }
    });
    assert!(spoiled > 100_000, "only {spoiled} lengths were spoiled");
}

#[test]
fn any_flipped_byte_is_refused_or_read_again_as_the_same() {
    every_message(|side, key, version| {
        let whole = message(side, key, version, false, 7).bytes;
        for at in 0..whole.len() {
            for flip in [0x01, 0x40, 0x80, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] ^= flip;
                let (_, held) = side.decode(key, &bytes, version);
                assert!(held <= bound(bytes.len()), "{} v{version}: {held} bytes", key.name());
                fuzz(side, key, version, &bytes);
            }
        }
    });
}

#[test]
fn noise_is_refused_or_read_again_as_the_same() {
    let seed = 20_260_727;
    println!("seed {seed}");
    let mut dice = Dice(seed);
    for _ in 0..40_000 {
        let key = ApiKey::ALL[dice.below(ApiKey::ALL.len())];
        let versions = key.versions();
        let span = (versions.max - versions.min + 1) as usize;
        let version = versions.min + dice.below(span) as i16;
        // Small numbers more often than large ones: they are lengths that fit.
        let bytes: Vec<u8> = (0..dice.below(120))
            .map(|_| if dice.one_in(3) { dice.next() as u8 } else { dice.below(6) as u8 })
            .collect();
        fuzz(Side::Request, key, version, &bytes);
        fuzz(Side::Response, key, version, &bytes);
        fuzz_request(&bytes);
        fuzz_frame_length(&bytes);
    }
}

/// Through the entries that fuzzers use, which check that what is read can be written and read.
fn fuzz(side: Side, key: ApiKey, version: i16, body: &[u8]) {
    match side {
        Side::Request => {
            let mut frame = key.number().to_be_bytes().to_vec();
            frame.extend(version.to_be_bytes());
            frame.extend([0, 0, 0, 7, 0xff, 0xff]);
            if key.flexible_versions().contains(version) {
                frame.push(0);
            }
            frame.extend(body);
            fuzz_request(&frame);
        }
        Side::Response => {
            let mut data = vec![key.number() as u8, version as u8];
            data.extend(body);
            fuzz_response(&data);
        }
    }
}

/// Goal: large declared counts that the frame really has bytes for stay within the bound too.
/// Method: each length of the smallest message declares 65,536 and as many bytes follow.
#[test]
fn arrays_of_tiny_elements_stay_within_the_bound() {
    let count = 1 << 16;
    every_message(|side, key, version| {
        let smallest = message(side, key, version, true, 1);
        for spot in &smallest.lengths {
            let mut head = with_length(&smallest, *spot, count);
            let width = match spot.kind {
                LengthKind::I16 => continue,
                LengthKind::I32 => 4,
                LengthKind::Compact | LengthKind::Plain => 3,
            };
            head.truncate(spot.at + width);
            for filler in [0, 1, 2] {
                let mut bytes = head.clone();
                bytes.resize(bytes.len() + count as usize, filler);
                let (_, held) = side.decode(key, &bytes, version);
                let most = bound(bytes.len());
                let place = format!("{side:?} {} v{version} {spot:?}", key.name());
                assert!(held <= most, "{place}: {held} bytes held, at most {most}");
            }
        }
    });
}

/// Goal: the largest frame the broker reads cannot become gigabytes.
#[test]
fn hundred_mebibytes_of_one_byte_elements_hold_at_most_the_cap() {
    let len = 100 << 20;
    // FindCoordinator 4: key type, then an array of strings; an empty one is the single byte 1.
    let mut frame = vec![0];
    push_uvarint(&mut frame, len as u32 + 1);
    frame.resize(frame.len() + len, 1);
    let (decoded, held) =
        measured(|| FindCoordinatorRequest::decode(&mut Reader::new(&frame), 4).map(drop));
    assert!(matches!(decoded, Err(DecodeError::BudgetExhausted { .. })), "{decoded:?}");
    assert!(held <= 2 * DECODED_BYTES_MAX, "{held} bytes held");
}

/// Goal: decoding allocates for arrays, never for a string or for records.
#[test]
fn produce_and_fetch_allocate_only_for_their_arrays() {
    use millstream::wire::messages::fetch::{FetchPartition, FetchTopic};
    use millstream::wire::messages::produce::{PartitionProduceData, TopicProduceData};

    let records = vec![0x5a; 100_000];
    let partition = |index| PartitionProduceData { index, records: Some(&records) };
    let topic = TopicProduceData {
        name: "orders",
        partition_data: (0..8).map(partition).collect(),
        ..Default::default()
    };
    let request = ProduceRequest {
        transactional_id: Some("payments"),
        topic_data: vec![topic.clone(), topic],
        ..Default::default()
    };
    let mut writer = Writer::new();
    request.encode(&mut writer, 9).unwrap();
    let frame = writer.into_bytes();
    let before = allocations();
    let decoded = ProduceRequest::decode(&mut Reader::new(&frame), 9).unwrap();
    assert_eq!(allocations() - before, 3, "one for the topics, one each for their partitions");
    assert_eq!(decoded, request);

    let partition = |partition| FetchPartition { partition, ..Default::default() };
    let topic = FetchTopic {
        topic: "orders",
        partitions: (0..8).map(partition).collect(),
        ..Default::default()
    };
    let request = FetchRequest { topics: vec![topic], rack_id: "r1", ..Default::default() };
    let mut writer = Writer::new();
    request.encode(&mut writer, 12).unwrap();
    let frame = writer.into_bytes();
    let before = allocations();
    let decoded = FetchRequest::decode(&mut Reader::new(&frame), 12).unwrap();
    assert_eq!(allocations() - before, 2, "one for the topics, one for the partitions");
    assert_eq!(decoded, request);
}

// ---- counting what this thread allocates ------------------------------------------------------

thread_local! {
    static LIVE: Cell<usize> = const { Cell::new(0) };
    static PEAK: Cell<usize> = const { Cell::new(0) };
    static CALLS: Cell<usize> = const { Cell::new(0) };
}

#[global_allocator]
static COUNTING: Counting = Counting;

struct Counting;

fn grew(by: usize) {
    let live = LIVE.get() + by;
    LIVE.set(live);
    PEAK.set(PEAK.get().max(live));
    CALLS.set(CALLS.get() + 1);
}

fn shrank(by: usize) {
    LIVE.set(LIVE.get().saturating_sub(by));
}

fn allocations() -> usize {
    CALLS.get()
}

/// Runs `work` and measures how many bytes more than before it held at its peak.
fn measured<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = LIVE.get();
    PEAK.set(before);
    let result = work();
    (result, PEAK.get() - before)
}

// SAFETY: every call is handed to the system's allocator unchanged; counting touches only
// thread-local cells without destructors, so it neither allocates nor runs after they are gone.
#[expect(unsafe_code, reason = "a counting allocator cannot be written without")]
unsafe impl GlobalAlloc for Counting {
    // SAFETY: the caller keeps the contract of `GlobalAlloc`, and so does the system's allocator.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grew(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: the caller keeps the contract of `GlobalAlloc`, and so does the system's allocator.
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        shrank(layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    // SAFETY: the caller keeps the contract of `GlobalAlloc`, and so does the system's allocator.
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both places may live at once while the bytes move.
        grew(size);
        shrank(layout.size());
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
