//! RemoveRaftVoter (key 81).

use crate::wire::declare::wire;
use crate::wire::primitives::Uuid;

wire! {
    /// Removes a voter from the metadata quorum (KIP-853).
    request RemoveRaftVoterRequest<'a> for RemoveRaftVoter, versions 0-0, flexible 0 {
        cluster_id: Option<&'a str> = Some("");
        voter_id: i32;
        voter_directory_id: Uuid;
    }

    /// Answer to [`RemoveRaftVoterRequest`].
    response RemoveRaftVoterResponse<'a> for RemoveRaftVoter, versions 0-0, flexible 0 {
        throttle_time_ms: i32;
        error_code: i16;
        error_message: Option<&'a str> = Some("");
    }
}
