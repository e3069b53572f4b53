//! A client of the admin listener that takes nothing for granted.

use crate::support::{Broker, PATIENCE};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;

/// An answer: status, head, body.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

/// `HOST:PORT` of the admin listener, from the line that says ready.
pub fn address(broker: &Broker) -> String {
    let (_, behind) = broker.ready.split_once("metrics on http://").unwrap();
    behind.split('/').next().unwrap().to_owned()
}

/// Starts a broker with an admin listener.
pub fn watched(arguments: &[&str]) -> Broker {
    Broker::with(&[&["--set", "admin.listener=127.0.0.1:0"], arguments].concat())
}

pub fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

pub fn get(address: &str, path: &str) -> Answer {
    asked(address, &format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n"))
}

/// Sends bytes and reads to the end of the connection.
pub fn asked(address: &str, request: &str) -> Answer {
    let mut stream = connect(address);
    stream.write_all(request.as_bytes()).unwrap();
    read_answer(&mut stream)
}

pub fn read_answer(stream: &mut TcpStream) -> Answer {
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    let text = String::from_utf8(all).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
}

/// Name, labels in order of their names, value.
pub type Samples = BTreeMap<(String, Vec<(String, String)>), f64>;

/// Scrapes and parses.
pub fn metrics(address: &str) -> Samples {
    let answer = get(address, "/metrics");
    assert_eq!(answer.status, 200);
    assert!(answer.head.contains("content-type: text/plain; version=0.0.4"), "{}", answer.head);
    parse(&answer.body)
}

/// A text of version 0.0.4 by the letter: HELP and TYPE before the samples of a family, the samples
/// of a family together, no family and no sample twice.
pub fn parse(text: &str) -> Samples {
    let mut samples = Samples::new();
    let mut families = BTreeSet::new();
    let mut lines = text.strip_suffix('\n').unwrap().split('\n').peekable();
    while let Some(help) = lines.next() {
        let (family, _) = help.strip_prefix("# HELP ").unwrap().split_once(' ').unwrap();
        let kind = lines.next().unwrap().strip_prefix(&format!("# TYPE {family} ")).unwrap();
        assert!(["counter", "gauge"].contains(&kind), "{kind}");
        assert!(families.insert(family.to_owned()), "{family} comes twice");
        while let Some(line) = lines.next_if(|line| !line.starts_with('#')) {
            let (name, labels, value) = sample(line);
            assert_eq!(name, family);
            let value: f64 = value.parse().unwrap();
            assert!(value >= 0.0, "{line}");
            let before = samples.insert((name.to_owned(), labels), value);
            assert!(before.is_none(), "{line} comes twice");
        }
    }
    samples
}

fn sample(line: &str) -> (&str, Vec<(String, String)>, &str) {
    let name_end = line.find(['{', ' ']).unwrap();
    let name = &line[..name_end];
    assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'), "{line}");
    let mut labels = Vec::new();
    let mut rest = &line[name_end..];
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            let (label, value) = rest.split_once("=\"").unwrap();
            let (value, behind) = unescaped(value);
            labels.push((label.to_owned(), value));
            match behind.split_at(1) {
                (",", behind) => rest = behind,
                ("}", behind) => {
                    rest = behind;
                    break;
                }
                _ => panic!("{line}"),
            }
        }
    }
    labels.sort_unstable();
    (name, labels, rest.strip_prefix(' ').unwrap())
}

/// A label's value, and what comes behind its closing quote.
fn unescaped(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (value, &text[at + 1..]),
            '\\' => value.push(match chars.next().unwrap().1 {
                'n' => '\n',
                c @ ('\\' | '"') => c,
                c => panic!("\\{c} in {text}"),
            }),
            c => value.push(c),
        }
    }
    panic!("a value without an end: {text}")
}

/// The value of one series; `None` when there is none.
pub fn value(samples: &Samples, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let mut labels: Vec<(String, String)> =
        labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    labels.sort_unstable();
    samples.get(&(name.to_owned(), labels)).copied()
}

/// The sum of all series of a name.
pub fn sum(samples: &Samples, name: &str) -> f64 {
    samples.iter().filter(|((found, _), _)| found == name).map(|(_, value)| value).sum()
}

/// Whether any series has this label.
pub fn is_told(samples: &Samples, label: &str, value: &str) -> bool {
    let wanted = (label.to_owned(), value.to_owned());
    samples.keys().any(|(_, labels)| labels.contains(&wanted))
}
