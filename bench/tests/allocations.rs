//! What an append, a read and a request cost on the heap. Counts, not times: they are the same on
//! every machine, and a bound that breaks names the change that broke it.

use millstream_bench::allocations::{Counting, Heap, counted};
use millstream_bench::micro::subjects::*;

#[global_allocator]
static HEAP: Counting = Counting;

/// Most frequent cost of `work` over many calls, and the mean: growth of queues and tables is rare
/// and belongs to the mean.
fn costs(calls: u64, mut work: impl FnMut(u64)) -> (u64, f64) {
    let mut seen = Vec::new();
    let mut all = Heap::default();
    for call in 0..calls {
        let ((), heap) = counted(|| work(call));
        seen.push(heap.allocations);
        all.allocations += heap.allocations;
    }
    seen.sort_unstable();
    (seen[seen.len() / 2], all.allocations as f64 / calls as f64)
}

#[test]
fn the_heap_is_counted() {
    let (block, heap) = counted(|| vec![0u8; 1000]);
    assert_eq!((block.len(), heap), (1000, Heap { allocations: 1, bytes: 1000 }));
}

#[test]
fn check_at_the_door_allocates_nothing() {
    for records in [1, 10_000] {
        let bytes = batch(records, 20);
        let (_, heap) = counted(|| checked(&bytes));
        assert_eq!(heap.allocations, 0, "{records} records");
    }
}

#[test]
fn append_allocates_the_same_for_one_record_and_for_ten_thousand() {
    let mut last = None;
    // The same bytes, so that tail chunks fill at the same pace; only the number of records varies.
    for (records, value_bytes) in [(1, 500_000), (10, 50_000), (10_000, 43)] {
        let append = append(records, value_bytes);
        let mut log = log();
        let (median, mean) = costs(200, |_| {
            stage(&mut log, &append);
            commit(&mut log);
        });
        println!("{records} records: median {median}, mean {mean:.2}");
        assert!(median <= 2, "{records} records: {median} allocations an append");
        let before = last.replace(median);
        assert!(before.is_none_or(|before| before == median), "{before:?} became {median}");
    }
}

#[test]
fn small_appends_share_their_allocations() {
    let append = append(1, 100);
    let mut log = log();
    let (median, mean) = costs(10_000, |call| {
        stage(&mut log, &append);
        if call % 100 == 99 {
            commit(&mut log);
        }
    });
    println!("median {median}, mean {mean:.3}");
    assert_eq!(median, 0, "allocations of most appends");
    assert!(mean < 0.1, "{mean} allocations an append");
}

/// What transactions need costs nobody else anything, and within an open one nothing more.
#[test]
fn batch_of_a_producer_allocates_nothing_within_a_transaction_and_without() {
    for transactional in [false, true] {
        let mut log = log();
        let mut first = append_of_producer(1, 0, transactional);
        first.transaction = guard(&mut log).filter(|_| transactional);
        stage(&mut log, &first);
        let appends: Vec<_> =
            (1..=5_000).map(|n| append_of_producer(1, n, transactional)).collect();
        let (median, mean) = costs(5_000, |call| {
            stage(&mut log, &appends[usize::try_from(call).expect("a small number")]);
            if call % 100 == 99 {
                commit(&mut log);
            }
        });
        println!("transactional {transactional}: median {median}, mean {mean:.3}");
        assert_eq!(median, 0, "allocations of most appends, transactional {transactional}");
        assert!(mean < 0.1, "{mean} allocations an append, transactional {transactional}");
    }
}

#[test]
fn beginning_and_end_of_a_transaction_allocate_a_bounded_number() {
    let mut log = log();
    let appends: Vec<_> = (0..1_000).map(|n| append_of_producer(1, n, true)).collect();
    let (median, mean) = costs(1_000, |call| {
        let append = &appends[usize::try_from(call).expect("a small number")];
        let guard = guard(&mut log);
        let verified = millstream_shards::message::Append {
            batch: append.batch.clone(),
            transaction: guard,
            ..*append
        };
        stage(&mut log, &verified);
        end_transaction(&mut log);
        commit(&mut log);
    });
    println!("median {median}, mean {mean:.2}");
    assert!(median <= 12, "{median}: the guard, the map of open ones, the marker's batch");
}

#[test]
fn read_plan_at_the_tail_allocates_the_same_for_one_record_and_for_ten_thousand() {
    for records in [1, 10_000] {
        let append = append(records, 43);
        let mut log = log();
        for _ in 0..100 {
            stage(&mut log, &append);
        }
        commit(&mut log);
        // The first read freezes what was staged.
        plan(&mut log, 0, 1);
        let mut next = 0;
        let (median, mean) = costs(90, |_| {
            let plan = plan(&mut log, next, 1);
            assert_eq!(plan.chunks.len(), 1);
            next += i64::from(records);
        });
        println!("{records} records: median {median}, mean {mean:.2}");
        assert!(median <= 2, "{records} records: {median} allocations a plan");
        assert!(mean <= 4.0, "{records} records: {mean} allocations a plan");
    }
}

#[test]
fn decoding_a_produce_costs_the_same_for_one_record_and_for_ten_thousand() {
    let cost = |partitions, records| {
        let frame = produce_frame(partitions, records);
        let (found, heap) = counted(|| decode_produce(&frame));
        assert_eq!(found, usize::try_from(partitions).expect("a small number"));
        heap.allocations
    };
    assert_eq!(cost(1, 1), cost(1, 10_000));
    assert!(cost(1, 1) <= 2, "{}: a list of topics, a list of partitions", cost(1, 1));
    assert!(cost(256, 1) <= 10, "{}: the lists grow by doubling at the most", cost(256, 1));
}

#[test]
fn decoding_a_fetch_allocates_its_lists_and_no_more() {
    let cost = |partitions| {
        counted(|| decode_fetch(&fetch_frame(partitions))).1.allocations
            - counted(|| fetch_frame(partitions)).1.allocations
    };
    assert!(cost(1) <= 3, "{}", cost(1));
    assert!(cost(256) <= 12, "{}", cost(256));
}

#[test]
fn encoding_an_answer_into_a_used_buffer_allocates_nothing_but_the_places_of_the_records() {
    let response = produce_response(256);
    let buffer = encode_produce(&response, Vec::new());
    let (_, heap) = counted(|| encode_produce(&response, buffer));
    assert_eq!(heap.allocations, 0, "a Produce answer");
    for (partitions, bound) in [(1, 1), (256, 8)] {
        let response = fetch_response(partitions);
        let buffer = encode_fetch(&response, Vec::new());
        let (_, heap) = counted(|| encode_fetch(&response, buffer));
        assert!(heap.allocations <= bound, "Fetch of {partitions}: {}", heap.allocations);
    }
}

#[test]
fn a_look_into_an_index_allocates_nothing() {
    let index = index();
    let target = millstream_io::units::Offset::at(1_234_567);
    let (found, heap) = counted(|| index.floor(target));
    assert_eq!(heap.allocations, 0);
    assert!(found.base <= target);
}
