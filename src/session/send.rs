//! Sends answers: small ones together, records from where they lie.

use crate::api::Answer;
use crate::wire::fetch_response::{FramedResponse, Piece};
use bytes::Bytes;
use millstream_io::net::{ConnError, FileRange, More, SendFileError, WriteHalf};
use millstream_io::runtime::Pool;
use millstream_io::units::bytes_u64;
use millstream_shards::message::Chunk;
use std::collections::VecDeque;
use std::fmt;

/// Bytes of answers that are gathered before they are sent.
const GATHERED_BYTES_MAX: usize = 256 << 10;

/// The sending side of one connection.
pub struct Sender {
    writer: WriteHalf,
    pool: Pool,
    /// Answers, or parts of them, in order, not yet sent.
    gathered: VecDeque<Bytes>,
    gathered_bytes: usize,
}

/// Why an answer was not sent. A part of it may have gone: the connection has to be closed.
#[derive(Debug)]
pub enum SendError {
    Conn(ConnError),
    File(SendFileError),
    /// The pieces do not add up to the length that was announced.
    Lengths {
        announced: u64,
        found: u64,
    },
}

impl SendError {
    /// Whether the fault lies with our own files or answers, not with the peer.
    pub fn is_ours(&self) -> bool {
        match self {
            Self::Conn(_) | Self::File(SendFileError::Conn(_) | SendFileError::Stopping) => false,
            Self::File(SendFileError::Truncated { .. } | SendFileError::File { .. })
            | Self::Lengths { .. } => true,
        }
    }
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conn(error) => error.fmt(f),
            Self::File(error) => error.fmt(f),
            Self::Lengths { announced, found } => {
                write!(f, "records of {found} bytes do not fill the {announced} announced")
            }
        }
    }
}

impl From<ConnError> for SendError {
    fn from(error: ConnError) -> SendError {
        SendError::Conn(error)
    }
}

impl From<SendFileError> for SendError {
    fn from(error: SendFileError) -> SendError {
        match error {
            SendFileError::Conn(error) => SendError::Conn(error),
            error => SendError::File(error),
        }
    }
}

impl Sender {
    pub fn new(writer: WriteHalf, pool: Pool) -> Sender {
        Sender { writer, pool, gathered: VecDeque::new(), gathered_bytes: 0 }
    }

    /// Takes an answer. Small ones may wait for [`Sender::flush`].
    pub async fn send(&mut self, answer: Answer) -> Result<(), SendError> {
        match answer {
            Answer::Nothing => {}
            Answer::Frame(frame) => self.gather(Bytes::from(frame)),
            // On the heap while it lasts: it holds some kilobytes, which an idle connection should
            // not.
            Answer::Pieces { framed, records } => Box::pin(self.pieces(framed, records)).await?,
        }
        if self.gathered_bytes > GATHERED_BYTES_MAX {
            self.flush().await?;
        }
        Ok(())
    }

    /// Sends what was gathered.
    pub async fn flush(&mut self) -> Result<(), SendError> {
        self.send_gathered(More::Ends).await
    }

    async fn pieces(
        &mut self,
        framed: FramedResponse,
        records: Vec<Vec<Chunk>>,
    ) -> Result<(), SendError> {
        let order: Vec<Part> = parts(&framed);
        let heads = Bytes::from(framed.into_buffer());
        let mut records = records.into_iter();
        for part in order {
            match part {
                Part::Head { start, end } => self.gather(heads.slice(start..end)),
                Part::Records { len } => {
                    let chunks = records.next().unwrap_or_default();
                    let (announced, found) =
                        (bytes_u64(len), chunks.iter().map(Chunk::len).sum::<u64>());
                    if announced != found {
                        return Err(SendError::Lengths { announced, found });
                    }
                    self.chunks(chunks).await?;
                }
            }
        }
        Ok(())
    }

    async fn chunks(&mut self, chunks: Vec<Chunk>) -> Result<(), SendError> {
        for chunk in chunks {
            match chunk {
                Chunk::Memory(bytes) => self.gather(bytes),
                Chunk::File { file, position, len } => {
                    self.send_gathered(More::Follows).await?;
                    let range = FileRange { pos: position.get(), len };
                    self.writer.send_file_range(&file, range, &self.pool).await?;
                }
            }
        }
        Ok(())
    }

    fn gather(&mut self, bytes: Bytes) {
        self.gathered_bytes += bytes.len();
        self.gathered.push_back(bytes);
    }

    async fn send_gathered(&mut self, more: More) -> Result<(), SendError> {
        self.gathered_bytes = 0;
        if self.gathered.is_empty() {
            return Ok(());
        }
        self.writer.write_all(&mut self.gathered, more).await?;
        // An idle connection keeps no room for a burst.
        self.gathered = VecDeque::new();
        Ok(())
    }
}

/// A piece of a framed response by its place.
enum Part {
    Head { start: usize, end: usize },
    Records { len: usize },
}

/// The pieces in order; heads follow each other in the buffer.
fn parts(framed: &FramedResponse) -> Vec<Part> {
    let mut at = 0;
    let part = |piece| match piece {
        Piece::Head(head) => {
            let start = at;
            at += <[u8]>::len(head);
            Part::Head { start, end: at }
        }
        Piece::Records { len, .. } => Part::Records { len },
    };
    framed.pieces().map(part).collect()
}
