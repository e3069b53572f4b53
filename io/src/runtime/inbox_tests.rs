use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::*;
use crate::runtime::executor::{CoreSetup, sleep, start, timeout};
use crate::runtime::oneshot::{Promise, oneshot};
use crate::runtime::stop::Stop;

struct Call {
    number: u64,
    promise: Promise<u64>,
}

/// One CPU for each core of the test; the same CPU twice where the machine has too few.
fn cpus(count: usize) -> Vec<usize> {
    let allowed = crate::runtime::affinity().unwrap();
    (0..count).map(|n| allowed[n % allowed.len()]).collect()
}

/// Hands each core its seat.
fn seats<M: Send + 'static>(seats: Vec<Seat<M>>) -> Arc<Mutex<Vec<Option<Seat<M>>>>> {
    Arc::new(Mutex::new(seats.into_iter().map(Some).collect()))
}

fn take<M>(table: &Mutex<Vec<Option<Seat<M>>>>, core: ShardId) -> Seat<M> {
    table.lock().unwrap()[core.to_usize()].take().unwrap()
}

#[test]
fn every_call_is_answered_once_and_in_the_order_of_its_sends() {
    const CALLS: u64 = 20_000;
    let (table, _post) = mesh::<Call>(2);
    let table = seats(table);
    let cores = start(&CoreSetup::new(cpus(2)), move |core| async move {
        let (post, mut mailbox) = take(&table, core.index).open();
        if core.index == ShardId::new(1) {
            let mut expected = 0;
            while expected < CALLS {
                for call in mailbox.receive().await {
                    assert_eq!(call.number, expected, "calls arrive in order");
                    expected += 1;
                    call.promise.send(call.number * 2).unwrap();
                }
            }
            return 0;
        }
        let mut replies = Vec::new();
        for number in 0..CALLS {
            let (promise, reply) = oneshot();
            post.send(ShardId::new(1), Call { number, promise }).await.unwrap();
            replies.push(reply);
        }
        let mut sum = 0;
        for reply in replies {
            sum += reply.await.unwrap();
        }
        sum
    })
    .unwrap();
    let sum: u64 = cores.join().into_iter().map(|sum| sum.unwrap()).sum();
    assert_eq!(sum, CALLS * (CALLS - 1));
}

#[test]
fn what_one_pass_produces_leaves_as_one_bundle() {
    let (table, _post) = mesh::<usize>(2);
    let table = seats(table);
    let cores = start(&CoreSetup::new(cpus(2)), move |core| async move {
        let (post, mut mailbox) = take(&table, core.index).open();
        if core.index == ShardId::new(0) {
            sleep(Duration::from_millis(20)).await;
            for number in 0..100 {
                post.send(ShardId::new(1), number).await.unwrap();
            }
            sleep(Duration::from_millis(20)).await;
            return 0;
        }
        mailbox.receive().await.len()
    })
    .unwrap();
    let lengths: Vec<usize> = cores.join().into_iter().map(|n| n.unwrap()).collect();
    assert_eq!(lengths[1], 100);
}

#[test]
fn full_mailbox_makes_the_sender_wait_and_loses_nothing() {
    const MESSAGES: usize = 20 * OUTBOX_MESSAGES;
    let (table, _post) = mesh::<usize>(2);
    let table = seats(table);
    let sent = Arc::new(AtomicUsize::new(0));
    let cores = start(&CoreSetup::new(cpus(2)), move |core| async move {
        let (post, mut mailbox) = take(&table, core.index).open();
        if core.index == ShardId::new(0) {
            for number in 0..MESSAGES * 4 {
                let message = vec![number; 1].len() * number;
                post.send(ShardId::new(1), message).await.unwrap();
                sent.fetch_add(1, Ordering::SeqCst);
                // A bundle a message, so that the mailbox fills by bundles too.
                if number % 1000 == 0 {
                    sleep(Duration::from_micros(10)).await;
                }
            }
            while post.waiting(ShardId::new(1)) > 0 {
                sleep(Duration::from_millis(1)).await;
            }
            sleep(Duration::from_millis(50)).await;
            return 0;
        }
        sleep(Duration::from_millis(200)).await;
        let bound = (MAILBOX_BUNDLES_PER_LANE * 2 + FOREIGN_BUNDLES + 2) * OUTBOX_MESSAGES;
        let waiting = sent.load(Ordering::SeqCst);
        assert!(waiting <= bound, "{waiting} messages wait, the bound is {bound}");
        let mut next = 0;
        while next < MESSAGES * 4 {
            for number in mailbox.receive().await {
                assert_eq!(number, next);
                next += 1;
            }
        }
        next
    })
    .unwrap();
    let ends: Vec<usize> = cores.join().into_iter().map(|n| n.unwrap()).collect();
    assert_eq!(ends[1], MESSAGES * 4);
}

#[test]
fn closed_mailbox_gives_the_message_back_and_breaks_the_open_promises() {
    let (table, foreign) = mesh::<Call>(2);
    let table = seats(table);
    let cores = start(&CoreSetup::new(cpus(2)), move |core| async move {
        let (post, mailbox) = take(&table, core.index).open();
        if core.index == ShardId::new(1) {
            sleep(Duration::from_millis(50)).await;
            drop(mailbox);
            return true;
        }
        let (promise, reply) = oneshot();
        post.send(ShardId::new(1), Call { number: 1, promise }).await.unwrap();
        let answer = timeout(Duration::from_secs(20), reply).await.unwrap();
        assert!(answer.is_err(), "the mailbox was dropped with the call in it");
        loop {
            let (promise, _reply) = oneshot();
            match post.send(ShardId::new(1), Call { number: 2, promise }).await {
                Ok(()) => sleep(Duration::from_millis(1)).await,
                Err(closed) => return closed.message.number == 2,
            }
        }
    })
    .unwrap();
    assert!(cores.join().into_iter().all(|end| end.unwrap()));
    let (promise, reply) = oneshot();
    assert!(foreign.send(ShardId::new(1), Call { number: 3, promise }).is_err());
    assert!(reply.wait().is_err());
}

#[test]
fn foreign_threads_call_a_core_and_wait_for_its_answer() {
    let (table, post) = mesh::<Call>(1);
    let table = seats(table);
    let stop = Stop::new();
    let word = stop.clone();
    let cores = start(&CoreSetup::new(cpus(1)), move |core| async move {
        let (_post, mut mailbox) = take(&table, core.index).open();
        let serve = async {
            loop {
                for call in mailbox.receive().await {
                    let _ = call.promise.send(call.number + 1);
                }
            }
        };
        futures_lite::future::or(serve, word.stopped()).await;
    })
    .unwrap();
    let callers: Vec<_> = (0..4_u64)
        .map(|caller| {
            let post = post.clone();
            std::thread::spawn(move || {
                for n in 0..500 {
                    let (promise, reply) = oneshot();
                    let number = caller * 1000 + n;
                    post.send(ShardId::new(0), Call { number, promise }).unwrap();
                    assert_eq!(reply.wait(), Ok(number + 1));
                }
            })
        })
        .collect();
    callers.into_iter().for_each(|caller| caller.join().unwrap());
    stop.trigger();
    cores.join().pop().unwrap().unwrap();
}

/// Not a test but a measurement, for `runtime/README.md`: calls from one core to another and
/// back, so many in flight.
#[test]
#[ignore = "a measurement; `./tests/run --long` makes it"]
fn calls_between_cores_measured() {
    for (spin, in_flight) in [(None, 1), (None, 16), (None, 256), (Some(50), 1)] {
        let (table, _post) = mesh::<Call>(2);
        let table = seats(table);
        let stop = Stop::new();
        let setup = CoreSetup { spin: spin.map(Duration::from_micros), ..CoreSetup::new(cpus(2)) };
        let cores = start(&setup, move |core| async move {
            let (post, mut mailbox) = take(&table, core.index).open();
            if core.index == ShardId::new(1) {
                let serve = async {
                    loop {
                        for call in mailbox.receive().await {
                            let _ = call.promise.send(call.number);
                        }
                    }
                };
                futures_lite::future::or(serve, stop.stopped()).await;
                return Vec::new();
            }
            let end = std::time::Instant::now() + Duration::from_secs(3);
            let tasks: Vec<_> = (0..in_flight)
                .map(|_| {
                    let post = post.clone();
                    crate::runtime::spawn(crate::runtime::Queue::Serve, async move {
                        let mut times = Vec::new();
                        while std::time::Instant::now() < end {
                            let begin = std::time::Instant::now();
                            let (promise, reply) = oneshot();
                            let to = ShardId::new(1);
                            post.send(to, Call { number: 1, promise }).await.unwrap();
                            reply.await.unwrap();
                            times.push(begin.elapsed());
                        }
                        times
                    })
                })
                .collect();
            let mut times = Vec::new();
            for task in tasks {
                times.append(&mut task.await);
            }
            stop.trigger();
            times
        })
        .unwrap();
        let mut times = cores.join().swap_remove(0).unwrap();
        times.sort();
        println!(
            "spin {spin:?} us, {in_flight} in flight: {} calls/s, p50 {:?}, p99 {:?}",
            times.len() / 3,
            times[times.len() / 2],
            times[times.len() * 99 / 100]
        );
    }
}
