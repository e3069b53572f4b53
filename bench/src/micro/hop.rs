//! A question from one core to another and back, over the mesh that requests take.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use millstream_io::runtime::{
    Core, CoreSetup, Mailbox, Post, Promise, Seat, affinity, mesh, oneshot, start,
};
use millstream_io::units::ShardId;

use crate::allocations::{Heap, counted};

/// What the asking core sends.
enum Call {
    Ask(u64, Promise<u64>),
    Stop,
}

/// What hops cost: for each, and of the asking core alone.
#[derive(Clone, Copy, Debug)]
pub struct Hops {
    pub hops: u64,
    pub elapsed: Duration,
    /// What a promise and its reply ask of the heap.
    pub heap: Heap,
    /// Whether the two cores shared one CPU, which makes of a hop a change of threads.
    pub one_cpu: bool,
}

/// Asks `hops` times, `at_once` questions each time: hops of one pass share a bundle.
///
/// # Errors
/// When the cores cannot be set up.
pub fn measure(hops: u64, at_once: usize) -> Result<Hops> {
    let cpus = affinity()?;
    let (first, second) = (*cpus.first().context("no CPU")?, *cpus.last().context("no CPU")?);
    let (seats, _foreign) = mesh::<Call>(2);
    let seats: Arc<Seats> = Arc::new(Mutex::new(seats.into_iter().map(Some).collect()));
    let running = start(&CoreSetup::new(vec![first, second]), move |core: Core| async move {
        let seat = take(&seats, core.index.to_usize());
        let (post, mailbox) = seat.map(|seat| seat.open())?;
        if core.index.to_usize() == 0 {
            Some(ask(&post, hops, at_once).await)
        } else {
            answer(mailbox).await;
            None
        }
    })
    .map_err(|error| anyhow!("{error}"))?;
    let mut results = running.join().into_iter();
    let asked = results.next().context("no core")?.map_err(|error| anyhow!("{error}"))?;
    let (elapsed, heap) = asked.context("the asking core has no seat")??;
    Ok(Hops { hops, elapsed, heap, one_cpu: first == second })
}

type Seats = Mutex<Vec<Option<Seat<Call>>>>;

fn take(seats: &Seats, core: usize) -> Option<Seat<Call>> {
    seats.lock().unwrap_or_else(PoisonError::into_inner)[core].take()
}

async fn ask(post: &Post<Call>, hops: u64, at_once: usize) -> Result<(Duration, Heap)> {
    let to = ShardId::new(1);
    let mut replies = Vec::with_capacity(at_once);
    let begun = Instant::now();
    let mut heap = Heap::default();
    let mut number = 0;
    while number < hops {
        for _ in 0..at_once {
            let ((promise, reply), cost) = counted(oneshot);
            heap.allocations += cost.allocations;
            heap.bytes += cost.bytes;
            let sent = post.send(to, Call::Ask(number, promise)).await;
            ensure!(sent.is_ok(), "the other core is gone");
            replies.push((number, reply));
            number += 1;
        }
        for (asked, reply) in replies.drain(..) {
            let answer = reply.await.map_err(|_| anyhow!("no answer"))?;
            ensure!(answer == asked, "{asked} was answered by {answer}");
        }
    }
    let elapsed = begun.elapsed();
    ensure!(post.send(to, Call::Stop).await.is_ok(), "the other core is gone");
    // The lane's task takes it along once this one has had its turn.
    millstream_io::runtime::breathe().await;
    Ok((elapsed, heap))
}

async fn answer(mut mailbox: Mailbox<Call>) {
    loop {
        for call in mailbox.receive().await {
            match call {
                // Who asked may be gone.
                Call::Ask(number, promise) => drop(promise.send(number)),
                Call::Stop => return,
            }
        }
    }
}
