//! Printing one file, by the kind its name says.

use std::io::{self, Write};
use std::path::Path;

use super::Verdict;
use crate::batch::RecordBatchHeader;
use crate::batch::stored;
use crate::checkpoint::{BLOB_HEADER_BYTES, State, StateError, read_blob, read_state};
use crate::data_dir::MetaProperties;
use crate::disk::{Disk, DiskError, DiskFile, OpenHow, parent_of};
use crate::index_footer::{Coverage, IndexDamage};
use crate::journal::frame::{Frame, FrameHead};
use crate::journal::{JournalState, files};
use crate::limits::{BATCH_HEADER_BYTES, BLOCK_BYTES, STATE_FILE_BYTES_MAX};
use crate::partition_state::{Manifest, PRODUCER_SNAPSHOT, RecoveryCheckpoint};
use crate::read_ahead::ReadAhead;
use crate::segment::SegmentFile;
use crate::sparse_index::SparseIndex;
use crate::time_index::TimeIndex;
use crate::units::{FilePosition, SegmentId};

/// Prints what the file at `path` holds, one line a thing, and says how it was found. A line that
/// tells of damage starts with `damaged`.
///
/// # Errors
/// Only when `out` cannot be written to.
pub fn inspect<D: Disk>(disk: &D, path: &Path, out: &mut impl Write) -> io::Result<Verdict> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let outcome = match Kind::of(name) {
        Kind::Log => log(disk, path, out)?,
        Kind::Index(id, file) => index(disk, path, (id, file), out)?,
        Kind::Journal => journal(disk, path, out)?,
        Kind::JournalState => journal_state(disk, path, out)?,
        Kind::Manifest => state::<D, Manifest>(disk, path, out)?,
        Kind::Checkpoint => state::<D, RecoveryCheckpoint>(disk, path, out)?,
        Kind::Producers => producers(disk, path, out)?,
        Kind::Meta => meta(disk, path, out)?,
        Kind::Unknown => {
            writeln!(out, "{}: not a file of a data directory", path.display())?;
            Ok(Verdict::Unreadable)
        }
    };
    match outcome {
        Ok(verdict) => Ok(verdict),
        Err(error) => {
            writeln!(out, "{error}")?;
            Ok(Verdict::Unreadable)
        }
    }
}

/// What a printer found; the outer error is that of the printing itself.
type Outcome = io::Result<Result<Verdict, DiskError>>;

enum Kind {
    Log,
    Index(SegmentId, SegmentFile),
    Journal,
    JournalState,
    Manifest,
    Checkpoint,
    Producers,
    Meta,
    Unknown,
}

impl Kind {
    fn of(name: &str) -> Kind {
        match SegmentId::of_file_name(name) {
            Some((_, SegmentFile::Log)) => return Kind::Log,
            Some((id, file @ (SegmentFile::Index | SegmentFile::TimeIndex))) => {
                return Kind::Index(id, file);
            }
            Some((_, SegmentFile::TxnIndex)) | None => {}
        }
        match name {
            Manifest::FILE => Kind::Manifest,
            RecoveryCheckpoint::FILE => Kind::Checkpoint,
            "producer-state.snapshot" => Kind::Producers,
            "meta.properties" => Kind::Meta,
            "state" => Kind::JournalState,
            _ if files::seq_of(name).is_some() => Kind::Journal,
            // A log under another name, as Kafka's tools want it.
            _ if name.ends_with(".log") => Kind::Log,
            _ => Kind::Unknown,
        }
    }
}

fn log<D: Disk>(disk: &D, path: &Path, out: &mut impl Write) -> Outcome {
    let opened = disk.open(path, OpenHow::READ).and_then(|file| file.len().map(|len| (file, len)));
    let (file, len) = match opened {
        Ok(opened) => opened,
        Err(error) => return Ok(Err(error)),
    };
    let mut reader = ReadAhead::new(&file, FilePosition::new(len));
    let mut at = FilePosition::ZERO;
    let mut batches = 0u64;
    while at < reader.end() {
        let total = match reader.get(at, BATCH_HEADER_BYTES).map(stored::frame) {
            Ok(Ok((_, total))) => total,
            Ok(Err(error)) => return behind_log(&mut reader, at, error, out).map(Ok),
            Err(error) => return Ok(Err(error)),
        };
        let batch = match reader.get(at, total) {
            Ok(bytes) => &bytes[..total.min(bytes.len())],
            Err(error) => return Ok(Err(error)),
        };
        match stored::whole(batch) {
            Ok(header) => print_batch(header, at, total, out)?,
            Err(error) => {
                writeln!(out, "damaged at {at}: {error}")?;
                return Ok(Ok(Verdict::Damaged));
            }
        }
        at = at.add_len(total);
        batches += 1;
    }
    writeln!(out, "{batches} batches in {len} bytes")?;
    Ok(Ok(Verdict::Sound))
}

/// Bytes that are no batch: padding of the last block, or damage.
fn behind_log<F: DiskFile>(
    reader: &mut ReadAhead<'_, F>,
    from: FilePosition,
    error: stored::StoredError,
    out: &mut impl Write,
) -> io::Result<Verdict> {
    let left = reader.end().since(from);
    let mut at = from;
    while at < reader.end() {
        let window = reader.get(at, 1).map_err(io::Error::other)?;
        if window.is_empty() {
            break;
        }
        if window.iter().any(|b| *b != 0) {
            writeln!(out, "damaged at {from}: {error}; {left} bytes are left")?;
            return Ok(Verdict::Damaged);
        }
        at = at.add_len(window.len());
    }
    writeln!(out, "{left} zero bytes at {from}: padding of a segment that is still written")?;
    Ok(Verdict::Sound)
}

fn print_batch(
    header: RecordBatchHeader<'_>,
    at: FilePosition,
    total: usize,
    out: &mut impl Write,
) -> io::Result<()> {
    let attributes = header.attributes();
    let codec = attributes.codec().map_or("unknown codec", |codec| codec.name());
    write!(
        out,
        "at {at}: offsets {} to {}, {} records, {total} bytes, {codec}, epoch {}, time {} to {}",
        header.base_offset_raw(),
        header.last_offset().map_or(-1, |offset| offset.get()),
        header.record_count(),
        header.leader_epoch_raw(),
        header.base_timestamp(),
        header.max_timestamp(),
    )?;
    if let Some(producer) = header.producer() {
        let sequence = header.base_sequence_raw();
        write!(out, ", producer {} epoch {} seq {sequence}", producer.id, producer.epoch)?;
    }
    let marks = [
        (attributes.is_transactional(), ", transactional"),
        (attributes.is_control(), ", control"),
        (attributes.bits() & crate::batch::Attributes::LOG_APPEND_TIME != 0, ", append time"),
    ];
    for (_, text) in marks.iter().filter(|(is, _)| *is) {
        write!(out, "{text}")?;
    }
    writeln!(out)
}

fn index<D: Disk>(
    disk: &D,
    path: &Path,
    (id, file): (SegmentId, SegmentFile),
    out: &mut impl Write,
) -> Outcome {
    let bytes = match disk.read_all(path, STATE_FILE_BYTES_MAX) {
        Ok(bytes) => bytes,
        Err(error) => return Ok(Err(error)),
    };
    // Any length will do here: whether the index reaches beyond its log is the log's business.
    let log_bytes = FilePosition::from(u32::MAX);
    let printed = match file {
        SegmentFile::TimeIndex => {
            TimeIndex::decode(&bytes, id, log_bytes).map(|(index, covers)| {
                let line = |e: (_, _)| format!("records before offset {} are at most {}", e.1, e.0);
                (index.entries().map(line).collect::<Vec<_>>(), covers)
            })
        }
        SegmentFile::Index | SegmentFile::Log | SegmentFile::TxnIndex => {
            SparseIndex::decode(&bytes, id, log_bytes).map(|(index, covers)| {
                let line = |e: crate::sparse_index::BatchStart| {
                    format!("offset {} at byte {}", e.base, e.at)
                };
                (index.entries().map(line).collect::<Vec<_>>(), covers)
            })
        }
    };
    print_index(printed, out).map(Ok)
}

fn print_index(
    printed: Result<(Vec<String>, Coverage), IndexDamage>,
    out: &mut impl Write,
) -> io::Result<Verdict> {
    let (lines, covers) = match printed {
        Ok(printed) => printed,
        Err(damage) => {
            writeln!(out, "damaged: {damage}; it is built again at the next start")?;
            return Ok(Verdict::Damaged);
        }
    };
    for line in &lines {
        writeln!(out, "{line}")?;
    }
    let sealed = if covers.sealed { "sealed" } else { "still written" };
    writeln!(
        out,
        "{} entries cover {} bytes of log up to offset {}, largest time {}, {sealed}",
        lines.len(),
        covers.log_bytes,
        covers.next,
        covers.max_timestamp
    )?;
    Ok(Verdict::Sound)
}

fn journal<D: Disk>(disk: &D, path: &Path, out: &mut impl Write) -> Outcome {
    let opened = disk.open(path, OpenHow::READ).and_then(|file| file.len().map(|len| (file, len)));
    let (file, len) = match opened {
        Ok(opened) => opened,
        Err(error) => return Ok(Err(error)),
    };
    let mut reader = ReadAhead::new(&file, FilePosition::new(len));
    let (mut at, mut frames) = (FilePosition::ZERO, 0u64);
    while at < reader.end() {
        let length = match reader.get(at, BLOCK_BYTES).map(FrameHead::read) {
            Ok(Ok(head)) => head.length,
            Ok(Err(_)) => BLOCK_BYTES,
            Err(error) => return Ok(Err(error)),
        };
        let mut next = at.add_len(BLOCK_BYTES);
        match reader.get(at, length).map(Frame::parse) {
            Ok(Ok(frame)) => {
                print_frame(&frame, at, out)?;
                next = at.add_len(frame.padded());
                frames += 1;
            }
            Ok(Err(_)) => {}
            Err(error) => return Ok(Err(error)),
        }
        at = next;
    }
    writeln!(
        out,
        "{frames} frames in {len} bytes; those with another file number are left from before"
    )?;
    Ok(Ok(Verdict::Sound))
}

fn print_frame(frame: &Frame<'_>, at: FilePosition, out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "at {at}: shard {} file {} round {}, {} runs, {} bytes",
        frame.id.shard,
        frame.id.seq,
        frame.id.round,
        frame.run_count(),
        frame.padded()
    )?;
    for (run, bytes) in frame.runs() {
        let direct = if run.direct { ", more went straight to the segment" } else { "" };
        writeln!(
            out,
            "    {} segment {} at byte {}: {} bytes up to offset {}{direct}",
            run.partition,
            run.segment,
            run.at,
            bytes.len(),
            run.end
        )?;
    }
    Ok(())
}

fn journal_state<D: Disk>(disk: &D, path: &Path, out: &mut impl Write) -> Outcome {
    let state = match JournalState::read(disk, &parent_of(path)) {
        Ok(Some(state)) => state,
        other => return explain(other.map(|_| ()), path, out),
    };
    writeln!(out, "replay from round {}, next file {}", state.replay_from, state.next_seq)?;
    for (partition, end) in &state.floors {
        writeln!(out, "    {partition} is synced up to offset {end}")?;
    }
    Ok(Ok(Verdict::Sound))
}

fn state<D: Disk, S: State>(disk: &D, path: &Path, out: &mut impl Write) -> Outcome {
    let state: S = match read_state(disk, &parent_of(path)) {
        Ok(Some(state)) => state,
        other => return explain(other.map(|_| ()), path, out),
    };
    let text = serde_json::to_string_pretty(&state).map_err(io::Error::other)?;
    writeln!(out, "{text}")?;
    Ok(Ok(Verdict::Sound))
}

fn producers<D: Disk>(disk: &D, path: &Path, out: &mut impl Write) -> Outcome {
    match read_blob(disk, path, PRODUCER_SNAPSHOT) {
        Ok(Some((version, payload))) => {
            let bytes = payload.len();
            writeln!(out, "producer states, version {version}: {bytes} bytes, the checksum holds")?;
            writeln!(out, "({BLOB_HEADER_BYTES} bytes of header)")?;
            Ok(Ok(Verdict::Sound))
        }
        other => explain(other.map(|_| ()), path, out),
    }
}

fn meta<D: Disk>(disk: &D, path: &Path, out: &mut impl Write) -> Outcome {
    match MetaProperties::read(disk, &parent_of(path)) {
        Ok(Some(meta)) => {
            writeln!(
                out,
                "cluster {}, node {}, formatted for {} shards",
                meta.cluster_id, meta.node_id, meta.shard_count
            )?;
            Ok(Ok(Verdict::Sound))
        }
        other => explain(other.map(|_| ()).map_err(StateError::from), path, out),
    }
}

/// Why a small file gave nothing.
fn explain(outcome: Result<(), StateError>, path: &Path, out: &mut impl Write) -> Outcome {
    match outcome {
        Err(StateError::Disk(error)) => Ok(Err(error)),
        Err(error @ StateError::Newer { .. }) => {
            writeln!(out, "{error}")?;
            Ok(Ok(Verdict::Unreadable))
        }
        Err(error @ StateError::Damaged { .. }) => {
            writeln!(out, "damaged: {error}")?;
            Ok(Ok(Verdict::Damaged))
        }
        Ok(()) => {
            writeln!(out, "{} does not exist", path.display())?;
            Ok(Ok(Verdict::Unreadable))
        }
    }
}
