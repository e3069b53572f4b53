//! Messages between cores: a mesh of bounded mailboxes, one a core, with bundling.
//!
//! A message is put in the outbox of its lane (this core to that core). A lane's task takes the
//! whole outbox once the tasks that are runnable now have had their turn, and sends it as one
//! bundle, so the cost of a hop is paid once for all that one pass of the executor produced.
//! While a mailbox is full its lanes wait and their bundles grow; while an outbox is full the
//! next sender waits. Nothing is dropped. Answers travel by `oneshot`, which never waits, so two
//! cores that are full of each other's requests cannot lock up.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use super::breathe::checkpoint;
use super::executor::{self, Task, spawn};
use super::limits::{FOREIGN_BUNDLES, MAILBOX_BUNDLES_PER_LANE, OUTBOX_MESSAGES};
use super::queue::{Queue, Refused};
use super::wake::beat;
use crate::units::ShardId;

/// What leaves one core for another at once, in the order it was sent.
pub type Bundle<M> = Vec<M>;

/// A mesh of `cores` mailboxes: one seat for each core, in order, and the post for everybody
/// else.
pub fn mesh<M: Send + 'static>(cores: usize) -> (Vec<Seat<M>>, ForeignPost<M>) {
    assert!(cores > 0, "a mesh of {cores} cores has no mailbox");
    let capacity = MAILBOX_BUNDLES_PER_LANE * cores + FOREIGN_BUNDLES;
    let mailboxes: Vec<Queue<Bundle<M>>> = (0..cores).map(|_| Queue::bounded(capacity)).collect();
    let seats = mailboxes
        .iter()
        .map(|own| Seat { own: Mailbox { bundles: own.clone() }, all: mailboxes.clone() })
        .collect();
    (seats, ForeignPost { mailboxes })
}

/// One core's place in the mesh, before it is taken. Move it to its core. Dropping it closes the
/// core's mailbox.
pub struct Seat<M> {
    own: Mailbox<M>,
    all: Vec<Queue<Bundle<M>>>,
}

impl<M: Send + 'static> Seat<M> {
    /// Takes the place on the core this runs on: starts one task a lane.
    pub fn open(self) -> (Post<M>, Mailbox<M>) {
        let (lanes, tasks) = self.all.into_iter().map(open_lane).unzip();
        (Post(Rc::new(PostInner { lanes, _tasks: tasks })), self.own)
    }
}

/// The sending side of one core. Clones share the outboxes. Dropping the last clone drops what
/// is still in them, and the senders' replies with it.
pub struct Post<M>(Rc<PostInner<M>>);

impl<M> Clone for Post<M> {
    fn clone(&self) -> Post<M> {
        Post(self.0.clone())
    }
}

impl<M> Post<M> {
    pub fn cores(&self) -> usize {
        self.0.lanes.len()
    }

    /// Puts a message on its way; waits while the outbox is full. When this returns, the order
    /// is fixed: messages of one core to another arrive in the order in which their sends
    /// returned.
    ///
    /// Errors: the other core has closed its mailbox; the message is given back.
    pub async fn send(&self, to: ShardId, message: M) -> Result<(), MailboxClosed<M>> {
        let lane = &self.0.lanes[to.to_usize()];
        poll_fn(|cx| {
            if lane.closed.get() || lane.outbox.borrow().len() < OUTBOX_MESSAGES {
                return Poll::Ready(());
            }
            lane.room.borrow_mut().push(cx.waker().clone());
            Poll::Pending
        })
        .await;
        if lane.closed.get() {
            return Err(MailboxClosed { to, message });
        }
        lane.outbox.borrow_mut().push(message);
        if let Some(sleeper) = lane.sleeper.take() {
            sleeper.wake();
        }
        Ok(())
    }

    /// Messages that wait in the outbox of the lane to that core.
    pub fn waiting(&self, to: ShardId) -> usize {
        self.0.lanes[to.to_usize()].outbox.borrow().len()
    }
}

/// The sending side of threads that are no cores. Each message is a bundle of its own.
pub struct ForeignPost<M> {
    mailboxes: Vec<Queue<Bundle<M>>>,
}

impl<M> Clone for ForeignPost<M> {
    fn clone(&self) -> ForeignPost<M> {
        ForeignPost { mailboxes: self.mailboxes.clone() }
    }
}

impl<M: Send + 'static> ForeignPost<M> {
    pub fn cores(&self) -> usize {
        self.mailboxes.len()
    }

    /// Sends, and blocks the calling thread while the mailbox is full. Never call it on a core.
    ///
    /// Errors: the core has closed its mailbox; the message is given back.
    pub fn send(&self, to: ShardId, message: M) -> Result<(), MailboxClosed<M>> {
        let sent = self.mailboxes[to.to_usize()].give_blocking(vec![message]);
        sent.map_err(|bundle| closed(to, bundle))
    }

    /// Sends; waits while the mailbox is full.
    pub async fn send_async(&self, to: ShardId, message: M) -> Result<(), MailboxClosed<M>> {
        let sent = self.mailboxes[to.to_usize()].give(vec![message]).await;
        sent.map_err(|bundle| closed(to, bundle))
    }
}

/// The receiving side of one core. Dropping it closes the mailbox: what is in it is dropped
/// together with its promises, and senders get their messages back from then on.
pub struct Mailbox<M> {
    bundles: Queue<Bundle<M>>,
}

impl<M> Mailbox<M> {
    /// The next bundle, never empty. It waits for ever when nobody sends: end it by the word to
    /// stop. Dropping the future loses nothing.
    pub async fn receive(&mut self) -> Bundle<M> {
        beat();
        checkpoint().await;
        match self.bundles.take().await {
            Some(bundle) => bundle,
            None => unreachable!("a mailbox is closed by its own drop only"),
        }
    }

    /// The next bundle if there is one.
    pub fn try_receive(&mut self) -> Option<Bundle<M>> {
        self.bundles.try_take().ok()
    }

    /// Bundles that wait.
    pub fn waiting(&self) -> usize {
        self.bundles.len()
    }
}

impl<M> Drop for Mailbox<M> {
    fn drop(&mut self) {
        self.bundles.close_and_clear();
    }
}

/// The core at the other end takes no more messages: it is stopping, or has stopped.
pub struct MailboxClosed<M> {
    pub to: ShardId,
    pub message: M,
}

impl<M> fmt::Debug for MailboxClosed<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MailboxClosed {{ to: {} }}", self.to)
    }
}

impl<M> fmt::Display for MailboxClosed<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "core {} takes no more messages: it is stopping", self.to)
    }
}

impl<M> std::error::Error for MailboxClosed<M> {}

struct PostInner<M> {
    lanes: Vec<Rc<Lane<M>>>,
    /// Dropped, and so cancelled, with the last clone of the post.
    _tasks: Vec<Task<()>>,
}

struct Lane<M> {
    outbox: RefCell<Vec<M>>,
    /// The lane's task, while it waits for a message.
    sleeper: Cell<Option<Waker>>,
    /// Senders that wait for room.
    room: RefCell<Vec<Waker>>,
    closed: Cell<bool>,
}

fn open_lane<M: Send + 'static>(mailbox: Queue<Bundle<M>>) -> (Rc<Lane<M>>, Task<()>) {
    let lane = Rc::new(Lane {
        outbox: RefCell::new(Vec::new()),
        sleeper: Cell::new(None),
        room: RefCell::new(Vec::new()),
        closed: Cell::new(false),
    });
    let task = spawn(executor::Queue::Commit, carry(lane.clone(), mailbox));
    (lane, task)
}

/// The task of a lane.
async fn carry<M>(lane: Rc<Lane<M>>, mailbox: Queue<Bundle<M>>) {
    loop {
        let bundle = poll_fn(|cx| {
            let bundle = lane.outbox.take();
            if !bundle.is_empty() {
                return Poll::Ready(bundle);
            }
            lane.sleeper.set(Some(cx.waker().clone()));
            Poll::Pending
        })
        .await;
        wake_all(&lane.room);
        let unsent = match mailbox.try_give(bundle) {
            Ok(()) => continue,
            Err(Refused::Closed(bundle)) => bundle,
            Err(Refused::Full(bundle)) => match mailbox.give(bundle).await {
                Ok(()) => continue,
                Err(bundle) => bundle,
            },
        };
        lane.closed.set(true);
        let waiting = lane.outbox.take();
        wake_all(&lane.room);
        drop((unsent, waiting)); // With their promises: the callers are told.
        return;
    }
}

fn wake_all(room: &RefCell<Vec<Waker>>) {
    let waiting = room.take();
    waiting.into_iter().for_each(Waker::wake);
}

fn closed<M>(to: ShardId, mut bundle: Bundle<M>) -> MailboxClosed<M> {
    match bundle.pop() {
        Some(message) => MailboxClosed { to, message },
        None => unreachable!("a foreign bundle holds one message"),
    }
}

#[cfg(test)]
#[path = "inbox_tests.rs"]
mod tests;
