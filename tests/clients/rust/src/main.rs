//! rskafka: Fetch exactly version 4, Produce 3 to 7, no idempotence.
//!
//! The verbs and the record files are told in ../../python/common.py.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{BufRead, BufReader, Write};

use chrono::DateTime;
use md5::{Digest as _, Md5};
use rskafka::client::partition::{Compression, OffsetAt, PartitionClient, UnknownTopicHandling};
use rskafka::client::{Client, ClientBuilder};
use rskafka::record::{Record, RecordAndOffset};
use serde_json::{json, Value};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Partitions of a corpus topic.
const PARTITIONS: i32 = 16;
/// A batch is sent when it holds this much.
const BATCH_BYTES: usize = 400_000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().collect();
    let client = ClientBuilder::new(vec![args[2].clone()]).build().await?;
    let topic = &args[3];
    match args[1].as_str() {
        "produce" => produce(&client, topic, codec(&args[4]), &args[5]).await,
        "consume" => consume(&client, topic).await,
        "load" => load(&client, topic, codec(&args[4]), &args[5]).await,
        "drain" => drain(&client, topic).await,
        verb => Err(format!("unknown verb {verb}").into()),
    }
}

fn codec(name: &str) -> Compression {
    match name {
        "gzip" => Compression::Gzip,
        "snappy" => Compression::Snappy,
        "lz4" => Compression::Lz4,
        "zstd" => Compression::Zstd,
        _ => Compression::NoCompression,
    }
}

async fn open(client: &Client, topic: &str, partition: i32) -> Outcome<PartitionClient> {
    Ok(client.partition_client(topic, partition, UnknownTopicHandling::Retry).await?)
}

/// Batches per partition: what is gathered is sent when it is large enough.
struct Writer {
    client: PartitionClient,
    codec: Compression,
    waiting: Vec<Record>,
    bytes: usize,
    offsets: Vec<i64>,
}

impl Writer {
    async fn send(&mut self, record: Record) -> Outcome<()> {
        let size = record.approximate_size();
        if self.bytes + size > BATCH_BYTES {
            self.flush().await?;
        }
        self.bytes += size + 16;
        self.waiting.push(record);
        Ok(())
    }

    async fn flush(&mut self) -> Outcome<()> {
        let batch = std::mem::take(&mut self.waiting);
        self.bytes = 0;
        self.offsets.extend(self.client.produce(batch, self.codec).await?);
        Ok(())
    }
}

async fn writers(
    client: &Client,
    topic: &str,
    codec: Compression,
    partitions: i32,
) -> Outcome<Vec<Writer>> {
    let mut writers = Vec::new();
    for partition in 0..partitions {
        let client = open(client, topic, partition).await?;
        writers.push(Writer { client, codec, waiting: Vec::new(), bytes: 0, offsets: Vec::new() });
    }
    Ok(writers)
}

async fn produce(client: &Client, topic: &str, codec: Compression, path: &str) -> Outcome<()> {
    let rows: Vec<Value> = BufReader::new(std::fs::File::open(path)?)
        .lines()
        .map(|line| Ok(serde_json::from_str(&line?)?))
        .collect::<Outcome<_>>()?;
    let count = rows.iter().filter_map(|row| row["p"].as_i64()).max().unwrap_or(0) + 1;
    let mut writers = writers(client, topic, codec, count as i32).await?;
    for row in &rows {
        let partition = row["p"].as_i64().ok_or("a row without partition")? as usize;
        writers[partition].send(record(row)?).await?;
    }
    for writer in &mut writers {
        writer.flush().await?;
    }
    let mut following: Vec<_> = writers.iter().map(|writer| writer.offsets.iter()).collect();
    for row in &rows {
        let partition = row["p"].as_i64().ok_or("a row without partition")? as usize;
        println!("{}", json!({"p": partition, "o": following[partition].next()}));
    }
    Ok(())
}

fn record(row: &Value) -> Outcome<Record> {
    let mut headers = BTreeMap::new();
    for pair in row["h"].as_array().ok_or("headers are no list")? {
        let name = pair[0].as_str().ok_or("a header without name")?;
        headers.insert(name.to_owned(), bytes(&pair[1])?.unwrap_or_default());
    }
    let milliseconds = row["ts"].as_i64().ok_or("a row without timestamp")?;
    let timestamp =
        DateTime::from_timestamp_millis(milliseconds).ok_or("a timestamp out of range")?;
    Ok(Record { key: bytes(&row["k"])?, value: bytes(&row["v"])?, headers, timestamp })
}

fn bytes(text: &Value) -> Outcome<Option<Vec<u8>>> {
    Ok(text.as_str().map(hex::decode).transpose()?)
}

async fn load(client: &Client, topic: &str, codec: Compression, path: &str) -> Outcome<()> {
    let mut writers = writers(client, topic, codec, PARTITIONS).await?;
    let mut digest = Digest::default();
    let mut source = BufReader::with_capacity(1 << 20, std::fs::File::open(path)?);
    let timestamp = chrono::Utc::now();
    for i in 0.. {
        let mut line = Vec::new();
        if source.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        if line.last() == Some(&b'\n') {
            line.pop();
        }
        let partition = i % PARTITIONS;
        digest.add(partition, &line);
        let record = Record { key: None, value: Some(line), headers: BTreeMap::new(), timestamp };
        writers[partition as usize].send(record).await?;
    }
    for writer in &mut writers {
        writer.flush().await?;
    }
    digest.show();
    Ok(())
}

/// Reads all partitions one after the other, up to the ends seen at the start.
async fn read(
    client: &Client,
    topic: &str,
    mut take: impl FnMut(i32, RecordAndOffset),
) -> Outcome<()> {
    let topics = client.list_topics().await?;
    let found = topics.iter().find(|t| t.name == topic).ok_or("no such topic")?;
    for &partition in &found.partitions {
        let reader = open(client, topic, partition).await?;
        let mut offset = reader.get_offset(OffsetAt::Earliest).await?;
        let end = reader.get_offset(OffsetAt::Latest).await?;
        while offset < end {
            let (records, _) = reader.fetch_records(offset, 1..4_000_000, 20_000).await?;
            let last = records
                .last()
                .ok_or_else(|| format!("partition {partition}: nothing at {offset} of {end}"))?;
            offset = last.offset + 1;
            records.into_iter().for_each(|record| take(partition, record));
        }
    }
    Ok(())
}

async fn consume(client: &Client, topic: &str) -> Outcome<()> {
    let mut out = std::io::BufWriter::new(std::io::stdout());
    let mut written = Ok(());
    read(client, topic, |partition, RecordAndOffset { record, offset }| {
        let headers: Vec<_> =
            record.headers.iter().map(|(name, value)| json!([name, hex::encode(value)])).collect();
        let row = json!({"p": partition, "o": offset, "ts": record.timestamp.timestamp_millis(),
            "k": record.key.map(hex::encode), "v": record.value.map(hex::encode), "h": headers});
        if let Err(error) = writeln!(out, "{row}") {
            written = Err(error);
        }
    })
    .await?;
    written?;
    Ok(out.flush()?)
}

async fn drain(client: &Client, topic: &str) -> Outcome<()> {
    let mut digest = Digest::default();
    read(client, topic, |partition, found| {
        digest.add(partition, &found.record.value.unwrap_or_default())
    })
    .await?;
    digest.show();
    Ok(())
}

/// Order-independent over all partitions, ordered within each.
#[derive(Default)]
struct Digest {
    count: u64,
    bytes: u64,
    sum: u128,
    ordered: BTreeMap<i32, (u64, Md5)>,
}

impl Digest {
    fn add(&mut self, partition: i32, value: &[u8]) {
        let sum: [u8; 16] = Md5::digest(value).into();
        self.count += 1;
        self.bytes += value.len() as u64;
        self.sum = self.sum.wrapping_add(u128::from_be_bytes(sum));
        let (count, hash) = self.ordered.entry(partition).or_default();
        *count += 1;
        hash.update(sum);
    }

    fn show(self) {
        let partitions: BTreeMap<_, _> = self
            .ordered
            .into_iter()
            .map(|(partition, (count, hash))| {
                (partition.to_string(), json!([count, hex::encode(hash.finalize())]))
            })
            .collect();
        println!(
            "{}",
            json!({"count": self.count, "bytes": self.bytes, "sum": format!("{:032x}", self.sum), "partitions": partitions})
        );
    }
}
