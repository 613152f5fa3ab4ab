//! Events of a flow's processes, for the program that launched the flow.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use flow_process::{
    DroppedLines, KeepsState, ListenAddress, LossyReceiver, LossySender, lossy_channel,
};
use indexmap::IndexMap;

use crate::logs::lines::Lines;
use crate::spec::role::Role;

/// What a process reports about itself when it is ready, such as `device` and `model`.
pub type Facts = IndexMap<String, String>;

/// Something that happened in a flow.
#[derive(Debug, Clone, PartialEq)]
pub enum FlowEvent {
    /// A process wrote lines.
    Lines {
        /// The process's name.
        name: Arc<str>,
        /// The lines.
        lines: Lines,
    },
    /// This program's own log has a line.
    Log(String),
    /// Lines of a process were dropped because events were not received fast enough.
    Dropped(DroppedLines),
    /// A process is ready, for the first time or after a restart.
    Ready(ReadyProcess),
    /// The flow serves for the first time. All events of its start were sent before.
    Serving,
}

/// Sends the events of a flow; never waits.
pub type EventSender = LossySender<FlowEvent>;

/// Sends a line of this program's own log, so that it comes in order with the lines of processes, and writing it
/// never waits for a terminal either.
pub fn send_log_line(events: &EventSender, line: String) {
    events.send_line(&OWN_NAME.into(), FlowEvent::Log(line));
}

/// The name under which dropped lines of this program's own log are reported.
const OWN_NAME: &str = "flow";

/// Receives the events of a flow.
pub type EventReceiver = LossyReceiver<FlowEvent>;

/// A channel that holds at most `capacity` events. When it is full, lines are dropped and counted.
#[must_use]
pub fn event_channel(capacity: usize) -> (EventSender, EventReceiver) {
    lossy_channel(capacity)
}

impl From<DroppedLines> for FlowEvent {
    fn from(dropped: DroppedLines) -> Self {
        Self::Dropped(dropped)
    }
}

/// A process of the flow that is ready.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadyProcess {
    /// `encoder`, or `encoder/rep-0` where the node has several replicas.
    pub name: Arc<str>,
    /// What it does in the flow.
    pub role: Role,
    /// Its process id.
    pub pid: u32,
    /// Where it listens.
    pub address: ListenAddress,
    /// Where else it listens, if it has several ports.
    pub more_addresses: Vec<SocketAddr>,
    /// Where it serves its metrics; `None` if it does not.
    pub metrics: Option<SocketAddr>,
    /// What it reports about itself.
    pub facts: Facts,
    /// Where it keeps what requests change; `None` if it does not say.
    pub keeps_state: Option<KeepsState>,
    /// Time from its start until it was ready.
    pub took: Duration,
}

impl ReadyProcess {
    /// The address at which this machine reaches it. A process that listens on all addresses is reached at the
    /// IPv4 loopback address, which is always one of them.
    #[must_use]
    pub fn reachable(&self) -> ListenAddress {
        match &self.address {
            ListenAddress::Tcp(address) => from_this_machine(*address).into(),
            ListenAddress::Unix(_) => self.address.clone(),
        }
    }

    /// The URL of its metrics for this machine; `None` if it serves none.
    #[must_use]
    pub fn metrics_url(&self) -> Option<String> {
        let address = self.metrics.map(from_this_machine)?;
        Some(format!("http://{address}/metrics"))
    }
}

fn from_this_machine(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        ip if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// `encoder@26554 ready and listening on 127.0.0.1:41233 (device cpu)`.
impl fmt::Display for ReadyProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name, pid, address, ..
        } = self;
        write!(f, "{name}@{pid} ready and listening on {address}")?;
        for address in &self.more_addresses {
            write!(f, ", {address}")?;
        }
        let facts = self.facts.iter().map(|(k, v)| format!("{k} {v}"));
        let metrics = self.metrics_url().map(|url| format!("metrics {url}"));
        let facts: Vec<String> = facts.chain(metrics).collect();
        match facts.as_slice() {
            [] => Ok(()),
            facts => write!(f, " ({})", facts.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(listens_on: &str, reached_at: &str) {
        let process = ReadyProcess {
            name: "a".into(),
            role: Role::Gateway,
            pid: 1,
            address: listens_on.parse().unwrap(),
            more_addresses: Vec::new(),
            metrics: None,
            facts: Facts::new(),
            keeps_state: None,
            took: Duration::ZERO,
        };
        assert_eq!(process.reachable().to_string(), reached_at);
    }

    #[test]
    fn a_process_that_listens_on_all_addresses_is_reached_at_loopback() {
        check("0.0.0.0:7", "127.0.0.1:7");
        check("[::]:7", "127.0.0.1:7");
        check("10.1.2.3:7", "10.1.2.3:7");
        check("unix:/a.sock", "unix:/a.sock");
    }
}
