use super::super::frame::encode_response;
use super::super::messages::fetch::{
    AbortedTransaction, EpochEndOffset, FetchResponse, FetchableTopicResponse, LeaderIdAndEpoch,
    NodeEndpoint, PartitionData,
};
use super::super::{EncodeError, Message, Records, Uuid};
use super::{FramedResponse, Piece, frame_in_pieces};

/// A small repeatable source of numbers (SplitMix64).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn one_in(&mut self, odds: usize) -> bool {
        self.below(odds) == 0
    }

    fn records<'a>(&mut self, pool: &'a [u8]) -> Records<'a> {
        // Lengths around the edges of the compact length, empty ones, and a null now and then.
        match self.below(8) {
            0 => Records::Null,
            1 | 2 => Records::EMPTY,
            3 => Records::Bytes(&pool[..126 + self.below(4)]),
            4 => Records::Bytes(&pool[..16_382 + self.below(4)]),
            _ => Records::Bytes(&pool[..1 + self.below(500)]),
        }
    }

    fn partition<'a>(&mut self, version: i16, pool: &'a [u8]) -> PartitionData<'a> {
        let aborted = AbortedTransaction { producer_id: 1, first_offset: 2 };
        let flexible = version >= 12;
        let mut data = PartitionData {
            partition_index: self.next() as i32,
            error_code: self.next() as i16,
            high_watermark: self.next() as i64,
            aborted_transactions: match self.below(3) {
                0 => None,
                count => Some(vec![aborted; count - 1]),
            },
            records: self.records(pool),
            ..Default::default()
        };
        if flexible && self.one_in(3) {
            data.diverging_epoch = EpochEndOffset { epoch: 3, end_offset: 4 };
        }
        if flexible && self.one_in(3) {
            data.current_leader = LeaderIdAndEpoch { leader_id: 5, leader_epoch: 6 };
        }
        data
    }

    fn response<'a>(&mut self, version: i16, pool: &'a [u8]) -> FetchResponse<'a> {
        let mut response =
            FetchResponse { throttle_time_ms: self.next() as i32, ..Default::default() };
        if version >= 7 {
            response.session_id = self.next() as i32;
        }
        for topic in 0..self.below(4) {
            let partitions = self.below(4);
            response.responses.push(FetchableTopicResponse {
                topic: "orders",
                topic_id: Uuid([topic as u8 + 1; 16]),
                partitions: (0..partitions).map(|_| self.partition(version, pool)).collect(),
            });
        }
        if version >= 16 && self.one_in(2) {
            let endpoint = NodeEndpoint { node_id: 7, host: "h", port: 9, rack: None };
            response.node_endpoints = vec![endpoint];
        }
        response
    }
}

/// Takes the records out of `response` and hands back where they are.
fn take_records<'a>(response: &mut FetchResponse<'a>) -> Vec<&'a [u8]> {
    let mut taken = Vec::new();
    for topic in &mut response.responses {
        for partition in &mut topic.partitions {
            if let Records::Bytes(bytes) = partition.records {
                taken.push(bytes);
                partition.records = Records::Elsewhere(bytes.len());
            }
        }
    }
    taken
}

fn joined(framed: &FramedResponse, records: &[&[u8]]) -> Vec<u8> {
    let mut sent = Vec::new();
    for piece in framed.pieces() {
        match piece {
            Piece::Head(head) => sent.extend_from_slice(head),
            Piece::Records { index, len } => {
                assert_eq!(records[index].len(), len);
                sent.extend_from_slice(records[index]);
            }
        }
    }
    sent
}

/// Goal: the pieces are the frame that the ordinary encoder writes, at every version.
#[test]
fn pieces_join_to_the_ordinary_frame_at_every_version() {
    let pool: Vec<u8> = (0..20_000u32).map(|index| index as u8).collect();
    let versions = FetchResponse::VERSIONS;
    let mut with_records = 0;
    for version in versions.min..=versions.max {
        for seed in 0..200 {
            let mut dice = Dice(seed << 8 | version as u64);
            let mut response = dice.response(version, &pool);
            let whole = encode_response(&response, version, 77).unwrap();
            let records = take_records(&mut response);
            let framed = frame_in_pieces(&response, version, 77, vec![0xee; 3]).unwrap();
            let sent = joined(&framed, &records);
            assert_eq!(sent, whole, "version {version}, seed {seed}");
            assert_eq!(framed.frame_bytes(), whole.len(), "version {version}, seed {seed}");
            assert_eq!(framed.records_bytes(), records.iter().map(|r| r.len()).sum::<usize>());
            assert!(framed.pieces().all(|piece| piece != Piece::Head(&[])));
            with_records += records.len();
        }
    }
    assert!(with_records > 5_000, "only {with_records} partitions had records to take");
}

#[test]
fn frames_beyond_two_gibibytes_are_refused() {
    let partition =
        PartitionData { records: Records::Elsewhere(i32::MAX as usize - 8), ..Default::default() };
    let topic = FetchableTopicResponse { partitions: vec![partition], ..Default::default() };
    let response = FetchResponse { responses: vec![topic], ..Default::default() };
    let refused = frame_in_pieces(&response, 12, 1, Vec::new()).map(|framed| framed.frame_bytes());
    assert!(matches!(refused, Err(EncodeError::TooLong { what: "a frame", .. })), "{refused:?}");
}

#[test]
fn empty_response_is_one_head() {
    let framed = frame_in_pieces(&FetchResponse::default(), 4, 1, Vec::new()).unwrap();
    let pieces: Vec<_> = framed.pieces().collect();
    assert_eq!(pieces, [Piece::Head(&[0, 0, 0, 12, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0])]);
}
