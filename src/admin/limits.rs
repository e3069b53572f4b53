//! Bounds of the admin listener, each with its reason and with what happens when it is reached.

use std::time::Duration;

/// Connections at one time. More wait in the kernel's line for [`PLACE_PATIENCE`], then the oldest is
/// cut off.
pub const CONNECTIONS_MAX: usize = 64;

/// See [`CONNECTIONS_MAX`].
pub const PLACE_PATIENCE: Duration = Duration::from_millis(50);

/// Time to send a whole request head. Slower: the connection is closed.
pub const HEAD_TIME: Duration = Duration::from_secs(5);

/// Time for the whole of a connection: one request and its answer. Who has not read by then is cut
/// off. The text is shared by all who read it, so a slow reader holds little.
pub const CONNECTION_TIME: Duration = Duration::from_secs(30);

/// Bytes of a request's head, which also bounds the buffer of a connection. More: 431.
pub const HEAD_BYTES_MAX: usize = 8 << 10;

/// Headers of a request. More: 431.
pub const HEADERS_MAX: usize = 64;

/// How old a text of metrics may be that is given out again: scrapes within this time share one.
pub const TEXT_AGE_MAX: Duration = Duration::from_secs(1);

/// How old the state of the cores may be that health and readiness are told by.
pub const HEALTH_AGE_MAX: Duration = Duration::from_millis(50);

/// How long health and readiness wait for the cores. One that does not answer is told by what it
/// said last.
pub const HEALTH_PATIENCE: Duration = Duration::from_millis(40);

/// A core that has said nothing for so long is called silent.
pub const SILENT_AFTER: Duration = Duration::from_secs(10);

/// How long a scrape waits for the counters of the cores, which need a moment only.
pub const COUNTS_PATIENCE: Duration = Duration::from_millis(500);

/// How long a scrape waits for all groups, and for all partitions. What a core has not said by then
/// is left out.
pub const WALK_PATIENCE: Duration = Duration::from_secs(4);

/// Groups, or offsets, that are written before the thread looks at its other connections.
pub const STEP: usize = 1024;

/// How long a start tries to get the default port when another process has it.
pub const PORT_PATIENCE: Duration = Duration::from_secs(2);

/// See [`PORT_PATIENCE`].
pub const PORT_PAUSE: Duration = Duration::from_millis(50);

const _: () = {
    // Who comes while the cores are asked, and finds the answer too old, still has one in time.
    assert!(2 * HEALTH_PATIENCE.as_millis() < 100);
    // A reader that waits for the text still has time to read it.
    assert!(COUNTS_PATIENCE.as_millis() + 2 * WALK_PATIENCE.as_millis() < 10_000);
    assert!(CONNECTION_TIME.as_millis() >= 20_000);
};
