//! Events that a process reports on its standard output, one JSON object per line.
//!
//! The launcher, the Rust API and tests read them. A person who starts a process gets a sentence instead.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::{ListenAddress, LogFormat};

/// What a process reports about itself, such as `device` and `model`.
pub type Facts = BTreeMap<String, String>;

/// An event on standard output. Its JSON begins with `"event"`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum ProcessEvent {
    /// The process accepts requests.
    Ready(ReadyEvent),
    /// No request of a gateway uses an earlier placement any more.
    Placed {
        /// The number of the placement, of those that the gateway was given, from 1.
        placement: u64,
    },
    /// The process logs by this filter from now on.
    LogFilter {
        /// The filter.
        filter: String,
    },
}

/// The beginnings of lines that are events.
const BEGINNINGS: [&str; 3] = [
    r#"{"event":"ready""#,
    r#"{"event":"placed""#,
    r#"{"event":"log_filter""#,
];

impl ProcessEvent {
    /// Parses a line of a process; `None` if the line is not an event.
    ///
    /// # Errors
    ///
    /// If the line begins like an event and lacks a field.
    #[must_use]
    pub fn parse(line: &str) -> Option<Result<Self, BadProcessEvent>> {
        let is_event = BEGINNINGS.iter().any(|it| line.starts_with(it));
        is_event.then(|| {
            serde_json::from_str(line).map_err(|source| BadProcessEvent {
                line: line.to_owned(),
                source,
            })
        })
    }

    /// Writes the event to standard output as a line of JSON.
    ///
    /// # Errors
    ///
    /// If standard output is closed.
    pub fn write(&self) -> io::Result<()> {
        write_line(&serde_json::to_string(self)?)
    }
}

/// A line that begins like an event and is not one.
#[derive(Debug, thiserror::Error)]
#[error("wrote the event `{line}`, which is not valid")]
pub struct BadProcessEvent {
    line: String,
    source: serde_json::Error,
}

/// A process that accepts requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadyEvent {
    /// The name of the process, such as `encoder/rep-0`.
    pub process: String,
    /// The id of the process.
    pub pid: u32,
    /// Where it accepts requests.
    pub address: ListenAddress,
    /// Where else it accepts requests, if it listens on several ports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub more_addresses: Vec<SocketAddr>,
    /// Where it serves metrics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<SocketAddr>,
    /// What it reports about itself.
    #[serde(default)]
    pub facts: Facts,
    /// Where it keeps what requests change; `None` if it does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keeps_state: Option<KeepsState>,
}

/// Where an executor keeps what requests change, such as an index.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeepsState {
    /// It keeps nothing: every process of it gives the same replies.
    #[default]
    Nowhere,
    /// In the memory of its process, with which it ends.
    InMemory,
    /// In its own folder of the workspace, which no other process may use meanwhile.
    InWorkspace,
}

impl ReadyEvent {
    /// This process, without metrics and facts.
    #[must_use]
    pub fn new(process: impl Into<String>, address: impl Into<ListenAddress>) -> Self {
        Self {
            process: process.into(),
            pid: std::process::id(),
            address: address.into(),
            more_addresses: Vec::new(),
            metrics: None,
            facts: Facts::new(),
            keeps_state: None,
        }
    }

    /// Reports on standard output that the process is ready: an event, or a sentence for people.
    ///
    /// # Errors
    ///
    /// If standard output is closed.
    pub fn report(self, format: LogFormat) -> io::Result<()> {
        match format {
            LogFormat::Json => ProcessEvent::Ready(self).write(),
            LogFormat::Text => write_line(&self.to_string()),
        }
    }
}

impl fmt::Display for ReadyEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            process,
            pid,
            address,
            more_addresses,
            metrics,
            facts,
            keeps_state: _,
        } = self;
        write!(f, "{process}@{pid} ready and listening on {address}")?;
        for address in more_addresses {
            write!(f, ", {address}")?;
        }
        let metrics = metrics.map(|address| format!("metrics http://{address}/metrics"));
        let facts = facts.iter().map(|(key, value)| format!("{key} {value}"));
        let details: Vec<String> = facts.chain(metrics).collect();
        match details.as_slice() {
            [] => Ok(()),
            details => write!(f, " ({})", details.join(", ")),
        }
    }
}

fn write_line(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready() -> ReadyEvent {
        ReadyEvent {
            process: "enc".to_owned(),
            pid: 7,
            address: "127.0.0.1:5".parse().unwrap(),
            more_addresses: Vec::new(),
            metrics: None,
            facts: Facts::new(),
            keeps_state: None,
        }
    }

    #[test]
    fn the_ready_line_for_people_has_name_process_address_and_facts() {
        assert_eq!(
            ready().to_string(),
            "enc@7 ready and listening on 127.0.0.1:5"
        );
        let facts = [("device", "cpu"), ("model", "m")];
        let ready = ReadyEvent {
            metrics: Some("127.0.0.1:6".parse().unwrap()),
            facts: facts
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into(),
            ..ready()
        };
        let details = "(device cpu, model m, metrics http://127.0.0.1:6/metrics)";
        let expected = format!("enc@7 ready and listening on 127.0.0.1:5 {details}");
        assert_eq!(ready.to_string(), expected);
    }

    #[track_caller]
    fn check(event: &ProcessEvent, line: &str) {
        assert_eq!(serde_json::to_string(event).unwrap(), line);
        assert_eq!(&ProcessEvent::parse(line).unwrap().unwrap(), event);
    }

    #[test]
    fn the_ready_line_for_programs_is_one_json_object() {
        let line =
            r#"{"event":"ready","process":"enc","pid":7,"address":"127.0.0.1:5","facts":{}}"#;
        check(&ProcessEvent::Ready(ready()), line);
        let line = r#"{"event":"ready","process":"enc","pid":7,"address":"127.0.0.1:5","facts":{},"keeps_state":"in_workspace"}"#;
        let stateful = ReadyEvent {
            keeps_state: Some(KeepsState::InWorkspace),
            ..ready()
        };
        check(&ProcessEvent::Ready(stateful), line);
        check(
            &ProcessEvent::Placed { placement: 3 },
            r#"{"event":"placed","placement":3}"#,
        );
        let filter = "warn,flow_net=debug".to_owned();
        check(
            &ProcessEvent::LogFilter { filter },
            r#"{"event":"log_filter","filter":"warn,flow_net=debug"}"#,
        );
    }

    #[test]
    fn other_lines_are_not_events() {
        for line in [
            "",
            "ready",
            r#"{"level":"INFO","message":"ready"}"#,
            r#"{"event":"login"}"#,
        ] {
            assert!(ProcessEvent::parse(line).is_none(), "{line}");
        }
    }

    #[test]
    fn an_event_without_its_fields_is_an_error_that_quotes_it() {
        let error = ProcessEvent::parse(r#"{"event":"ready","pid":7}"#)
            .unwrap()
            .unwrap_err();
        let expected = r#"wrote the event `{"event":"ready","pid":7}`, which is not valid"#;
        assert_eq!(error.to_string(), expected);
    }
}
