//! What the outside gets to hear of a flow's processes while they live.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use indexmap::IndexMap;

use crate::post::Role;

/// What a process tells about itself when it is ready, such as `device` and `model`.
pub type Facts = IndexMap<String, String>;

/// Something that happened, as it happens.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A process wrote a line.
    Line {
        /// The process's name.
        name: Arc<str>,
        /// The line, without its end.
        line: String,
    },
    /// A process is ready, for the first time or again.
    Ready(Member),
    /// The flow serves for the first time. All that led to it was sent before.
    Serving,
}

/// A process of the flow that is ready.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    /// `encoder`, or `encoder/rep-0` where the node has several replicas.
    pub name: Arc<str>,
    /// What it is in the flow.
    pub role: Role,
    /// Its process id.
    pub pid: u32,
    /// Where it listens.
    pub address: SocketAddr,
    /// Where it shows its metrics, if it does.
    pub metrics: Option<SocketAddr>,
    /// What it tells about itself.
    pub facts: Facts,
    /// How long it took from its start.
    pub took: Duration,
}

impl Member {
    /// Where to call it from this machine: who listens at all addresses is called at the IPv4 one, which
    /// is always among them.
    #[must_use]
    pub fn reachable(&self) -> SocketAddr {
        from_here(self.address)
    }

    /// Where to read its metrics from this machine, if it shows any.
    #[must_use]
    pub fn metrics_url(&self) -> Option<String> {
        let at = self.metrics.map(from_here)?;
        Some(format!("http://{at}/metrics"))
    }
}

fn from_here(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        ip if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// `encoder@26554 ready and listening on 127.0.0.1:41233 (device cpu)`.
impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name, pid, address, ..
        } = self;
        write!(f, "{name}@{pid} ready and listening on {address}")?;
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

    fn check(listens: &str, called: &str) {
        let member = Member {
            name: "a".into(),
            role: Role::Gateway,
            pid: 1,
            address: listens.parse().unwrap(),
            metrics: None,
            facts: Facts::new(),
            took: Duration::ZERO,
        };
        assert_eq!(member.reachable().to_string(), called);
    }

    #[test]
    fn who_listens_everywhere_is_called_here() {
        check("0.0.0.0:7", "127.0.0.1:7");
        check("[::]:7", "127.0.0.1:7");
        check("10.1.2.3:7", "10.1.2.3:7");
    }
}
