//! What the broker says that it did, from its metrics.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::process::pause;

/// The broker gives out the same text for a second.
const TEXT_AGE: Duration = Duration::from_millis(1100);
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// Where they are told.
pub struct Counters(SocketAddr);

/// Counts since the broker's start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    pub rounds: f64,
    pub round_partitions: f64,
    /// Bytes that commit rounds wrote, to the journal and straight to segments.
    pub committed_bytes: f64,
    pub flushes: f64,
    pub read_memory_bytes: f64,
    pub read_file_bytes: f64,
}

impl Counters {
    pub fn at(address: SocketAddr) -> Counters {
        Counters(address)
    }

    /// Counts of now; takes a second.
    pub fn read(&self) -> Result<Counts> {
        pause(TEXT_AGE);
        let mut stream = TcpStream::connect_timeout(&self.0, ANSWER_LIMIT)
            .with_context(|| format!("no metrics at {}", self.0))?;
        stream.set_read_timeout(Some(ANSWER_LIMIT))?;
        let host = self.0;
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        ensure!(text.starts_with("HTTP/1.1 200"), "no metrics: {}", first_line(&text));
        Counts::parse(&text)
    }
}

impl Counts {
    fn parse(text: &str) -> Result<Counts> {
        let sum = |name: &str| sum(text, name).with_context(|| format!("no metric {name}"));
        Ok(Counts {
            rounds: sum("millstream_rounds_total")?,
            round_partitions: sum("millstream_round_partitions_total")?,
            committed_bytes: sum("millstream_journal_bytes_total")?
                + sum("millstream_direct_bytes_total")?,
            flushes: sum("millstream_fsync_total")?,
            read_memory_bytes: sum("millstream_read_memory_bytes_total")?,
            read_file_bytes: sum("millstream_read_file_bytes_total")?,
        })
    }

    /// What was counted since `earlier`.
    pub fn since(self, earlier: Counts) -> Counts {
        Counts {
            rounds: self.rounds - earlier.rounds,
            round_partitions: self.round_partitions - earlier.round_partitions,
            committed_bytes: self.committed_bytes - earlier.committed_bytes,
            flushes: self.flushes - earlier.flushes,
            read_memory_bytes: self.read_memory_bytes - earlier.read_memory_bytes,
            read_file_bytes: self.read_file_bytes - earlier.read_file_bytes,
        }
    }

    /// The share of the bytes read that came from files; `None` when nothing was counted.
    pub fn file_share(&self) -> Option<f64> {
        let all = self.read_memory_bytes + self.read_file_bytes;
        (all > 0.0).then(|| self.read_file_bytes / all)
    }
}

/// All series of a metric together; `None` when there is none.
fn sum(text: &str, name: &str) -> Option<f64> {
    let values = text.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        let value = match rest.strip_prefix('{') {
            Some(labels) => labels.rsplit_once('}')?.1,
            None => rest.strip_prefix(' ')?,
        };
        value.split_whitespace().next()?.parse::<f64>().ok()
    });
    values.reduce(|a, b| a + b)
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or("nothing")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_of_all_cores_are_added_and_longer_names_are_others() {
        let text = "# TYPE a counter\na{core=\"0\"} 5\na{core=\"1\",of=\"x y\"} 7\na_b{core=\"0\"} 9\n\
                    c 3\n";
        assert_eq!(sum(text, "a"), Some(12.0));
        assert_eq!(sum(text, "c"), Some(3.0));
        assert_eq!(sum(text, "b"), None);
    }

    #[test]
    fn the_share_from_files_is_of_the_bytes_between_two_looks() {
        let at = |memory, file| Counts {
            read_memory_bytes: memory,
            read_file_bytes: file,
            ..Counts::default()
        };
        assert_eq!(at(110.0, 390.0).since(at(10.0, 90.0)).file_share(), Some(0.75));
        assert_eq!(Counts::default().file_share(), None);
    }
}
