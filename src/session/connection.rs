//! One connection: reads requests, begins them in order, answers them in order.
//!
//! Reading and answering run side by side in one task. The reader begins a Produce at once and
//! reads on when its order is settled; every other request is begun when its turn to be answered
//! comes, as in Apache Kafka, which has one request of a connection at work at a time.

use super::admission::Ticket;
use super::door::{Door, Session};
use super::frame_buffer::{Cut, FrameBuffer};
use super::limits::{READ_ROOM_FIRST, REFUSAL_PAUSE, REFUSALS_PER_SECOND_MAX};
use super::marks::{Marks, Reading};
use super::memory::Held;
use super::pipeline::{InFlight, Pipeline, Work};
use super::send::Sender;
use crate::api::{self, Answer, Call, Caller, Close, logins};
use crate::wire::frame::FrameError;
use bytes::Bytes;
use futures_lite::future::{poll_once, zip};
use millstream_io::net::{Conn, ConnError, ReadHalf, WriteHalf};
use millstream_io::runtime::sleep;
use millstream_io::{log_limited, runtime::log};
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

/// Serves a connection until one side ends it. `ticket` counts it.
pub async fn serve(conn: Conn, door: Rc<Door>, listener: Rc<str>, ticket: Ticket) {
    let connection = door.number_connection();
    let login = door.login(&listener);
    let peer = conn.peer();
    let (reader, writer) = conn.split();
    let session = Rc::new(Session {
        port: peer.port(),
        caller: Rc::new(Caller::new(connection, peer.ip(), listener, login)),
        pipeline: Pipeline::default(),
        marks: Marks::new(door.beat.get()),
        closer: reader.closer(),
    });
    door.add(session.clone());
    let ends = zip(read(reader, &door, &session), write(writer, &door, &session)).await;
    door.remove(connection);
    if let (Some(refusal), _) | (_, Some(refusal)) = &ends {
        log_refusal(&session, refusal);
        if matches!(refusal, Refusal::Close(Close::NotServed { .. })) {
            // Some clients send the same request again at once, for ever.
            door.refusals.set(door.refusals.get().saturating_add(1));
            if door.refusals.get() > REFUSALS_PER_SECOND_MAX {
                sleep(REFUSAL_PAUSE).await;
            }
        }
    }
    drop(ticket);
}

/// Why we ended a connection that the peer would have gone on with.
enum Refusal {
    Frame(FrameError),
    Close(Close),
}

fn log_refusal(session: &Session, refusal: &Refusal) {
    let peer = session.peer();
    match refusal {
        Refusal::Frame(error) => log_limited!(
            log::warn("session", format_args!("closed a connection: {error}")).field("peer", peer)
        ),
        Refusal::Close(Close::Encode(error)) => log_limited!(
            log::error("session", "an answer did not fit its version: report this")
                .field("peer", peer)
                .field("reason", error)
        ),
        Refusal::Close(close) => log_limited!(
            log::warn("session", format_args!("closed a connection: {close}")).field("peer", peer)
        ),
    }
}

/// The reading side. Ends when the peer sends no more, or sends what is no request.
async fn read(mut reader: ReadHalf, door: &Rc<Door>, session: &Rc<Session>) -> Option<Refusal> {
    let mut buffer = FrameBuffer::default();
    let refusal = loop {
        session.pipeline.room().await;
        if !session.may_send_on() {
            // Before a login one request comes at a time, and what it does decides on the next.
            // On the heap while it lasts, as all that is only for logins.
            Box::pin(session.pipeline.idle()).await;
        }
        if session.pipeline.is_closed() {
            break None;
        }
        match next_frame(&mut reader, &mut buffer, door, session).await {
            Ok(Some((frame, held))) => {
                session.marks.set(Reading::Paused);
                if let Err(close) = begin(frame, held, door, session).await {
                    break Some(Refusal::Close(close));
                }
            }
            Ok(None) => break None,
            Err(NoFrame::Frame(error)) => break Some(Refusal::Frame(error)),
            Err(NoFrame::Conn(error)) => {
                log_lost(session, &error);
                break None;
            }
        }
    };
    session.marks.set(Reading::Paused);
    session.pipeline.close();
    session.caller.hurry.set();
    refusal
}

enum NoFrame {
    Frame(FrameError),
    Conn(ConnError),
}

/// The next request and its share of the core's memory; `None` when the peer has ended its side.
async fn next_frame(
    reader: &mut ReadHalf,
    buffer: &mut FrameBuffer,
    door: &Door,
    session: &Session,
) -> Result<Option<(Bytes, Held)>, NoFrame> {
    let bytes_max = request_bytes_max(door, session);
    let mut held: Option<Held> = None;
    let mut counted = 0;
    loop {
        let (missing, declared) = match buffer.cut(bytes_max).map_err(NoFrame::Frame)? {
            Cut::Missing { bytes, declared } => (bytes, declared),
            Cut::Frame(frame) => {
                let mut held = match held {
                    Some(held) => held,
                    None => door.memory.begin().await,
                };
                held.add(frame.len().saturating_sub(counted));
                return Ok(Some((frame, held)));
            }
        };
        if buffer.is_empty() {
            session.marks.set(Reading::ForRequest { since: door.beat.get() });
        } else {
            session.marks.received(door.beat.get(), declared);
            let held = match &mut held {
                Some(held) => held,
                None => held.insert(door.memory.begin().await),
            };
            let came = buffer.len().saturating_sub(counted);
            held.grow(came).await;
            counted += came;
        }
        let at_most = missing.max(READ_ROOM_FIRST);
        let got = reader.read_into(buffer.room(missing), at_most).await.map_err(NoFrame::Conn)?;
        if got == 0 {
            return Ok(None);
        }
    }
}

fn request_bytes_max(door: &Door, session: &Session) -> usize {
    let broker = &door.core.metadata.get().broker;
    let bytes_max = match session.may_send_on() {
        true => broker.sockets.request_bytes_max,
        false => broker.login_request_bytes_max.min(broker.sockets.request_bytes_max),
    };
    usize::try_from(bytes_max).unwrap_or(usize::MAX)
}

/// Puts a request in line; a Produce is begun first, up to where its order is settled.
async fn begin(
    frame: Bytes,
    held: Held,
    door: &Rc<Door>,
    session: &Rc<Session>,
) -> Result<(), Close> {
    let bytes = frame.len();
    if session.caller.login.as_ref().is_some_and(|login| login.expects_raw_token()) {
        let taking = logins::answer_raw(door.core.clone(), session.caller.clone(), frame);
        let work = Work::Running(Box::pin(taking));
        session.pipeline.push(InFlight { work, two_stage: false, bytes, held });
        return Ok(());
    }
    let call = Call::parse(door.core.clone(), session.caller.clone(), frame)?;
    let two_stage = call.is_two_stage();
    let order_fixed = call.order_fixed();
    let mut handler: Pin<Box<dyn Future<Output = Result<Answer, Close>>>> =
        Box::pin(async move { api::answer(&call).await });
    let mut done = None;
    if two_stage {
        session.pipeline.begun_before().await;
        done = poll_fn(|cx| match handler.as_mut().poll(cx) {
            Poll::Ready(answer) => Poll::Ready(Some(answer)),
            Poll::Pending if order_fixed.get() => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        })
        .await;
    }
    let work = done.map_or(Work::Running(handler), Work::Done);
    session.pipeline.push(InFlight { work, two_stage, bytes, held });
    Ok(())
}

/// The answering side. Ends when the line is closed and empty, or nothing can be sent any more.
async fn write(writer: WriteHalf, door: &Rc<Door>, session: &Rc<Session>) -> Option<Refusal> {
    let mut sender = Sender::new(writer, door.pool.clone());
    let refusal = match answer_all(&mut sender, session).await {
        Ok(()) => None,
        Err(NoAnswer::Close(close)) => {
            // On the heap while it lasts, since an idle connection never comes here.
            Some(Refusal::Close(Box::pin(last_words(&mut sender, close)).await))
        }
        Err(NoAnswer::Conn) => None,
    };
    session.pipeline.abandon();
    session.closer.shutdown_read();
    refusal
}

/// What was answered before still goes out, and what tells of a failed login.
async fn last_words(sender: &mut Sender, mut close: Close) -> Close {
    if let Close::FailedLogin(failed) = &mut close
        && let Some(answer) = failed.answer.take()
    {
        let _ = sender.send(Answer::Frame(answer)).await;
    }
    let _ = sender.flush().await;
    close
}

enum NoAnswer {
    Close(Close),
    /// Said in the log already.
    Conn,
}

/// Answers that are ready together are sent together.
async fn answer_all(sender: &mut Sender, session: &Session) -> Result<(), NoAnswer> {
    loop {
        let request = match poll_once(session.pipeline.next()).await {
            Some(request) => request,
            None => {
                sent(sender.flush().await, session)?;
                session.pipeline.next().await
            }
        };
        let Some(InFlight { work, two_stage, bytes, held }) = request else {
            return sent(sender.flush().await, session);
        };
        let answer = match work {
            Work::Done(answer) => answer,
            Work::Running(mut handler) => match poll_once(&mut handler).await {
                Some(answer) => answer,
                None => {
                    sent(sender.flush().await, session)?;
                    handler.await
                }
            },
        };
        drop(held);
        sent(sender.send(answer.map_err(NoAnswer::Close)?).await, session)?;
        session.pipeline.answered(bytes, two_stage);
    }
}

fn sent(result: Result<(), super::send::SendError>, session: &Session) -> Result<(), NoAnswer> {
    result.map_err(|error| {
        if error.is_ours() {
            log_limited!(
                log::error("session", "an answer could not be sent whole")
                    .field("peer", session.peer())
                    .field("reason", &error)
            );
        } else {
            log_limited!(
                log::info("session", "a connection was given up")
                    .field("peer", session.peer())
                    .field("reason", &error)
            );
        }
        NoAnswer::Conn
    })
}

fn log_lost(session: &Session, error: &ConnError) {
    log::debug("session", "a connection was lost")
        .field("peer", session.peer())
        .field("reason", error)
        .emit();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The size of what a function returns, without calling it.
    fn returned<A, B, C, D, R>(_: fn(A, B, C, D) -> R) -> usize {
        std::mem::size_of::<R>()
    }

    /// An idle connection costs its task, its session and a few words in tables: two kilobytes.
    #[test]
    fn idle_connection_takes_little_memory() {
        let task = returned(serve);
        let session = std::mem::size_of::<Session>() + std::mem::size_of::<Caller>();
        assert!(task + session <= 2304, "a task of {task} bytes and a session of {session}");
    }
}
