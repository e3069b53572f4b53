//! AddRaftVoter (key 80).

use crate::wire::declare::wire;
use crate::wire::primitives::Uuid;

wire! {
    /// Adds a voter to the metadata quorum (KIP-853).
    request AddRaftVoterRequest<'a> for AddRaftVoter, versions 0-0, flexible 0 {
        cluster_id: Option<&'a str> = Some("");
        timeout_ms: i32;
        voter_id: i32;
        voter_directory_id: Uuid;
        listeners: Vec<Listener<'a>>;
    }

    /// An element of `listeners` in [`AddRaftVoterRequest`].
    struct Listener<'a> {
        name: &'a str;
        host: &'a str;
        port: u16;
    }

    /// Answer to [`AddRaftVoterRequest`].
    response AddRaftVoterResponse<'a> for AddRaftVoter, versions 0-0, flexible 0 {
        throttle_time_ms: i32;
        error_code: i16;
        error_message: Option<&'a str> = Some("");
    }
}
