//! Bounds of the doors, each with its reason and with what happens when it is reached.

use std::time::Duration;

/// Requests of one connection that are read and not yet answered. Full: the socket is not read.
pub const REQUESTS_IN_FLIGHT_MAX: usize = 128;

/// Bytes of such requests. Full: the socket is not read; one request may go over it.
pub const REQUEST_BYTES_IN_FLIGHT_MAX: usize = 32 << 20;

/// Bytes of requests that all connections of one core hold, read wholly or in part. Full: no
/// further request is begun; requests that are half read go on up to twice this.
pub const REQUEST_MEMORY_PER_CORE: usize = 256 << 20;

/// Room for the first bytes of a request; more room comes as more bytes do.
pub const READ_ROOM_FIRST: usize = 16 << 10;

/// How much the room of a request may grow by what has come of it: it is never more than so many
/// times the bytes received, whatever length the peer declared.
pub const READ_ROOM_GROWTH: usize = 4;

/// Time a request may take from its first byte to its last, before its length is looked at.
pub const REQUEST_READ_TIME_MIN: Duration = Duration::from_secs(30);

/// Slowest peer that is waited for beyond that, in bytes a second. Slower: the connection is
/// closed.
pub const REQUEST_READ_RATE_MIN: u64 = 16 << 10;

/// Beat of the task that looks for idle and slow connections, one a core.
pub const REAPER_BEAT: Duration = Duration::from_secs(1);

/// Descriptors that connections leave to files, at least.
pub const DESCRIPTORS_KEPT_MIN: u64 = 128;

/// And as a share of all: one in so many.
pub const DESCRIPTORS_KEPT_SHARE: u64 = 4;

/// How long a stop waits for answers under way.
pub const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// How often a stop looks for connections that came in the last moment.
pub const STOP_LOOK: Duration = Duration::from_millis(100);

/// Connections of a core that are closed at once, in a second, for a version that is not served.
/// More are held for [`REFUSAL_PAUSE`] first: some clients connect again at once, for ever.
pub const REFUSALS_PER_SECOND_MAX: u32 = 50;

/// See [`REFUSALS_PER_SECOND_MAX`].
pub const REFUSAL_PAUSE: Duration = Duration::from_millis(200);

const _: () = {
    assert!(REQUEST_BYTES_IN_FLIGHT_MAX < REQUEST_MEMORY_PER_CORE);
    assert!(READ_ROOM_GROWTH > 1);
};
