//! Small state files: written whole and at once, with a version and a checksum.
//!
//! Two forms. A *state* is JSON for humans:
//!
//! ```text
//! {"version":1,"crc32c":"0a1b2c3d","body":{...}}
//! ```
//! where the checksum covers the exact text of the body. A *blob* is binary for bulk:
//!
//! ```text
//!  at  bytes  field
//!   0    4    magic
//!   4    4    version
//!   8    8    length of the payload
//!  16    4    CRC-32C of the payload
//!  20    4    CRC-32C of bytes 0 to 19
//!  24    ..   payload
//! ```
//! Both are written to `<name>.tmp`, synced, renamed over the old file, and the directory synced: a
//! crash leaves the old file or the new one. A file of a newer version is refused with both numbers
//! and not touched. Blocking: for start, tools and the helper pool.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::disk::{Disk, DiskError, DiskErrorKind, DiskFile, DiskOp, OpenHow, parent_of};
use crate::limits::STATE_FILE_BYTES_MAX;
use crate::units::{FilePosition, bytes_u64};

/// The content of one kind of JSON state file.
pub trait State: Serialize + DeserializeOwned {
    /// Name of the file within its directory.
    const FILE: &'static str;
    /// The newest version this program reads and the one it writes.
    const VERSION: u32;
}

/// One kind of binary state file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlobKind {
    pub magic: [u8; 4],
    pub version: u32,
}

/// Why a state file was not read or written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StateError {
    Disk(DiskError),
    /// It is not what was written. `reason` says what is wrong.
    Damaged {
        path: PathBuf,
        reason: String,
    },
    /// A newer version of the program wrote it.
    Newer {
        path: PathBuf,
        found: u32,
        known: u32,
    },
}

/// Writes a state to its file in `dir`, atomically and durably.
///
/// # Errors
/// [`StateError::Disk`]; the old file is still in place then.
pub fn write_state<D: Disk, S: State>(disk: &D, dir: &Path, state: &S) -> Result<(), StateError> {
    let path = dir.join(S::FILE);
    let unfit = |e: serde_json::Error| StateError::damaged(&path, e);
    let body = serde_json::value::to_raw_value(state).map_err(unfit)?;
    let crc32c = format!("{:08x}", crc32c::crc32c(body.get().as_bytes()));
    let envelope = Envelope { version: S::VERSION, crc32c: &crc32c, body: &body };
    let mut text = serde_json::to_vec(&envelope).map_err(unfit)?;
    text.push(b'\n');
    Ok(write_atomically(disk, &path, &text)?)
}

/// Reads a state from its file in `dir`; `None` when there is no such file.
///
/// # Errors
/// [`StateError`].
pub fn read_state<D: Disk, S: State>(disk: &D, dir: &Path) -> Result<Option<S>, StateError> {
    let path = dir.join(S::FILE);
    match read_small(disk, &path)? {
        Some(text) => decode_state(&path, &text).map(Some),
        None => Ok(None),
    }
}

/// Writes a blob, atomically and durably.
///
/// # Errors
/// As [`write_state`]. A payload that would not be read back is refused as too large.
pub fn write_blob<D: Disk>(
    disk: &D,
    path: &Path,
    kind: BlobKind,
    payload: &[u8],
) -> Result<(), StateError> {
    if payload.len() > STATE_FILE_BYTES_MAX - BLOB_HEADER_BYTES {
        return Err(DiskError::new(DiskErrorKind::TooLarge, DiskOp::Write, path).into());
    }
    Ok(write_atomically(disk, path, &encode_blob(kind, payload))?)
}

/// Reads the payload of a blob and its version; `None` when there is no such file.
///
/// # Errors
/// [`StateError`].
pub fn read_blob<D: Disk>(
    disk: &D,
    path: &Path,
    kind: BlobKind,
) -> Result<Option<(u32, Vec<u8>)>, StateError> {
    match read_small(disk, path)? {
        Some(bytes) => decode_blob(path, kind, bytes).map(Some),
        None => Ok(None),
    }
}

/// Replaces the content of a small file in one step, durably.
///
/// # Errors
/// [`DiskError`]; the old file is still in place then.
pub fn write_atomically<D: Disk>(disk: &D, path: &Path, bytes: &[u8]) -> Result<(), DiskError> {
    let temporary = temporary_of(path);
    {
        let file = disk.open(&temporary, OpenHow::CREATE)?;
        file.set_len(0)?;
        file.write_at(bytes, FilePosition::ZERO)?;
        file.sync_data()?;
    }
    disk.rename(&temporary, path)?;
    disk.sync_dir(&parent_of(path))
}

/// The name under which a state file is written before it takes its place.
pub fn temporary_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    PathBuf::from(name)
}

/// The text of a state file: envelope, version, checksum, body. `path` is for messages.
pub(crate) fn decode_state<S: State>(path: &Path, text: &[u8]) -> Result<S, StateError> {
    let damaged = |e: serde_json::Error| StateError::damaged(path, e);
    // The version alone first: the rest of a newer file may look like anything.
    let VersionOnly { version } = serde_json::from_slice(text).map_err(damaged)?;
    if version > S::VERSION {
        return Err(StateError::newer(path, version, S::VERSION));
    }
    let envelope: Envelope<'_> = serde_json::from_slice(text).map_err(damaged)?;
    let crc32c = format!("{:08x}", crc32c::crc32c(envelope.body.get().as_bytes()));
    if crc32c != envelope.crc32c {
        return Err(StateError::damaged(path, "the checksum of its body does not hold"));
    }
    serde_json::from_str(envelope.body.get()).map_err(damaged)
}

pub(crate) fn encode_blob(kind: BlobKind, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(BLOB_HEADER_BYTES + payload.len());
    out.extend_from_slice(&kind.magic);
    out.extend_from_slice(&kind.version.to_be_bytes());
    out.extend_from_slice(&bytes_u64(payload.len()).to_be_bytes());
    out.extend_from_slice(&crc32c::crc32c(payload).to_be_bytes());
    let crc = crc32c::crc32c(&out);
    out.extend_from_slice(&crc.to_be_bytes());
    out.extend_from_slice(payload);
    out
}

pub(crate) fn decode_blob(
    path: &Path,
    kind: BlobKind,
    mut bytes: Vec<u8>,
) -> Result<(u32, Vec<u8>), StateError> {
    let Some(header) = bytes.first_chunk::<BLOB_HEADER_BYTES>().copied() else {
        return Err(StateError::damaged(path, "it is shorter than its header"));
    };
    if header[..4] != kind.magic {
        return Err(StateError::damaged(path, "it does not start as such a file does"));
    }
    let word = |at: usize| {
        u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
    };
    let version = word(4);
    if version > kind.version {
        return Err(StateError::newer(path, version, kind.version));
    }
    let length = u64::from(word(8)) << 32 | u64::from(word(12));
    let payload = bytes.split_off(BLOB_HEADER_BYTES);
    let whole = word(20) == crc32c::crc32c(&header[..20])
        && length == bytes_u64(payload.len())
        && word(16) == crc32c::crc32c(&payload);
    if !whole {
        return Err(StateError::damaged(path, "its checksum does not hold"));
    }
    Ok((version, payload))
}

fn read_small<D: Disk>(disk: &D, path: &Path) -> Result<Option<Vec<u8>>, StateError> {
    match disk.read_all(path, STATE_FILE_BYTES_MAX) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) if error.kind == DiskErrorKind::TooLarge => {
            Err(StateError::damaged(path, "it is larger than any such file"))
        }
        Err(error) => Err(error.into()),
    }
}

impl StateError {
    pub(crate) fn damaged(path: &Path, reason: impl fmt::Display) -> StateError {
        StateError::Damaged { path: path.to_path_buf(), reason: reason.to_string() }
    }

    fn newer(path: &Path, found: u32, known: u32) -> StateError {
        StateError::Newer { path: path.to_path_buf(), found, known }
    }
}

impl From<DiskError> for StateError {
    fn from(error: DiskError) -> StateError {
        StateError::Disk(error)
    }
}

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StateError::Disk(error) => error.fmt(f),
            StateError::Damaged { path, reason } => {
                write!(f, "{} is damaged: {reason}", path.display())
            }
            StateError::Newer { path, found, known } => write!(
                f,
                "{} has format version {found} and this program knows versions up to {known}; \
                 start a newer version of the program",
                path.display()
            ),
        }
    }
}

impl std::error::Error for StateError {}

#[derive(Serialize, Deserialize)]
struct Envelope<'a> {
    version: u32,
    crc32c: &'a str,
    #[serde(borrow)]
    body: &'a RawValue,
}

#[derive(Deserialize)]
struct VersionOnly {
    version: u32,
}

pub(crate) const BLOB_HEADER_BYTES: usize = 24;

#[cfg(test)]
#[path = "checkpoint_tests.rs"]
mod tests;
