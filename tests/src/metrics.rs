//! Metrics of a process, read over HTTP as Prometheus reads them.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;

/// The numbers of one process: `name{label="value",…}` and what it is.
#[derive(Debug)]
pub struct Numbers(BTreeMap<String, f64>);

/// What `http://host:port/metrics` says now.
#[track_caller]
pub fn scrape(url: &str) -> Numbers {
    let address = url.strip_prefix("http://").unwrap();
    let (address, path) = address.split_once('/').unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("GET /{path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, text) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    let sample = |line: &str| {
        let (name, value) = line.rsplit_once(' ').unwrap();
        (name.to_owned(), value.parse().unwrap())
    };
    Numbers(samples.map(sample).collect())
}

impl Numbers {
    /// One of them, whole.
    #[track_caller]
    pub fn get(&self, name: &str) -> u64 {
        let Some(value) = self.0.get(name) else {
            panic!("there is no `{name}` among {:#?}", self.0);
        };
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "counts are whole, and far below where a float leaves numbers out"
        )]
        let whole = *value as u64;
        whole
    }

    /// One of them, as a time.
    #[track_caller]
    pub fn seconds(&self, name: &str) -> f64 {
        let seconds = self.0.get(name).copied();
        seconds.unwrap_or_else(|| panic!("there is no `{name}` among {:#?}", self.0))
    }

    /// Their names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}
