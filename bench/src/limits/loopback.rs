//! What plain TCP gives between the CPUs of broker and client: one connection, one thread at each end.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::Value;

use crate::host::{Cpus, on_cpus};
use crate::process::{free_port, pause};

/// Bytes of one write and of one read, as iperf3 has them.
const BUFFER_BYTES: usize = 128 << 10;
/// Until the windows of the connection have grown.
const WARM_UP: Duration = Duration::from_millis(200);

/// Bytes a second from a thread on the broker's CPU to one on the client's.
pub fn rate(cpus: &Cpus, time: Duration) -> Result<f64> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let to = TcpStream::connect(listener.local_addr()?)?;
    let (from, _) = listener.accept()?;
    std::thread::scope(|scope| {
        let sender = on_cpus(&cpus.broker, || scope.spawn(move || send(to)))?;
        let received = on_cpus(&cpus.client, || receive(from, time))?;
        // The receiver has closed its end, which ends the sender.
        sender.join().map_err(|_| anyhow!("a thread of this client panicked"))??;
        received
    })
}

fn send(mut to: TcpStream) -> Result<()> {
    let buffer = vec![0x5a; BUFFER_BYTES];
    loop {
        match to.write_all(&buffer) {
            Ok(()) => {}
            Err(error)
                if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) =>
            {
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn receive(mut from: TcpStream, time: Duration) -> Result<f64> {
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut read_for = |time: Duration| -> Result<f64> {
        let (begun, mut bytes) = (Instant::now(), 0);
        while begun.elapsed() < time {
            let read = from.read(&mut buffer)?;
            ensure!(read > 0, "the sender has ended");
            bytes += read as u64;
        }
        Ok(bytes as f64 / begun.elapsed().as_secs_f64())
    };
    read_for(WARM_UP)?;
    read_for(time)
}

/// What iperf3 says of the same: one stream, the server on the broker's CPU sends. `None` when there
/// is no iperf3.
pub fn iperf3(cpus: &Cpus, time: Duration) -> Option<Result<f64>> {
    let there = Command::new("iperf3").arg("--version").stdout(Stdio::null()).status();
    there.is_ok_and(|status| status.success()).then(|| run_iperf3(cpus, time))
}

fn run_iperf3(cpus: &Cpus, time: Duration) -> Result<f64> {
    let port = free_port()?.to_string();
    let mut server = Command::new("iperf3");
    server.args(["-s", "-1", "-p", &port]).stdout(Stdio::null()).stderr(Stdio::null());
    let server = Ended(on_cpus(&cpus.broker, || server.spawn())??);
    // It says nothing when it listens, and takes one connection only.
    pause(Duration::from_millis(500));
    let seconds = time.as_secs().max(1).to_string();
    let mut client = Command::new("iperf3");
    client.args(["-c", "127.0.0.1", "-p", &port, "-R", "-P", "1", "-t", &seconds, "-J"]);
    let out = on_cpus(&cpus.client, || client.output())??;
    drop(server);
    bytes_a_second(&String::from_utf8_lossy(&out.stdout))
}

/// A child that does not outlive us.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // It may have ended already, which is what is wanted.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn bytes_a_second(text: &str) -> Result<f64> {
    let said: Value = serde_json::from_str(text).context("iperf3 did not answer in JSON")?;
    let bits = said["end"]["sum_received"]["bits_per_second"].as_f64();
    Ok(bits.with_context(|| format!("iperf3 says no rate: {}", said["error"]))? / 8.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_go_through_for_as_long_as_asked() {
        let cpus = Cpus { broker: Vec::new(), client: Vec::new() };
        let begun = Instant::now();
        let rate = rate(&cpus, Duration::from_millis(100)).unwrap();
        assert!(rate > 1e6, "{rate} bytes a second");
        assert!(begun.elapsed() >= WARM_UP + Duration::from_millis(100));
    }

    #[test]
    fn what_iperf3_received_counts_and_its_errors_are_told() {
        let text = r#"{"end":{"sum_sent":{"bits_per_second":9e9},"sum_received":{"bits_per_second":8e9}}}"#;
        assert_eq!(bytes_a_second(text).unwrap(), 1e9);
        let error = bytes_a_second(r#"{"error":"unable to connect"}"#).unwrap_err();
        assert!(format!("{error:#}").contains("unable to connect"), "{error:#}");
        assert!(bytes_a_second("").is_err());
    }
}
