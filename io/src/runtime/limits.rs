//! Bounds of the runtime: every queue, table and buffer of `io::runtime` and `io::net`, and what
//! happens when it is full.

use std::time::Duration;

/// Bundles that wait in one core's mailbox, for each core that may send to it. Full: the sending
/// lane waits, so later messages pile up in its outbox and leave as a larger bundle.
pub const MAILBOX_BUNDLES_PER_LANE: usize = 2;

/// Messages that wait in the outbox of one lane (one core to one other core). Full: the sender
/// of the next message waits.
pub const OUTBOX_MESSAGES: usize = 1024;

/// Room in one mailbox for threads that are no cores; shared with the lanes. Full: the thread waits.
pub const FOREIGN_BUNDLES: usize = 16;

/// Jobs that wait for a thread of the helper pool. Full: the caller waits.
pub const POOL_JOBS: usize = 512;

/// Threads of the helper pool, at most.
pub const POOL_THREADS_MAX: usize = 16;

/// Threads of a pool that waits for very many syncs at once, at most. They do little but wait.
pub const WIDENED_THREADS_MAX: usize = 256;

/// Lines that wait for the log thread. Full: the line is dropped, counted, and the count is
/// logged as soon as there is room.
pub const LOG_LINES: usize = 4096;

/// Bytes of one log line. Longer: the line is cut and marked as cut.
pub const LOG_LINE_BYTES_MAX: usize = 4096;

/// Lines that one call site may log in [`LOG_SITE_WINDOW`]. More: suppressed and counted, and
/// the count is told with the first line of the next window.
pub const LOG_SITE_LINES: u32 = 10;

/// The window of [`LOG_SITE_LINES`].
pub const LOG_SITE_WINDOW: Duration = Duration::from_secs(10);

/// Bytes that a loop may handle before it must breathe (see `runtime::breathe`).
pub const BREATHE_BYTES: usize = 256 << 10;

/// Connections of one core that send much at the same time, between two looks at its rings. More wait
/// for their turn. With one the core would be idle while it breathes.
pub const BULK_TURNS: usize = 2;

/// Bytes from which on a connection waits for a turn to send them.
pub const BULK_BYTES: usize = 64 << 10;

/// Work that a loop may do before it must breathe.
pub const BREATHE_AFTER: Duration = Duration::from_micros(200);

/// How long one breath parks the task. Shorter sleeps and plain yields do not make the executor
/// look at its rings.
pub const BREATH: Duration = Duration::from_micros(3);

/// Memory that each ring of an executor registers and pins: the least it takes. Our buffers come
/// from the heap, because they must also be fit for other threads.
pub const RING_MEMORY: usize = 64 << 10;

/// Rings of one executor, each of which pins its [`RING_MEMORY`].
pub const RINGS_PER_CORE: usize = 3;

/// Locked memory below which the executor refuses to start, whoever asks.
pub const MEMLOCK_FLOOR: u64 = 512 << 10;

/// Descriptors below which a broker of ordinary size runs into trouble: warned about.
pub const NOFILE_WARN: u64 = 4096;

/// First poke of a core that went silent; each following wait doubles.
pub const POKE_FIRST: Duration = Duration::from_millis(10);

/// Longest wait between two pokes of a silent core.
pub const POKE_LONGEST: Duration = Duration::from_millis(500);

/// A core that does not answer a poke for so long is reported as stalled.
pub const STALL_AFTER: Duration = Duration::from_secs(1);

/// Bytes that one call of sendfile may move.
pub const SENDFILE_PIECE: usize = 256 << 10;

/// Bytes behind the range at hand that a prefetch also asks the kernel for.
pub const PREFETCH_AHEAD: u64 = 4 << 20;

/// Bytes of file data copied and sent to wait until a full socket takes data again.
pub const PUMP_BYTES: usize = 4 << 10;

/// Room that a read makes in a buffer that has none, once its first bytes are there.
pub const READ_ROOM_MIN: usize = 16 << 10;

/// Pieces handed to the kernel in one vectored send (far below IOV_MAX, 1024).
pub const SEND_PIECES: usize = 64;

/// Bytes handed to the kernel in one vectored send.
pub const SEND_BYTES: usize = 256 << 10;

/// Connections that the kernel completes before we accept them. Full: the kernel drops the
/// SYN and the client tries again.
pub const LISTEN_BACKLOG: i32 = 1024;

/// First and longest pause of an accept loop that found no descriptor left.
pub const ACCEPT_PAUSE_FIRST: Duration = Duration::from_millis(10);
/// See [`ACCEPT_PAUSE_FIRST`].
pub const ACCEPT_PAUSE_LONGEST: Duration = Duration::from_secs(1);

const _: () = assert!(PUMP_BYTES < SENDFILE_PIECE && SENDFILE_PIECE <= BREATHE_BYTES);
const _: () = assert!(SEND_PIECES <= 1024 && SEND_BYTES <= BREATHE_BYTES);
const _: () = assert!(POKE_LONGEST.as_nanos() <= STALL_AFTER.as_nanos());
