//! What a request means: one file an API, and the door to them all, [`answer`].
//!
//! A handler decodes its request from the frame, which it borrows from, asks the router and the
//! image, and answers with a frame. It never assumes that a partition is on its own core, and an
//! error of one partition never touches another.
//!
//! Handlers of Produce work in two stages: once [`Call::order_fixed`] is called, the order against
//! later requests of the connection is settled, and the connection reads its next request while
//! the answer is still to come.

mod acls;
mod add_offsets_to_txn;
mod add_partitions_to_txn;
mod alter_configs;
mod alter_partition_reassignments;
mod alter_replica_log_dirs;
mod alter_user_scram_credentials;
mod api_versions;
mod config_resources;
mod consumer_group_describe;
mod consumer_group_heartbeat;
mod create_acls;
mod create_partitions;
mod create_topics;
mod deep_validation;
mod delete_acls;
mod delete_groups;
mod delete_records;
mod delete_topics;
mod describe_acls;
mod describe_cluster;
mod describe_configs;
mod describe_groups;
mod describe_log_dirs;
mod describe_producers;
mod describe_topic_partitions;
mod describe_transactions;
mod describe_user_scram_credentials;
mod elect_leaders;
mod end_txn;
pub mod error_codes;
mod fetch;
pub mod fetch_session;
mod find_coordinator;
mod groups;
mod heartbeat;
mod incremental_alter_configs;
mod init_producer_id;
mod join_group;
mod leave_group;
pub mod limits;
mod list_config_resources;
mod list_groups;
mod list_offsets;
mod list_partition_reassignments;
mod list_transactions;
pub mod logins;
mod metadata;
mod offset_commit;
mod offset_delete;
mod offset_fetch;
mod offset_for_leader_epoch;
mod produce;
mod rights;
mod sasl_authenticate;
mod sasl_handshake;
mod sync_group;
mod to_commit;
mod topics;
mod transactions;
mod txn_offset_commit;
mod write_txn_markers;

use crate::authorizer::principal::Principal;
use crate::cluster::change::Refused;
use crate::cluster::controller_task::ControllerHandle;
use crate::cluster::image::{AdvertisedEndpoint, Broker, MetadataImage};
use crate::cluster::producer_ids::ProducerIds;
use crate::cluster::view::MetadataView;
use crate::group::handle::Groups;
use crate::login::Login;
use crate::txn::handle::Transactions;
use crate::wire::fetch_response::FramedResponse;
use crate::wire::{
    ApiKey, DecodeError, EncodeError, ErrorCode, Reader, Request, RequestHeader, Response, apis,
    frame,
};
use bytes::Bytes;
use fetch_session::FetchSessions;
use logins::{FailedLogin, Logins};
use millstream_io::clock::SystemClock;
use millstream_io::runtime::{Pool, timeout};
use millstream_shards::message::Chunk;
use millstream_shards::router::Router;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// What the handlers of one core work with.
pub struct CoreContext {
    pub router: Router,
    pub metadata: MetadataView,
    pub controller: ControllerHandle,
    pub producer_ids: RefCell<ProducerIds>,
    pub groups: Groups,
    pub transactions: Transactions,
    pub fetch_sessions: RefCell<FetchSessions>,
    pub clock: SystemClock,
    /// Threads that look into batches where a topic asks for it.
    pub inspectors: Pool,
    pub data_dir: PathBuf,
    pub free_space: Rc<dyn FreeSpace>,
    pub requests: Requests,
    pub logins: Logins,
}

/// Requests that one core has begun to answer, by API.
pub struct Requests {
    begun: [Cell<u64>; API_NUMBERS],
    recompressed: Cell<u64>,
}

impl Default for Requests {
    fn default() -> Requests {
        Requests { begun: [const { Cell::new(0) }; API_NUMBERS], recompressed: Cell::new(0) }
    }
}

impl Requests {
    fn count(&self, key: ApiKey) {
        let count = &self.begun[place_of(key)];
        count.set(count.get() + 1);
    }

    /// A batch was compressed anew.
    fn recompressed(&self) {
        self.recompressed.set(self.recompressed.get() + 1);
    }

    /// Batches that were compressed anew, since their topics force a codec.
    pub fn batches_recompressed(&self) -> u64 {
        self.recompressed.get()
    }

    /// Each API that is served, with its count.
    pub fn served(&self) -> Vec<(ApiKey, u64)> {
        apis::TABLE.iter().map(|api| (api.key, self.begun[place_of(api.key)].get())).collect()
    }
}

/// Numbers of APIs are small and dense.
const API_NUMBERS: usize = 128;

const _: () = {
    let mut index = 0;
    while index < ApiKey::ALL.len() {
        let number = ApiKey::ALL[index].number();
        assert!(number >= 0 && number < API_NUMBERS as i16);
        index += 1;
    }
};

fn place_of(key: ApiKey) -> usize {
    usize::from(key.number().unsigned_abs())
}

/// Asks for the space of the data directory's file system, off the core.
pub trait FreeSpace {
    /// Total and usable bytes; `None` when the file system does not say.
    fn ask(&self) -> std::pin::Pin<Box<dyn Future<Output = Option<(u64, u64)>>>>;
}

/// Who calls: what is known of the connection.
pub struct Caller {
    /// Number of the connection on this core, never used twice.
    pub connection: u64,
    /// Where it comes from.
    pub host: IpAddr,
    /// The listener that the connection came in by; its name decides which addresses are told.
    pub listener: Rc<str>,
    /// Whom it acts as; a login changes that.
    principal: RefCell<Rc<Principal>>,
    /// How far its login has come; `None` on a listener that asks for none.
    pub login: Option<Box<Login>>,
    /// Set when the peer sends no more: who waits for something to happen should answer now.
    pub hurry: Hurry,
}

impl Caller {
    /// A caller who has not logged in.
    pub fn new(
        connection: u64,
        host: IpAddr,
        listener: Rc<str>,
        login: Option<Box<Login>>,
    ) -> Caller {
        let principal = RefCell::new(Rc::new(Principal::ANONYMOUS));
        Caller { connection, host, listener, principal, login, hurry: Hurry::default() }
    }

    /// Whom the connection acts as now. A request that is under way keeps whom it asked for.
    pub fn principal(&self) -> Rc<Principal> {
        self.principal.borrow().clone()
    }

    /// A login has shown who this is. Who logs in anew must be who was here before, which the
    /// caller of this asks [`Caller::principal`] for.
    pub fn set_principal(&self, principal: Rc<Principal>) {
        *self.principal.borrow_mut() = principal;
    }
}

/// A flag that can be awaited, on one core.
#[derive(Default)]
pub struct Hurry {
    set: Cell<bool>,
    waker: Cell<Option<std::task::Waker>>,
}

impl Hurry {
    pub fn set(&self) {
        self.set.set(true);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    pub fn is_set(&self) -> bool {
        self.set.get()
    }

    /// Resolves when the flag is set. One waiter at a time.
    pub async fn wait(&self) {
        std::future::poll_fn(|cx| {
            if self.set.get() {
                return std::task::Poll::Ready(());
            }
            self.waker.set(Some(cx.waker().clone()));
            std::task::Poll::Pending
        })
        .await;
    }
}

/// One request.
pub struct Call {
    pub core: Rc<CoreContext>,
    pub caller: Rc<Caller>,
    pub key: ApiKey,
    pub version: i16,
    pub correlation_id: i32,
    /// The frame without its length.
    frame: Bytes,
    body_at: usize,
    order_fixed: Rc<Cell<bool>>,
}

/// What goes back to the client.
#[derive(Debug)]
pub enum Answer {
    /// No response at all (Produce with acks=0).
    Nothing,
    /// A whole frame.
    Frame(Vec<u8>),
    /// A frame whose records lie elsewhere; `records[index]` holds those of piece `index`.
    Pieces { framed: FramedResponse, records: Vec<Vec<Chunk>> },
}

/// Why the connection is closed instead of answered.
#[derive(Debug)]
pub enum Close {
    /// The frame is no request.
    Decode(DecodeError),
    /// The API is not served, or not in this version.
    NotServed { key: ApiKey, version: i16 },
    /// The caller has not logged in, or not yet.
    BeforeLogin { key: ApiKey },
    /// The login failed; there may be an answer that says so.
    FailedLogin(Box<FailedLogin>),
    /// The login is over, and was not renewed.
    SessionExpired,
    /// A request without a response failed, and this is how the client learns of it.
    AcksZero { code: ErrorCode },
    /// Our own response does not fit its version: a fault of the broker.
    Encode(EncodeError),
}

impl fmt::Display for Close {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decode(error) => write!(f, "the request does not parse: {error}"),
            Self::NotServed { key, version } => {
                write!(f, "version {version} of {} is not served", key.name())
            }
            Self::BeforeLogin { key } => {
                write!(f, "{} came before the login was done", key.name())
            }
            Self::FailedLogin(failed) => f.write_str(&failed.why),
            Self::SessionExpired => {
                f.write_str("its login was over (connections.max.reauth.ms) and was not renewed")
            }
            Self::AcksZero { code } => {
                write!(f, "a Produce with acks=0 failed with {code}, which has no other answer")
            }
            Self::Encode(error) => write!(f, "the response cannot be written: {error}"),
        }
    }
}

impl From<DecodeError> for Close {
    fn from(error: DecodeError) -> Close {
        Close::Decode(error)
    }
}

impl From<EncodeError> for Close {
    fn from(error: EncodeError) -> Close {
        Close::Encode(error)
    }
}

impl Call {
    /// Reads the header of `frame` and checks that the API and version are served.
    ///
    /// # Errors
    /// [`Close`]. An ApiVersions of a version from tomorrow is no error: it has its own answer.
    pub fn parse(core: Rc<CoreContext>, caller: Rc<Caller>, frame: Bytes) -> Result<Call, Close> {
        let mut reader = Reader::new(&frame);
        let header = RequestHeader::decode(&mut reader)?;
        let (key, version) = (header.api_key, header.api_version);
        let correlation_id = header.correlation_id;
        let body_at = reader.offset();
        let served = apis::find(key).is_some_and(|api| api.serves(version));
        if !served && key != ApiKey::ApiVersions {
            return Err(Close::NotServed { key, version });
        }
        let order_fixed = Rc::new(Cell::new(false));
        Ok(Call { core, caller, key, version, correlation_id, frame, body_at, order_fixed })
    }

    /// Whether later requests may be begun before this one is answered.
    pub fn is_two_stage(&self) -> bool {
        self.key == ApiKey::Produce
    }

    /// The flag that [`Call::fix_order`] sets.
    pub fn order_fixed(&self) -> Rc<Cell<bool>> {
        self.order_fixed.clone()
    }

    fn fix_order(&self) {
        self.order_fixed.set(true);
    }

    /// The body, borrowing from the frame.
    fn request<'a, R: Request<'a>>(&'a self) -> Result<R, Close> {
        let mut reader = Reader::new(&self.frame[self.body_at..]);
        Ok(R::decode(&mut reader, self.version)?)
    }

    /// What the client calls itself.
    fn client_id(&self) -> &str {
        let mut reader = Reader::new(&self.frame);
        // The header was read before, so this cannot fail.
        RequestHeader::decode(&mut reader).ok().and_then(|header| header.client_id).unwrap_or("")
    }

    /// Where the client is, as Apache Kafka writes it.
    fn client_host(&self) -> String {
        format!("/{}", self.caller.host)
    }

    /// The body's bytes, shared with the frame.
    fn body(&self) -> Bytes {
        self.frame.slice(self.body_at..)
    }

    /// Bytes of the request, shared with its frame.
    fn share(&self, bytes: &[u8]) -> Bytes {
        if bytes.is_empty() { Bytes::new() } else { self.frame.slice_ref(bytes) }
    }

    fn respond<'a, R: Response<'a>>(&self, response: &R) -> Result<Answer, Close> {
        self.respond_at(response, self.version)
    }

    fn respond_at<'a, R: Response<'a>>(&self, response: &R, version: i16) -> Result<Answer, Close> {
        Ok(Answer::Frame(frame::encode_response(response, version, self.correlation_id)?))
    }

    /// Waits for a change of the metadata for as long as the client does; zero and less is for as
    /// long as it takes.
    async fn in_time<T>(
        &self,
        timeout_ms: i32,
        change: impl Future<Output = Result<T, Refused>>,
    ) -> Result<T, Refused> {
        match u64::try_from(timeout_ms) {
            Ok(0) | Err(_) => change.await,
            Ok(ms) => timeout(Duration::from_millis(ms), change)
                .await
                .unwrap_or(Err(Refused::TimedOut { after_ms: timeout_ms })),
        }
    }

    fn image(&self) -> Arc<MetadataImage> {
        self.core.metadata.get()
    }

    /// The address of `broker` for clients of the listener this call came in by.
    fn endpoint<'b>(&self, broker: &'b Broker) -> &'b AdvertisedEndpoint {
        let by_name = broker.endpoints.iter().find(|e| *e.listener == *self.caller.listener);
        let Some(endpoint) = by_name.or_else(|| broker.endpoints.first()) else {
            panic!("broker {} has no endpoint", broker.id.get());
        };
        endpoint
    }
}

/// Answers a request.
///
/// # Errors
/// [`Close`]: the connection has to be closed, all earlier answers sent.
pub async fn answer(call: &Call) -> Result<Answer, Close> {
    call.core.requests.count(call.key);
    call.check_login()?;
    match call.key {
        ApiKey::Produce => produce::handle(call).await,
        ApiKey::Fetch => fetch::handle(call).await,
        ApiKey::ListOffsets => list_offsets::handle(call).await,
        ApiKey::Metadata => metadata::handle(call).await,
        ApiKey::OffsetCommit => offset_commit::handle(call).await,
        ApiKey::OffsetFetch => offset_fetch::handle(call).await,
        ApiKey::FindCoordinator => find_coordinator::handle(call).await,
        ApiKey::JoinGroup => join_group::handle(call).await,
        ApiKey::Heartbeat => heartbeat::handle(call).await,
        ApiKey::LeaveGroup => leave_group::handle(call).await,
        ApiKey::SyncGroup => sync_group::handle(call).await,
        ApiKey::DescribeGroups => describe_groups::handle(call).await,
        ApiKey::ListGroups => list_groups::handle(call).await,
        ApiKey::SaslHandshake => sasl_handshake::handle(call).await,
        ApiKey::SaslAuthenticate => sasl_authenticate::handle(call).await,
        ApiKey::ApiVersions => api_versions::handle(call),
        ApiKey::CreateTopics => create_topics::handle(call).await,
        ApiKey::DeleteTopics => delete_topics::handle(call).await,
        ApiKey::DeleteRecords => delete_records::handle(call).await,
        ApiKey::InitProducerId => init_producer_id::handle(call).await,
        ApiKey::AddPartitionsToTxn => add_partitions_to_txn::handle(call).await,
        ApiKey::AddOffsetsToTxn => add_offsets_to_txn::handle(call).await,
        ApiKey::EndTxn => end_txn::handle(call).await,
        ApiKey::WriteTxnMarkers => write_txn_markers::handle(call).await,
        ApiKey::TxnOffsetCommit => txn_offset_commit::handle(call).await,
        ApiKey::DescribeTransactions => describe_transactions::handle(call).await,
        ApiKey::ListTransactions => list_transactions::handle(call).await,
        ApiKey::OffsetForLeaderEpoch => offset_for_leader_epoch::handle(call).await,
        ApiKey::DescribeAcls => describe_acls::handle(call).await,
        ApiKey::CreateAcls => create_acls::handle(call).await,
        ApiKey::DeleteAcls => delete_acls::handle(call).await,
        ApiKey::DescribeConfigs => describe_configs::handle(call),
        ApiKey::AlterConfigs => alter_configs::handle(call).await,
        ApiKey::DescribeLogDirs => describe_log_dirs::handle(call).await,
        ApiKey::CreatePartitions => create_partitions::handle(call).await,
        ApiKey::DeleteGroups => delete_groups::handle(call).await,
        ApiKey::IncrementalAlterConfigs => incremental_alter_configs::handle(call).await,
        ApiKey::AlterReplicaLogDirs => alter_replica_log_dirs::handle(call),
        ApiKey::ElectLeaders => elect_leaders::handle(call),
        ApiKey::AlterPartitionReassignments => alter_partition_reassignments::handle(call),
        ApiKey::ListPartitionReassignments => list_partition_reassignments::handle(call),
        ApiKey::OffsetDelete => offset_delete::handle(call).await,
        ApiKey::DescribeUserScramCredentials => describe_user_scram_credentials::handle(call),
        ApiKey::AlterUserScramCredentials => alter_user_scram_credentials::handle(call).await,
        ApiKey::DescribeCluster => describe_cluster::handle(call),
        ApiKey::DescribeProducers => describe_producers::handle(call).await,
        ApiKey::ConsumerGroupHeartbeat => consumer_group_heartbeat::handle(call).await,
        ApiKey::ConsumerGroupDescribe => consumer_group_describe::handle(call).await,
        ApiKey::ListConfigResources => list_config_resources::handle(call),
        ApiKey::DescribeTopicPartitions => describe_topic_partitions::handle(call).await,
        key => Err(Close::NotServed { key, version: call.version }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The dispatch above and the table agree: what the table serves, `answer` has an arm for.
    #[test]
    fn every_served_api_is_dispatched() {
        let source = include_str!("api.rs");
        for api in apis::TABLE {
            let arm = format!("ApiKey::{} => ", api.key.name());
            assert!(source.contains(&arm), "{} has a row and no handler", api.key.name());
        }
        let arms = source.matches("::handle(call)").count() - 1;
        assert_eq!(arms, apis::TABLE.len(), "a handler has no row");
    }
}
