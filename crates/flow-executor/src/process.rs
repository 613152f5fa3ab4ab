//! What a process of flow does around its work: logs, tells that it is ready, dies with its parent.
//!
//! The gateway's process does the same, so the pieces are public.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::net::SocketAddr;

use clap::ValueEnum;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use tracing_subscriber::EnvFilter;

/// How a process writes its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Log {
    /// One line per event, for people.
    #[default]
    Text,
    /// One JSON object per event.
    Json,
}

/// Where a process writes its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogTo {
    /// Beside results.
    #[default]
    Stderr,
    /// Where containers are read.
    Stdout,
}

impl LogTo {
    /// As a variable says it; what it does not know is where logs go by default.
    #[must_use]
    pub fn named(name: &str) -> Self {
        match name {
            "stdout" => Self::Stdout,
            _ => Self::Stderr,
        }
    }

    fn is_terminal(self) -> bool {
        match self {
            Self::Stderr => std::io::stderr().is_terminal(),
            Self::Stdout => std::io::stdout().is_terminal(),
        }
    }

    fn open(self) -> Box<dyn Write> {
        match self {
            Self::Stderr => Box::new(std::io::stderr()),
            Self::Stdout => Box::new(std::io::stdout()),
        }
    }
}

/// What is logged where nobody says: a library that tells of its own settings is no news to a flow's user.
const FILTER_DEFAULT: &str = "info,hnsw_rs=warn";

/// Starts the log in this form; `filter` as `RUST_LOG` has it, `info` where it says nothing.
pub fn start_log(log: Log, to: LogTo, filter: &str, colours: bool) {
    let filter = if filter.is_empty() {
        FILTER_DEFAULT
    } else {
        filter
    };
    let filter = EnvFilter::try_new(filter);
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter.unwrap_or_else(|_| EnvFilter::new(FILTER_DEFAULT)))
        .with_writer(move || to.open())
        .with_ansi(colours && to.is_terminal());
    // A second log in one process (tests) is no error.
    drop(match log {
        Log::Text => lines.try_init(),
        Log::Json => lines.json().try_init(),
    });
    std::panic::set_hook(Box::new(|panic| tracing::error!(%panic, "panicked")));
}

/// Ends this process when its parent ends, whatever ends it.
///
/// # Errors
///
/// If process `parent` is not this one's parent: it has ended already.
pub fn die_with(parent: u32) -> Result<(), ParentGone> {
    // First ask, then look: a parent that ends in between is seen by one of the two.
    let asked = set_parent_process_death_signal(Some(Signal::KILL)).is_ok();
    let now = getppid().map_or(0, |pid| pid.as_raw_nonzero().get().unsigned_abs());
    if asked && now == parent {
        Ok(())
    } else {
        Err(ParentGone(parent))
    }
}

/// The process that started this one has ended.
#[derive(Debug, thiserror::Error)]
#[error("process {0}, which started this one, is not there any more")]
pub struct ParentGone(u32);

/// Where a process listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    /// For requests.
    pub serving: SocketAddr,
    /// For whoever reads its metrics, if it shows any.
    pub metrics: Option<SocketAddr>,
}

impl From<SocketAddr> for Addresses {
    fn from(serving: SocketAddr) -> Self {
        Self {
            serving,
            metrics: None,
        }
    }
}

/// Tells on stdout that the process is ready: one JSON line for a launcher, a sentence for people.
///
/// # Errors
///
/// If nobody reads stdout any more.
pub fn announce(
    name: &str,
    addresses: &Addresses,
    facts: &BTreeMap<String, String>,
    to_launcher: bool,
) -> std::io::Result<()> {
    let line = match (to_launcher, addresses) {
        (true, Addresses { serving, metrics }) => {
            let mut ready = serde_json::json!({ "address": serving, "facts": facts });
            if let Some(metrics) = metrics {
                ready["metrics"] = metrics.to_string().into();
            }
            serde_json::json!({ "ready": ready }).to_string()
        }
        (false, addresses) => sentence(name, addresses, facts),
    };
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

fn sentence(name: &str, addresses: &Addresses, facts: &BTreeMap<String, String>) -> String {
    let pid = std::process::id();
    let Addresses {
        serving: address,
        metrics,
    } = addresses;
    let metrics = metrics.map(|at| format!("metrics http://{at}/metrics"));
    let facts: Vec<String> = facts
        .iter()
        .map(|(key, value)| format!("{key} {value}"))
        .chain(metrics)
        .collect();
    let about = if facts.is_empty() {
        String::new()
    } else {
        format!(" ({})", facts.join(", "))
    };
    format!("{name}@{pid} ready and listening on {address}{about}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_read_name_process_address_and_facts() {
        let facts = [("device", "cpu"), ("model", "m")];
        let facts = facts
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into();
        let address: SocketAddr = "127.0.0.1:5".parse().unwrap();
        let addresses = |metrics| Addresses {
            metrics,
            ..address.into()
        };
        let pid = std::process::id();
        let ready = format!("enc@{pid} ready and listening on 127.0.0.1:5");
        let line = sentence("enc", &addresses(None), &facts);
        assert_eq!(line, format!("{ready} (device cpu, model m)"));
        let line = sentence("enc", &addresses(Some(address)), &BTreeMap::new());
        assert_eq!(
            line,
            format!("{ready} (metrics http://127.0.0.1:5/metrics)")
        );
    }

    #[test]
    fn a_process_does_not_outlive_a_parent_that_has_gone() {
        assert!(die_with(u32::MAX).is_err());
    }
}
