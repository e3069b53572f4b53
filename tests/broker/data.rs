//! Produce, fetch, and what is left after a restart.

use crate::support::{Broker, Client, fetch_request, produce_request, produced, values};
use millstream::wire::messages::*;
use millstream_io::batch::testing::BatchBuilder;

#[test]
fn records_come_back_at_their_offsets() {
    let broker = Broker::start();
    let mut client = broker.connect();
    client.create("t", 2);
    assert_eq!(client.produce("t", 1, &["a", "b"]), (0, 0));
    assert_eq!(client.produce("t", 1, &["c"]), (0, 2));
    assert_eq!(client.produce("t", 0, &["z"]), (0, 0));
    let (code, high_watermark, records) = client.fetch("t", 1, 0);
    assert_eq!((code, high_watermark), (0, 3));
    let expected = [(0, "a"), (1, "b"), (2, "c")].map(|(o, v)| (o, v.to_owned()));
    assert_eq!(values(&records), expected);
    let (_, _, inside) = client.fetch("t", 1, 1);
    assert_eq!(values(&inside), expected, "an offset inside a batch gives the whole batch");
    assert_eq!(client.fetch("t", 1, 4).0, 1);
    assert_eq!(client.fetch("t", 2, 0).0, 3);
    assert_eq!(client.fetch("nope", 0, 0).0, 3);
}

/// Kills in the middle of a stream of batches, several times: everything that was answered is
/// there, at its offset, once.
#[test]
fn acknowledged_records_survive_kill_and_stop() {
    let mut broker = Broker::start();
    broker.connect().create("t", 3);
    let mut acked: Vec<(i32, i64, String)> = Vec::new();
    for round in 0..6 {
        let mut client = broker.connect();
        for number in 0..40 {
            let partition = number % 3;
            let value = format!("{round}-{number}");
            let (code, offset) = client.produce("t", partition, &[&value]);
            assert_eq!(code, 0);
            acked.push((partition, offset, value));
        }
        if round % 2 == 0 {
            broker.kill()
        } else {
            assert!(broker.stop().success())
        }
        broker.start_again();
        let mut client = broker.connect();
        for partition in 0..3 {
            let found = read_all(&mut client, "t", partition);
            let expected: Vec<(i64, String)> = acked
                .iter()
                .filter(|(p, ..)| *p == partition)
                .map(|(_, offset, value)| (*offset, value.clone()))
                .collect();
            assert_eq!(found, expected, "round {round}, partition {partition}");
        }
    }
}

fn read_all(client: &mut Client, topic: &str, partition: i32) -> Vec<(i64, String)> {
    let mut all = Vec::new();
    loop {
        let next = all.last().map_or(0, |(offset, _)| offset + 1);
        let (code, high_watermark, records) = client.fetch(topic, partition, next);
        assert_eq!(code, 0);
        all.extend(values(&records));
        if all.last().map_or(0, |(offset, _)| offset + 1) >= high_watermark {
            return all;
        }
    }
}

#[test]
fn pipelined_produces_are_answered_in_order_at_consecutive_offsets() {
    let broker = Broker::start();
    let mut client = broker.connect();
    client.create("t", 1);
    let batch = BatchBuilder::of_values(["x"]).build();
    let request = produce_request("t", 0, &batch, -1);
    let sent: Vec<i32> = (0..300).map(|_| client.send(9, &request)).collect();
    for (expected, correlation_id) in sent.into_iter().enumerate() {
        let body = client.receive::<ProduceRequest<'_>>(9, correlation_id);
        assert_eq!(produced(&body), (0, i64::try_from(expected).unwrap()));
    }
}

#[test]
fn different_requests_in_one_pipeline_are_answered_in_order() {
    let broker = Broker::start();
    let mut client = broker.connect();
    let batch = BatchBuilder::of_values(["x"]).build();
    let topic = create_topics::CreatableTopic {
        name: "t",
        num_partitions: 1,
        replication_factor: 1,
        ..Default::default()
    };
    let create = CreateTopicsRequest { topics: vec![topic], ..Default::default() };
    // The Produce behind the CreateTopics finds the topic, the Fetch behind it the record.
    let first = client.send(5, &create);
    let second = client.send(9, &produce_request("t", 0, &batch, -1));
    let third = client.send(12, &fetch_request("t", 0, 0));
    let fourth = client.send(9, &produce_request("t", 0, &batch, 1));
    let body = client.receive::<CreateTopicsRequest<'_>>(5, first);
    assert_eq!(body.decode::<CreateTopicsResponse<'_>>(5).topics[0].error_code, 0);
    assert_eq!(produced(&client.receive::<ProduceRequest<'_>>(9, second)), (0, 0));
    let body = client.receive::<FetchRequest<'_>>(12, third);
    let response: FetchResponse<'_> = body.decode(12);
    assert_eq!(response.responses[0].partitions[0].high_watermark, 1);
    assert_eq!(produced(&client.receive::<ProduceRequest<'_>>(9, fourth)), (0, 1));
}

#[test]
fn acks_zero_is_never_answered_and_closes_on_an_error() {
    let broker = Broker::start();
    let mut client = broker.connect();
    client.create("t", 1);
    let batch = BatchBuilder::of_values(["x"]).build();
    client.send(9, &produce_request("t", 0, &batch, 0));
    let (code, offset) = client.produce("t", 0, &["y"]);
    assert_eq!((code, offset), (0, 1), "the next answer is that of the next request");
    client.send(9, &produce_request("t", 7, &batch, 0));
    assert!(client.is_closed());
}

#[test]
fn one_bad_partition_harms_no_neighbour() {
    let broker = Broker::start();
    let mut client = broker.connect();
    client.create("t", 2);
    let good = BatchBuilder::of_values(["x"]).build();
    let mut bad = good.to_vec();
    *bad.last_mut().unwrap() ^= 1;
    let data = |index, records| produce::PartitionProduceData { index, records };
    let topic = |name, partition_data| produce::TopicProduceData {
        name,
        partition_data,
        ..Default::default()
    };
    let partitions =
        vec![data(0, Some(&bad[..])), data(1, Some(&good[..])), data(2, Some(&good[..]))];
    let request = ProduceRequest {
        acks: -1,
        timeout_ms: 1000,
        topic_data: vec![topic("nope", vec![data(0, Some(&good[..]))]), topic("t", partitions)],
        ..Default::default()
    };
    let body = client.call(9, &request);
    let response: ProduceResponse<'_> = body.decode(9);
    let codes: Vec<i16> = response
        .responses
        .iter()
        .flat_map(|topic| topic.partition_responses.iter().map(|p| p.error_code))
        .collect();
    assert_eq!(codes, [3, 2, 0, 3]);
    assert_eq!(client.fetch("t", 0, 0).1, 0);
    assert_eq!(client.fetch("t", 1, 0).1, 1);
}

#[test]
fn retried_batch_of_an_idempotent_producer_is_stored_once_also_after_a_kill() {
    let mut broker = Broker::start();
    let mut client = broker.connect();
    client.create("t", 1);
    let request = InitProducerIdRequest { transactional_id: None, ..Default::default() };
    let body = client.call(4, &request);
    let id = body.decode::<InitProducerIdResponse>(4).producer_id;
    let batch =
        |sequence| BatchBuilder::of_values(["x", "y"]).from_producer(id, 0, sequence).build();
    assert_eq!(client.produce_batch("t", 0, &batch(0), -1), (0, 0));
    assert_eq!(client.produce_batch("t", 0, &batch(2), -1), (0, 2));
    assert_eq!(client.produce_batch("t", 0, &batch(0), -1), (0, 0));
    assert_eq!(client.produce_batch("t", 0, &batch(9), -1).0, 45);
    broker.kill();
    broker.start_again();
    let mut client = broker.connect();
    assert_eq!(client.produce_batch("t", 0, &batch(2), -1), (0, 2));
    assert_eq!(client.produce_batch("t", 0, &batch(4), -1), (0, 4));
    assert_eq!(client.fetch("t", 0, 0).1, 6);
    let body = client.call(4, &request);
    assert_ne!(body.decode::<InitProducerIdResponse>(4).producer_id, id, "ids are never repeated");
}

#[test]
fn batch_of_a_transaction_is_refused_without_a_transactional_id() {
    let broker = Broker::start();
    let mut client = broker.connect();
    client.create("t", 1);
    let batch = BatchBuilder {
        attributes: millstream_io::batch::Attributes::TRANSACTIONAL,
        ..BatchBuilder::of_values(["x"]).from_producer(1, 0, 0)
    };
    assert_eq!(client.produce_batch("t", 0, &batch.build(), -1).0, 53);
    let request = InitProducerIdRequest {
        transactional_id: Some(""),
        transaction_timeout_ms: 1000,
        ..Default::default()
    };
    let body = client.call(4, &request);
    assert_eq!(body.decode::<InitProducerIdResponse>(4).error_code, 42);
}

#[test]
fn verify_and_inspect_read_what_a_stopped_broker_left() {
    let mut broker = Broker::start();
    let mut client = broker.connect();
    client.create("t", 1);
    client.produce("t", 0, &["a", "b"]);
    client.produce("t", 0, &["c"]);
    assert!(broker.stop().success());
    let data = broker.data.path().join("data");
    let run = |command: &str, path: &std::path::Path| {
        let binary = env!("CARGO_BIN_EXE_millstream");
        let out = std::process::Command::new(binary).arg(command).arg(path).output().unwrap();
        (out.status.code(), String::from_utf8(out.stdout).unwrap())
    };
    let (code, said) = run("verify", &data);
    assert_eq!(code, Some(0), "{said}");
    let logs = std::fs::read_dir(data.join("topics/t/0")).unwrap();
    let log =
        logs.flatten().map(|entry| entry.path()).find(|p| p.extension() == Some("log".as_ref()));
    let log = log.unwrap();
    let (code, said) = run("inspect", &log);
    assert!(code == Some(0) && !said.is_empty(), "{said}");
    let mut bytes = std::fs::read(&log).unwrap();
    bytes[70] ^= 1;
    std::fs::write(&log, bytes).unwrap();
    assert_eq!(run("verify", &data).0, Some(1));
    assert_eq!(run("inspect", &log).0, Some(1));
    assert_eq!(run("verify", broker.data.path()).0, Some(1));
}

/// Deep validation refuses what header validation stores: records that are no records.
#[test]
fn deep_validation_refuses_what_is_no_record() {
    let broker = Broker::start();
    let mut client = broker.connect();
    client.create("opaque", 1);
    assert_eq!(client.create_with("deep", 1, &[("batch.validation", "deep")]), 0);
    let good = BatchBuilder::of_values(["x", "y"]).build();
    let rubbish =
        BatchBuilder { payload: Some(vec![0x7f; 40]), ..BatchBuilder::of_values(["x", "y"]) };
    let compressed = BatchBuilder::of_values(["x"])
        .compressed(millstream_io::batch::Codec::Gzip, vec![1; 9000])
        .build();
    assert_eq!(client.produce_batch("deep", 0, &good, -1), (0, 0));
    assert_eq!(client.produce_batch("opaque", 0, &rubbish.build(), -1), (0, 0));
    assert_eq!(client.produce_batch("deep", 0, &rubbish.build(), -1).0, 87);
    assert_eq!(client.produce_batch("opaque", 0, &compressed, -1), (0, 2));
    assert_eq!(client.produce_batch("deep", 0, &compressed, -1).0, 2);
    assert_eq!(client.fetch("deep", 0, 0).1, 2);
}
