//! UpdateRaftVoter (key 82).

use crate::wire::declare::wire;
use crate::wire::primitives::Uuid;

wire! {
    /// Updates a voter's endpoints and versions (KIP-853).
    request UpdateRaftVoterRequest<'a> for UpdateRaftVoter, versions 0-0, flexible 0 {
        cluster_id: Option<&'a str> = Some("");
        current_leader_epoch: i32;
        voter_id: i32;
        voter_directory_id: Uuid;
        listeners: Vec<Listener<'a>>;
        k_raft_version_feature: KRaftVersionFeature;
    }

    /// An element of `listeners` in [`UpdateRaftVoterRequest`].
    struct Listener<'a> {
        name: &'a str;
        host: &'a str;
        port: u16;
    }

    /// The `k_raft_version_feature` of [`UpdateRaftVoterRequest`].
    struct KRaftVersionFeature {
        min_supported_version: i16;
        max_supported_version: i16;
    }

    /// Answer to [`UpdateRaftVoterRequest`].
    response UpdateRaftVoterResponse<'a> for UpdateRaftVoter, versions 0-0, flexible 0 {
        throttle_time_ms: i32;
        error_code: i16;
        current_leader: CurrentLeader<'a>, tag 0;
    }

    /// The `current_leader` of [`UpdateRaftVoterResponse`].
    struct CurrentLeader<'a> {
        leader_id: i32 = -1;
        leader_epoch: i32 = -1;
        host: &'a str;
        port: i32;
    }
}
