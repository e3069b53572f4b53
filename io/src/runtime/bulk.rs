//! Turns at sending much: however many connections have much to send, a core looks at its rings, and
//! serves whoever has come meanwhile, behind each few pieces of it.
//!
//! That each connection breathes for itself is not enough: while it is parked the next one sends, and
//! with a hundred of them the core looks at its rings behind a hundred pieces.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Poll, Waker};
use std::time::Instant;

use super::breathe::{breathe, is_stale};
use super::limits::{BREATHE_BYTES, BULK_TURNS};

/// The right to send one piece now. Given on by [`Turn::end`], or when it is dropped.
#[derive(Debug)]
#[must_use = "a turn is given on when it is dropped"]
pub(crate) struct Turn(());

impl Turn {
    /// Waits for a turn of this core; they are given in the order in which they were asked for. Nothing
    /// that waits for a peer may be awaited during one.
    ///
    /// Costs no allocation once the queue has grown to the connections that wait at a time.
    pub(crate) async fn begin() -> Turn {
        let mut asked = Asked { ticket: None };
        poll_fn(|cx| TURNS.with_borrow_mut(|turns| turns.poll(&mut asked.ticket, cx.waker())))
            .await;
        Turn(())
    }

    /// Ends a turn in which `bytes` were sent. When this core has sent [`BREATHE_BYTES`] so since it
    /// last breathed, or has not looked at its rings for long, it is given on only behind a breath.
    pub(crate) async fn end(self, bytes: usize) {
        let is_due = TURNS.with_borrow_mut(|turns| {
            turns.sent += bytes;
            let is_due = turns.sent >= BREATHE_BYTES || is_stale(Instant::now());
            if is_due {
                turns.sent = 0;
            }
            is_due
        });
        if is_due {
            breathe().await;
        }
        drop(self);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        TURNS.with_borrow_mut(Turns::give_back);
    }
}

/// A place in the queue, given up when its future is dropped.
struct Asked {
    ticket: Option<u64>,
}

impl Drop for Asked {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            TURNS.with_borrow_mut(|turns| turns.forget(ticket));
        }
    }
}

#[derive(Debug, Default)]
struct Turns {
    taken: usize,
    /// Bytes since the last breath.
    sent: usize,
    tickets: u64,
    /// In the order of their tickets. Those in front that have a turn to take were woken.
    waiting: VecDeque<(u64, Waker)>,
}

impl Turns {
    /// `ticket` is none as long as nothing was asked, and again when the turn is taken.
    fn poll(&mut self, ticket: &mut Option<u64>, waker: &Waker) -> Poll<()> {
        let place = match *ticket {
            Some(held) => self.place(held),
            None => self.waiting.len(),
        };
        if place < self.free() {
            if ticket.take().is_some() {
                self.waiting.remove(place);
            }
            self.taken += 1;
            return Poll::Ready(());
        }
        match ticket {
            Some(_) => self.waiting[place].1.clone_from(waker),
            None => {
                *ticket = Some(self.tickets);
                self.waiting.push_back((self.tickets, waker.clone()));
                self.tickets += 1;
            }
        }
        Poll::Pending
    }

    fn free(&self) -> usize {
        BULK_TURNS - self.taken
    }

    fn place(&self, ticket: u64) -> usize {
        match self.waiting.binary_search_by_key(&ticket, |(ticket, _)| *ticket) {
            Ok(place) => place,
            Err(_) => panic!("ticket {ticket} is not in the queue: {:?}", self.waiting),
        }
    }

    fn give_back(&mut self) {
        assert!(self.taken > 0, "a turn is given back of {}", self.taken);
        self.taken -= 1;
        self.wake_next();
    }

    fn forget(&mut self, ticket: u64) {
        let place = self.place(ticket);
        self.waiting.remove(place);
        self.wake_next();
    }

    /// Whoever came to stand at the last place that has a turn.
    fn wake_next(&self) {
        if let Some(last) = self.free().checked_sub(1)
            && let Some((_, waker)) = self.waiting.get(last)
        {
            waker.wake_by_ref();
        }
    }
}

thread_local! {
    static TURNS: RefCell<Turns> = RefCell::default();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::executor::{Queue, run_alone, sleep, spawn};
    use std::cell::Cell;
    use std::rc::Rc;
    use std::time::Duration;

    /// Pieces that each connection sends, and connections.
    const PIECES: usize = 20;
    const CONNECTIONS: usize = 40;

    /// While many have much to send, somebody whose timer ends is served behind a few pieces, not
    /// behind one of each.
    #[test]
    fn core_looks_at_its_rings_behind_a_few_pieces_however_many_send() {
        let worst = run_alone(|_| async {
            let pieces = Rc::new(Cell::new(0_usize));
            let senders: Vec<_> = (0..CONNECTIONS)
                .map(|_| {
                    let pieces = pieces.clone();
                    spawn(Queue::Serve, async move {
                        for _ in 0..PIECES {
                            let turn = Turn::begin().await;
                            pieces.set(pieces.get() + 1);
                            turn.end(BREATHE_BYTES).await;
                        }
                    })
                })
                .collect();
            let mut worst = 0;
            while pieces.get() < CONNECTIONS * PIECES {
                let before = pieces.get();
                sleep(Duration::from_micros(1)).await;
                worst = worst.max(pieces.get() - before);
            }
            for sender in senders {
                sender.await;
            }
            worst
        });
        // A timer is late by some looks at most. Without turns it is 40 and more.
        assert!(worst <= 16, "{worst} pieces went before somebody else was served");
    }

    #[test]
    fn who_gives_up_waiting_holds_up_nobody() {
        run_alone(|_| async {
            let mut held: Vec<Turn> = Vec::new();
            for _ in 0..BULK_TURNS {
                held.push(Turn::begin().await);
            }
            let mut given_up = Box::pin(Turn::begin());
            let mut next = Box::pin(Turn::begin());
            assert!(futures_lite::future::poll_once(&mut given_up).await.is_none());
            assert!(futures_lite::future::poll_once(&mut next).await.is_none());
            held.pop();
            drop(given_up);
            drop(next.await);
            held.clear();
            assert_eq!(TURNS.with_borrow(|turns| (turns.taken, turns.waiting.len())), (0, 0));
        });
    }

    #[test]
    fn turns_come_in_the_order_in_which_they_were_asked_for() {
        let order = run_alone(|_| async {
            let order = Rc::new(RefCell::new(Vec::new()));
            let tasks: Vec<_> = (0..10_usize)
                .map(|number| {
                    let order = order.clone();
                    spawn(Queue::Serve, async move {
                        for _ in 0..3 {
                            let turn = Turn::begin().await;
                            order.borrow_mut().push(number);
                            turn.end(BREATHE_BYTES).await;
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await;
            }
            order.take()
        });
        for (round, numbers) in order.chunks(10).enumerate() {
            let mut sorted = numbers.to_vec();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..10).collect::<Vec<_>>(), "round {round}: {order:?}");
        }
    }
}
