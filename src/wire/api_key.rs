//! Every API key that the codec knows, and the request and response behind it.
//!
//! What of this is *served* says [`super::apis`].

use super::codec_error::{DecodeError, EncodeError};
use super::messages::*;
use super::reader::Reader;
use super::schema::{Message, Request, Response, Schema, Shape, Versions, Wire};
use super::writer::Writer;

macro_rules! api_keys {
    ($($number:literal $key:ident: $request:ty, $response:ty;)*) => {
        /// The key of an API.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(i16)]
        pub enum ApiKey {
            $($key = $number,)*
        }

        impl ApiKey {
            /// All keys, in ascending order.
            pub const ALL: &'static [ApiKey] = &[$(ApiKey::$key,)*];

            /// The key with this number, if the codec knows it.
            pub const fn from_number(number: i16) -> Option<ApiKey> {
                match number {
                    $($number => Some(ApiKey::$key),)*
                    _ => None,
                }
            }

            /// The number on the wire.
            pub const fn number(self) -> i16 {
                self as i16
            }

            /// The name in Kafka's documentation.
            pub const fn name(self) -> &'static str {
                match self {
                    $(ApiKey::$key => stringify!($key),)*
                }
            }

            /// The versions that can be read and written.
            pub const fn versions(self) -> Versions {
                bodies(self).versions
            }

            /// The versions with compact lengths and tagged fields; empty if there are none.
            pub const fn flexible_versions(self) -> Versions {
                bodies(self).flexible
            }

            /// What the request looks like, as data.
            pub const fn request_schema(self) -> &'static Schema {
                schema(bodies(self).request)
            }

            /// What the response looks like, as data.
            pub const fn response_schema(self) -> &'static Schema {
                schema(bodies(self).response)
            }
        }

        /// What an API's row says of its two bodies.
        #[expect(clippy::extra_unused_lifetimes, reason = "the rows of the table name it")]
        const fn bodies<'a>(key: ApiKey) -> Bodies {
            match key {
                $(ApiKey::$key => Bodies {
                    versions: <$request as Message<'a>>::VERSIONS,
                    flexible: <$request as Message<'a>>::FLEXIBLE,
                    request: <$request as Wire<'a>>::SHAPE,
                    response: <$response as Wire<'a>>::SHAPE,
                },)*
            }
        }

        /// Both bodies of an API stand in its row, at the same versions.
        #[expect(clippy::extra_unused_lifetimes, reason = "the rows of the table name it")]
        const fn check_rows<'a>() {
            $(
                assert!(<$request as Request<'a>>::KEY as i16 == $number);
                assert!(<$response as Response<'a>>::KEY as i16 == $number);
                assert!(same(
                    <$request as Message<'a>>::VERSIONS,
                    <$response as Message<'a>>::VERSIONS,
                ));
                assert!(same(
                    <$request as Message<'a>>::FLEXIBLE,
                    <$response as Message<'a>>::FLEXIBLE,
                ));
            )*
        }

        const _: () = check_rows();

        /// The body of any request.
        #[derive(Clone, Debug, PartialEq)]
        #[allow(clippy::large_enum_variant)]
        pub enum AnyRequest<'a> {
            $($key($request),)*
        }

        impl<'a> AnyRequest<'a> {
            /// The request whose fields all have their defaults.
            pub fn default_of(key: ApiKey) -> Self {
                match key {
                    $(ApiKey::$key => Self::$key(Default::default()),)*
                }
            }

            /// Reads the body of a request of `key`.
            pub fn decode(
                key: ApiKey,
                reader: &mut Reader<'a>,
                version: i16,
            ) -> Result<Self, DecodeError> {
                match key {
                    $(ApiKey::$key => Message::decode(reader, version).map(Self::$key),)*
                }
            }

            /// Appends the body.
            pub fn encode(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
                match self {
                    $(Self::$key(request) => Message::encode(request, writer, version),)*
                }
            }
        }

        /// The body of any response.
        #[derive(Clone, Debug, PartialEq)]
        #[allow(clippy::large_enum_variant)]
        pub enum AnyResponse<'a> {
            $($key($response),)*
        }

        impl<'a> AnyResponse<'a> {
            /// The response whose fields all have their defaults.
            pub fn default_of(key: ApiKey) -> Self {
                match key {
                    $(ApiKey::$key => Self::$key(Default::default()),)*
                }
            }

            /// Reads the body of a response of `key`.
            pub fn decode(
                key: ApiKey,
                reader: &mut Reader<'a>,
                version: i16,
            ) -> Result<Self, DecodeError> {
                match key {
                    $(ApiKey::$key => Message::decode(reader, version).map(Self::$key),)*
                }
            }

            /// Appends the body.
            pub fn encode(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
                match self {
                    $(Self::$key(response) => Message::encode(response, writer, version),)*
                }
            }
        }
    };
}

api_keys! {
    0 Produce: ProduceRequest<'a>, ProduceResponse<'a>;
    1 Fetch: FetchRequest<'a>, FetchResponse<'a>;
    2 ListOffsets: ListOffsetsRequest<'a>, ListOffsetsResponse<'a>;
    3 Metadata: MetadataRequest<'a>, MetadataResponse<'a>;
    8 OffsetCommit: OffsetCommitRequest<'a>, OffsetCommitResponse<'a>;
    9 OffsetFetch: OffsetFetchRequest<'a>, OffsetFetchResponse<'a>;
    10 FindCoordinator: FindCoordinatorRequest<'a>, FindCoordinatorResponse<'a>;
    11 JoinGroup: JoinGroupRequest<'a>, JoinGroupResponse<'a>;
    12 Heartbeat: HeartbeatRequest<'a>, HeartbeatResponse;
    13 LeaveGroup: LeaveGroupRequest<'a>, LeaveGroupResponse<'a>;
    14 SyncGroup: SyncGroupRequest<'a>, SyncGroupResponse<'a>;
    15 DescribeGroups: DescribeGroupsRequest<'a>, DescribeGroupsResponse<'a>;
    16 ListGroups: ListGroupsRequest<'a>, ListGroupsResponse<'a>;
    17 SaslHandshake: SaslHandshakeRequest<'a>, SaslHandshakeResponse<'a>;
    18 ApiVersions: ApiVersionsRequest<'a>, ApiVersionsResponse<'a>;
    19 CreateTopics: CreateTopicsRequest<'a>, CreateTopicsResponse<'a>;
    20 DeleteTopics: DeleteTopicsRequest<'a>, DeleteTopicsResponse<'a>;
    21 DeleteRecords: DeleteRecordsRequest<'a>, DeleteRecordsResponse<'a>;
    22 InitProducerId: InitProducerIdRequest<'a>, InitProducerIdResponse;
    23 OffsetForLeaderEpoch: OffsetForLeaderEpochRequest<'a>, OffsetForLeaderEpochResponse<'a>;
    24 AddPartitionsToTxn: AddPartitionsToTxnRequest<'a>, AddPartitionsToTxnResponse<'a>;
    25 AddOffsetsToTxn: AddOffsetsToTxnRequest<'a>, AddOffsetsToTxnResponse;
    26 EndTxn: EndTxnRequest<'a>, EndTxnResponse;
    27 WriteTxnMarkers: WriteTxnMarkersRequest<'a>, WriteTxnMarkersResponse<'a>;
    28 TxnOffsetCommit: TxnOffsetCommitRequest<'a>, TxnOffsetCommitResponse<'a>;
    29 DescribeAcls: DescribeAclsRequest<'a>, DescribeAclsResponse<'a>;
    30 CreateAcls: CreateAclsRequest<'a>, CreateAclsResponse<'a>;
    31 DeleteAcls: DeleteAclsRequest<'a>, DeleteAclsResponse<'a>;
    32 DescribeConfigs: DescribeConfigsRequest<'a>, DescribeConfigsResponse<'a>;
    33 AlterConfigs: AlterConfigsRequest<'a>, AlterConfigsResponse<'a>;
    34 AlterReplicaLogDirs: AlterReplicaLogDirsRequest<'a>, AlterReplicaLogDirsResponse<'a>;
    35 DescribeLogDirs: DescribeLogDirsRequest<'a>, DescribeLogDirsResponse<'a>;
    36 SaslAuthenticate: SaslAuthenticateRequest<'a>, SaslAuthenticateResponse<'a>;
    37 CreatePartitions: CreatePartitionsRequest<'a>, CreatePartitionsResponse<'a>;
    38 CreateDelegationToken: CreateDelegationTokenRequest<'a>, CreateDelegationTokenResponse<'a>;
    39 RenewDelegationToken: RenewDelegationTokenRequest<'a>, RenewDelegationTokenResponse;
    40 ExpireDelegationToken: ExpireDelegationTokenRequest<'a>, ExpireDelegationTokenResponse;
    41 DescribeDelegationToken: DescribeDelegationTokenRequest<'a>, DescribeDelegationTokenResponse<'a>;
    42 DeleteGroups: DeleteGroupsRequest<'a>, DeleteGroupsResponse<'a>;
    43 ElectLeaders: ElectLeadersRequest<'a>, ElectLeadersResponse<'a>;
    44 IncrementalAlterConfigs: IncrementalAlterConfigsRequest<'a>, IncrementalAlterConfigsResponse<'a>;
    45 AlterPartitionReassignments: AlterPartitionReassignmentsRequest<'a>, AlterPartitionReassignmentsResponse<'a>;
    46 ListPartitionReassignments: ListPartitionReassignmentsRequest<'a>, ListPartitionReassignmentsResponse<'a>;
    47 OffsetDelete: OffsetDeleteRequest<'a>, OffsetDeleteResponse<'a>;
    48 DescribeClientQuotas: DescribeClientQuotasRequest<'a>, DescribeClientQuotasResponse<'a>;
    49 AlterClientQuotas: AlterClientQuotasRequest<'a>, AlterClientQuotasResponse<'a>;
    50 DescribeUserScramCredentials: DescribeUserScramCredentialsRequest<'a>, DescribeUserScramCredentialsResponse<'a>;
    51 AlterUserScramCredentials: AlterUserScramCredentialsRequest<'a>, AlterUserScramCredentialsResponse<'a>;
    52 Vote: VoteRequest<'a>, VoteResponse<'a>;
    53 BeginQuorumEpoch: BeginQuorumEpochRequest<'a>, BeginQuorumEpochResponse<'a>;
    54 EndQuorumEpoch: EndQuorumEpochRequest<'a>, EndQuorumEpochResponse<'a>;
    55 DescribeQuorum: DescribeQuorumRequest<'a>, DescribeQuorumResponse<'a>;
    56 AlterPartition: AlterPartitionRequest, AlterPartitionResponse;
    57 UpdateFeatures: UpdateFeaturesRequest<'a>, UpdateFeaturesResponse<'a>;
    58 Envelope: EnvelopeRequest<'a>, EnvelopeResponse<'a>;
    59 FetchSnapshot: FetchSnapshotRequest<'a>, FetchSnapshotResponse<'a>;
    60 DescribeCluster: DescribeClusterRequest, DescribeClusterResponse<'a>;
    61 DescribeProducers: DescribeProducersRequest<'a>, DescribeProducersResponse<'a>;
    62 BrokerRegistration: BrokerRegistrationRequest<'a>, BrokerRegistrationResponse;
    63 BrokerHeartbeat: BrokerHeartbeatRequest, BrokerHeartbeatResponse;
    64 UnregisterBroker: UnregisterBrokerRequest, UnregisterBrokerResponse<'a>;
    65 DescribeTransactions: DescribeTransactionsRequest<'a>, DescribeTransactionsResponse<'a>;
    66 ListTransactions: ListTransactionsRequest<'a>, ListTransactionsResponse<'a>;
    67 AllocateProducerIds: AllocateProducerIdsRequest, AllocateProducerIdsResponse;
    68 ConsumerGroupHeartbeat: ConsumerGroupHeartbeatRequest<'a>, ConsumerGroupHeartbeatResponse<'a>;
    69 ConsumerGroupDescribe: ConsumerGroupDescribeRequest<'a>, ConsumerGroupDescribeResponse<'a>;
    70 ControllerRegistration: ControllerRegistrationRequest<'a>, ControllerRegistrationResponse<'a>;
    71 GetTelemetrySubscriptions: GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse<'a>;
    72 PushTelemetry: PushTelemetryRequest<'a>, PushTelemetryResponse;
    73 AssignReplicasToDirs: AssignReplicasToDirsRequest, AssignReplicasToDirsResponse;
    74 ListConfigResources: ListConfigResourcesRequest, ListConfigResourcesResponse<'a>;
    75 DescribeTopicPartitions: DescribeTopicPartitionsRequest<'a>, DescribeTopicPartitionsResponse<'a>;
    76 ShareGroupHeartbeat: ShareGroupHeartbeatRequest<'a>, ShareGroupHeartbeatResponse<'a>;
    77 ShareGroupDescribe: ShareGroupDescribeRequest<'a>, ShareGroupDescribeResponse<'a>;
    78 ShareFetch: ShareFetchRequest<'a>, ShareFetchResponse<'a>;
    79 ShareAcknowledge: ShareAcknowledgeRequest<'a>, ShareAcknowledgeResponse<'a>;
    80 AddRaftVoter: AddRaftVoterRequest<'a>, AddRaftVoterResponse<'a>;
    81 RemoveRaftVoter: RemoveRaftVoterRequest<'a>, RemoveRaftVoterResponse<'a>;
    82 UpdateRaftVoter: UpdateRaftVoterRequest<'a>, UpdateRaftVoterResponse<'a>;
    83 InitializeShareGroupState: InitializeShareGroupStateRequest<'a>, InitializeShareGroupStateResponse<'a>;
    84 ReadShareGroupState: ReadShareGroupStateRequest<'a>, ReadShareGroupStateResponse<'a>;
    85 WriteShareGroupState: WriteShareGroupStateRequest<'a>, WriteShareGroupStateResponse<'a>;
    86 DeleteShareGroupState: DeleteShareGroupStateRequest<'a>, DeleteShareGroupStateResponse<'a>;
    87 ReadShareGroupStateSummary: ReadShareGroupStateSummaryRequest<'a>, ReadShareGroupStateSummaryResponse<'a>;
    90 DescribeShareGroupOffsets: DescribeShareGroupOffsetsRequest<'a>, DescribeShareGroupOffsetsResponse<'a>;
    91 AlterShareGroupOffsets: AlterShareGroupOffsetsRequest<'a>, AlterShareGroupOffsetsResponse<'a>;
    92 DeleteShareGroupOffsets: DeleteShareGroupOffsetsRequest<'a>, DeleteShareGroupOffsetsResponse<'a>;
}

struct Bodies {
    versions: Versions,
    flexible: Versions,
    request: Shape,
    response: Shape,
}

const fn same(one: Versions, other: Versions) -> bool {
    one.min == other.min && one.max == other.max
}

const fn schema(shape: Shape) -> &'static Schema {
    match shape {
        Shape::Struct(schema) => schema,
        _ => panic!("a message is a struct"),
    }
}
