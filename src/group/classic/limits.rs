//! Bounds of a classic group, each with its reason and with what happens when it is reached.

/// Members of one group, whatever `group.max.size` allows: GROUP_MAX_SIZE_REACHED beyond. A
/// rebalance hands every member's metadata to the leader in one answer.
pub const MEMBERS_MAX: usize = 20_000;

/// Members that were given an id and have not come back with it: GROUP_MAX_SIZE_REACHED beyond.
/// Each leaves at the end of its session timeout.
pub const PENDING_MEMBERS_MAX: usize = MEMBERS_MAX;

/// Memory of one group's names, metadata and assignments: GROUP_MAX_SIZE_REACHED for the join that
/// would pass it.
pub const GROUP_BYTES_MAX: usize = 64 << 20;

/// Bytes of a group's record: an assignment beyond is answered UNKNOWN_SERVER_ERROR, as Kafka
/// answers one that does not fit into a batch.
pub const RECORD_BYTES_MAX: usize = 8 << 20;

const _: () = assert!(RECORD_BYTES_MAX <= millstream_io::limits::BATCH_BYTES_MAX);
const _: () = assert!(RECORD_BYTES_MAX <= GROUP_BYTES_MAX);

/// How much of a client's id goes into the ids of its members, in bytes: an id must fit into the
/// protocol's short string, with a UUID behind it.
pub const MEMBER_ID_PREFIX_BYTES_MAX: usize = 512;

/// How long a member's first join may wait: its client is not known to be alive, since it has no id
/// to send heartbeats with.
pub const FIRST_JOIN_MS_MAX: u64 = 5 * 60 * 1000;

/// Least time until a rebalance that nobody joined is looked at again.
pub const POSTPONED_JOIN_MS_MIN: u64 = 1000;

/// Memory of a table entry beside its names and values.
pub const ENTRY_BYTES: usize = 64;
