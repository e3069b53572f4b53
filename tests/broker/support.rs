//! A broker process and a raw client that speaks by the broker's own codec.

use millstream::wire::frame::LENGTH_BYTES;
use millstream::wire::messages::*;
use millstream::wire::{Message, Reader, Request, RequestHeader, Response, ResponseHeader, Writer};
use millstream_io::batch::testing::BatchBuilder;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long anything may take before a test gives up.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A broker of its own data directory, on ports of its own choice.
pub struct Broker {
    pub data: tempfile::TempDir,
    arguments: Vec<String>,
    process: Option<Child>,
    /// The line it said when it was ready.
    pub ready: String,
    pub address: String,
}

impl Broker {
    pub fn start() -> Broker {
        Broker::with(&[])
    }

    /// Starts with further arguments.
    pub fn with(arguments: &[&str]) -> Broker {
        Broker::on(tempfile::tempdir().unwrap(), arguments)
    }

    /// Starts on a directory that is there.
    pub fn on(data: tempfile::TempDir, arguments: &[&str]) -> Broker {
        let mut broker = Broker {
            data,
            arguments: arguments.iter().map(|a| (*a).to_owned()).collect(),
            process: None,
            ready: String::new(),
            address: String::new(),
        };
        broker.start_again();
        broker
    }

    /// Other arguments, from the next start on.
    pub fn give(&mut self, arguments: &[&str]) {
        self.arguments = arguments.iter().map(|a| (*a).to_owned()).collect();
    }

    pub fn start_again(&mut self) {
        assert!(self.process.is_none());
        let mut child = command(self.data.path(), &self.arguments).spawn().unwrap();
        let mut line = String::new();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        said.read_line(&mut line).unwrap();
        if line.is_empty() {
            let status = child.wait().unwrap();
            panic!("the broker ended with {status} before it was ready: {}", self.log());
        }
        let address = line.split_whitespace().find(|word| word.starts_with("127.0.0.1:"));
        self.address = address.unwrap().trim_end_matches([',', ';']).to_owned();
        self.ready = line;
        self.process = Some(child);
    }

    pub fn connect(&self) -> Client {
        Client::connect(&self.address)
    }

    pub fn kill(&mut self) {
        let mut child = self.process.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// SIGTERM; what it ended with.
    pub fn stop(&mut self) -> ExitStatus {
        let child = self.process.take().unwrap();
        let status = Command::new("kill").arg(child.id().to_string()).status().unwrap();
        assert!(status.success());
        wait(child)
    }

    /// All that this data directory's brokers said on stderr.
    pub fn log(&self) -> String {
        std::fs::read_to_string(log_path(self.data.path())).unwrap_or_default()
    }

    /// Waits until the log holds `part`; its writer is a thread of its own.
    pub fn logs(&self, part: &str) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(5) {
            if self.log().contains(part) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }

    pub fn pid(&self) -> u32 {
        self.process.as_ref().unwrap().id()
    }

    /// Resident bytes.
    pub fn rss(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        if let Some(mut child) = self.process.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Starts a broker that should refuse; its exit status and all it said.
pub fn refused(data: &Path, arguments: &[&str]) -> (ExitStatus, String) {
    let arguments: Vec<String> = arguments.iter().map(|a| (*a).to_owned()).collect();
    let mut child = command(data, &arguments).spawn().unwrap();
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    let status = wait(child);
    said.push_str(&std::fs::read_to_string(log_path(data)).unwrap_or_default());
    (status, said)
}

fn command(data: &Path, arguments: &[String]) -> Command {
    let log = std::fs::OpenOptions::new().append(true).create(true).open(log_path(data)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_millstream"));
    let inner = data.join("data");
    command.arg("--data-dir").arg(inner).args(arguments);
    if !arguments.iter().any(|argument| argument.starts_with("--listen")) {
        command.args(["--listen", "127.0.0.1:0"]);
    }
    // Tests run side by side, and there is one default port.
    if !arguments.iter().any(|argument| argument.starts_with("admin.")) {
        command.args(["--set", "admin.listener="]);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
    command
}

fn log_path(data: &Path) -> PathBuf {
    data.join("log")
}

fn wait(mut child: Child) -> ExitStatus {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if begun.elapsed() > PATIENCE {
            let _ = child.kill();
            panic!("the broker did not end within {PATIENCE:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// One connection.
pub struct Client {
    pub stream: TcpStream,
    next_correlation: i32,
}

/// A response: its frame without length and header.
pub struct Body(Vec<u8>);

impl Body {
    pub fn decode<'f, R: Response<'f>>(&'f self, version: i16) -> R {
        R::decode(&mut Reader::new(&self.0), version).unwrap()
    }
}

impl Client {
    pub fn connect(address: &str) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Client { stream, next_correlation: 1 }
    }

    /// Sends a request; its correlation id.
    pub fn send<'r, Q: Request<'r>>(&mut self, version: i16, request: &Q) -> i32 {
        let correlation_id = self.next_correlation;
        self.next_correlation += 1;
        let frame = frame_of(version, request, correlation_id);
        self.stream.write_all(&frame).unwrap();
        correlation_id
    }

    /// The next response, which has to be that of `correlation_id`.
    pub fn receive<'r, Q: Request<'r>>(&mut self, version: i16, correlation_id: i32) -> Body {
        let frame = self.read_frame().unwrap();
        let mut reader = Reader::new(&frame);
        let header = ResponseHeader::decode(&mut reader, Q::KEY, version).unwrap();
        assert_eq!(header.correlation_id, correlation_id, "answers out of order");
        let at = reader.offset();
        Body(frame[at..].to_vec())
    }

    pub fn call<'r, Q: Request<'r>>(&mut self, version: i16, request: &Q) -> Body {
        let correlation_id = self.send(version, request);
        self.receive::<Q>(version, correlation_id)
    }

    /// One frame without its length.
    pub fn read_frame(&mut self) -> std::io::Result<Vec<u8>> {
        let mut length = [0; LENGTH_BYTES];
        self.stream.read_exact(&mut length)?;
        let mut frame = vec![0; usize::try_from(i32::from_be_bytes(length)).unwrap()];
        self.stream.read_exact(&mut frame)?;
        Ok(frame)
    }

    /// Whether the broker closes the connection without a further byte.
    pub fn is_closed(&mut self) -> bool {
        let mut byte = [0];
        match self.stream.read(&mut byte) {
            Ok(0) => true,
            Ok(_) => false,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }

    pub fn create(&mut self, name: &str, partitions: i32) {
        let code = self.create_with(name, partitions, &[]);
        assert_eq!(code, 0, "creating {name}");
    }

    pub fn create_with(
        &mut self,
        name: &str,
        num_partitions: i32,
        configs: &[(&str, &str)],
    ) -> i16 {
        let configs = configs
            .iter()
            .map(|(name, value)| create_topics::CreatableTopicConfig { name, value: Some(value) });
        let topic = create_topics::CreatableTopic {
            name,
            num_partitions,
            replication_factor: -1,
            configs: configs.collect(),
            ..Default::default()
        };
        let request = CreateTopicsRequest { topics: vec![topic], ..Default::default() };
        let body = self.call(7, &request);
        body.decode::<CreateTopicsResponse<'_>>(7).topics[0].error_code
    }

    /// Appends one batch with a record for each value; error code and base offset.
    pub fn produce(&mut self, topic: &str, partition: i32, values: &[&str]) -> (i16, i64) {
        let batch = BatchBuilder::of_values(values).build();
        self.produce_batch(topic, partition, &batch, -1)
    }

    pub fn produce_batch(
        &mut self,
        topic: &str,
        partition: i32,
        batch: &[u8],
        acks: i16,
    ) -> (i16, i64) {
        let request = produce_request(topic, partition, batch, acks);
        let body = self.call(9, &request);
        produced(&body)
    }

    /// All batches of a partition from `offset` on that one answer holds, and the HighWatermark.
    pub fn fetch(&mut self, topic: &str, partition: i32, offset: i64) -> (i16, i64, Vec<u8>) {
        let body = self.call(12, &fetch_request(topic, partition, offset));
        let response: FetchResponse<'_> = body.decode(12);
        let data = &response.responses[0].partitions[0];
        let records = match data.records {
            millstream::wire::Records::Bytes(bytes) => bytes.to_vec(),
            _ => Vec::new(),
        };
        (data.error_code, data.high_watermark, records)
    }
}

/// Length, header and body of a request.
pub fn frame_of<'r, Q: Request<'r>>(version: i16, request: &Q, correlation_id: i32) -> Vec<u8> {
    let mut writer = Writer::new();
    let client_id = Some("test");
    let api_key = Q::KEY;
    let header = RequestHeader { api_key, api_version: version, correlation_id, client_id };
    header.encode(&mut writer).unwrap();
    Message::encode(request, &mut writer, version).unwrap();
    let body = writer.into_bytes();
    let mut frame = i32::try_from(body.len()).unwrap().to_be_bytes().to_vec();
    frame.extend_from_slice(&body);
    frame
}

pub fn produce_request<'r>(
    topic: &'r str,
    partition: i32,
    batch: &'r [u8],
    acks: i16,
) -> ProduceRequest<'r> {
    let data = produce::PartitionProduceData { index: partition, records: Some(batch) };
    let topic_data =
        produce::TopicProduceData { name: topic, partition_data: vec![data], ..Default::default() };
    ProduceRequest { acks, timeout_ms: 10_000, topic_data: vec![topic_data], ..Default::default() }
}

pub fn produced(body: &Body) -> (i16, i64) {
    let response: ProduceResponse<'_> = body.decode(9);
    let answer = &response.responses[0].partition_responses[0];
    (answer.error_code, answer.base_offset)
}

pub fn fetch_request(topic: &str, partition: i32, fetch_offset: i64) -> FetchRequest<'_> {
    let partition = fetch::FetchPartition {
        partition,
        fetch_offset,
        partition_max_bytes: 10 << 20,
        ..Default::default()
    };
    let topic = fetch::FetchTopic { topic, partitions: vec![partition], ..Default::default() };
    FetchRequest { max_bytes: 50 << 20, topics: vec![topic], ..Default::default() }
}

/// The values of all records in `batches`, which are as [`BatchBuilder::of_values`] makes them:
/// base offset and value of each batch's records.
pub fn values(batches: &[u8]) -> Vec<(i64, String)> {
    let mut values = Vec::new();
    let mut rest = batches;
    while rest.len() >= 61 {
        let base = i64::from_be_bytes(rest[..8].try_into().unwrap());
        let length = u32::from_be_bytes(rest[8..12].try_into().unwrap()) as usize;
        let mut records = &rest[61..12 + length];
        let mut offset = base;
        while !records.is_empty() {
            let size = varint(&mut records);
            let (mut record, after) = records.split_at(usize::try_from(size).unwrap());
            records = after;
            record = &record[1..];
            varint(&mut record);
            varint(&mut record);
            let key = varint(&mut record);
            record = &record[usize::try_from(key.max(0)).unwrap()..];
            let value = usize::try_from(varint(&mut record)).unwrap();
            values.push((offset, String::from_utf8(record[..value].to_vec()).unwrap()));
            offset += 1;
        }
        rest = &rest[12 + length..];
    }
    values
}

fn varint(bytes: &mut &[u8]) -> i64 {
    let mut value = 0u64;
    let mut shift = 0;
    loop {
        let byte = bytes[0];
        *bytes = &bytes[1..];
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return (value >> 1).cast_signed() ^ -(value & 1).cast_signed();
        }
        shift += 7;
    }
}
