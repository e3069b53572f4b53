use std::sync::mpsc;
use std::time::Duration;

use super::*;
use crate::runtime::executor::{CoreSetup, Queue, run_alone, sleep, spawn, start, timeout};
use crate::runtime::oneshot::{Promise, Reply, oneshot};
use crate::runtime::{affinity, mesh, pause_thread};
use crate::units::ShardId;

/// Slots of this core: all, and those that are free.
fn slots() -> (usize, usize) {
    HERE.with_borrow(|here| {
        let here = here.as_ref().unwrap();
        let table = here.slots.borrow();
        (table.slots.len(), table.free.len())
    })
}

/// A thread that answers promises in bunches, late or early.
fn answerer() -> (mpsc::Sender<Promise<u64>>, std::thread::JoinHandle<()>) {
    let (give, take) = mpsc::channel::<Promise<u64>>();
    let thread = std::thread::spawn(move || {
        for (number, promise) in take.into_iter().enumerate() {
            if number % 64 == 0 {
                std::thread::yield_now();
            }
            if number % 7 != 0 {
                let _ = promise.send(number as u64);
            } // Every seventh is broken instead.
        }
    });
    (give, thread)
}

#[test]
fn every_foreign_answer_wakes_its_task_and_slots_are_reused() {
    let (give, thread) = answerer();
    run_alone(move |_| async move {
        let tasks: Vec<_> = (0..50)
            .map(|_| {
                let give = give.clone();
                spawn(Queue::Serve, async move {
                    let mut broken = 0;
                    for _ in 0..500 {
                        let (promise, reply) = oneshot();
                        give.send(promise).unwrap();
                        let answer = timeout(Duration::from_secs(20), reply).await;
                        broken += u64::from(answer.expect("an answer was lost").is_err());
                    }
                    broken
                })
            })
            .collect();
        let mut broken = 0;
        for task in tasks {
            broken += task.await;
        }
        assert_eq!(broken, (50_u64 * 500).div_ceil(7));
        let (all, free) = slots();
        assert!(all <= 50 && free == all, "{all} slots, {free} free");
    });
    thread.join().unwrap();
}

#[test]
fn waits_given_up_in_the_middle_leave_no_slot_behind() {
    let (give, thread) = answerer();
    run_alone(move |_| async move {
        for round in 0..3000_u64 {
            let (promise, reply) = oneshot();
            let late = round % 3 == 0;
            let held =
                if late { Some(promise) } else { give.send(promise).map(|()| None).unwrap() };
            let wait = timeout(Duration::from_micros(round % 50), reply).await;
            assert!(!late || wait.is_err());
            drop(held);
        }
        sleep(Duration::from_millis(20)).await;
        let (all, free) = slots();
        assert!(all <= 4 && free == all, "{all} slots, {free} free");
    });
    thread.join().unwrap();
}

#[test]
fn wait_begun_on_one_core_may_end_on_another_or_on_a_thread() {
    let cpus = affinity().unwrap();
    let (seats, post) = mesh::<Reply<u64>>(1);
    let seat = Arc::new(Mutex::new(seats.into_iter().next()));
    let (first, second) = (oneshot(), oneshot());
    let replies = Arc::new(Mutex::new(Some((first.1, second.1))));
    let (to_thread, on_thread) = mpsc::channel::<Reply<u64>>();
    let stop = crate::runtime::Stop::new();
    let word = stop.clone();
    let receiver = start(&CoreSetup::new(vec![cpus[cpus.len() - 1]]), {
        move |_| async move {
            let (_post, mut mailbox) = seat.lock().unwrap().take().unwrap().open();
            let reply = mailbox.receive().await.pop().unwrap();
            let answer = timeout(Duration::from_secs(20), reply).await.unwrap();
            word.trigger();
            answer
        }
    });
    let giver = start(&CoreSetup::new(vec![cpus[0]]), move |_| async move {
        let (mut one, mut two) = replies.lock().unwrap().take().unwrap();
        for reply in [&mut one, &mut two] {
            let early = futures_lite::future::poll_once(reply).await;
            assert!(early.is_none(), "polled here first");
        }
        assert_eq!(slots().0, 2);
        post.send_async(ShardId::new(0), one).await.unwrap();
        to_thread.send(two).unwrap();
        stop.stopped().await;
        // The slots were given up by other threads; the pump frees them.
        sleep(Duration::from_millis(50)).await;
        let (all, free) = slots();
        assert_eq!(free, all, "of {all} slots");
    });
    let two = on_thread.recv().unwrap();
    pause_thread(Duration::from_millis(20));
    first.0.send(1).unwrap();
    second.0.send(2).unwrap();
    assert_eq!(two.wait(), Ok(2));
    assert_eq!(receiver.unwrap().join().pop().unwrap().unwrap(), Ok(1));
    giver.unwrap().join().pop().unwrap().unwrap();
}

#[test]
fn answers_to_a_core_that_has_ended_are_dropped_quietly() {
    let (promise, reply) = oneshot::<u64>();
    let slot = Arc::new(Mutex::new(Some(reply)));
    let kept = run_alone(move |_| async move {
        let mut reply = slot.lock().unwrap().take().unwrap();
        assert!(futures_lite::future::poll_once(&mut reply).await.is_none());
        Some(reply)
    });
    promise.send(3).unwrap();
    assert_eq!(kept.unwrap().wait(), Ok(3));
}
