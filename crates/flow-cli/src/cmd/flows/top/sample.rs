//! What is known of the running flows at one moment.
//!
//! The control socket lists the processes, `/proc` has their CPU times, and each process of ours says at its status socket what
//! it counted. None of that needs monitoring, a console, an API key or a certificate.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use flow_executor::ExecutorStatus;
use flow_gateway::Traffic;
use flow_launch::protocol::{FlowStatus, ProcessInfo};
use flow_launch::registry::{self, RegistryEntry};
use flow_launch::status_socket;
use flow_metrics::process_cpu_seconds;
use flow_process::read_status;
use serde::de::DeserializeOwned;

use crate::cmd::flows::{control, running};

/// A running flow at one moment.
#[derive(Debug, Clone)]
pub(super) struct FlowSample {
    pub(super) entry: RegistryEntry,
    pub(super) sample: Sample,
}

/// What is known of a flow at one moment.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    /// Time since the first sample could be taken.
    pub(super) at: Duration,
    /// The flow's own name.
    pub(super) flow: Option<String>,
    /// In the order of the plan; the gateway is the last.
    pub(super) processes: Vec<ProcessSample>,
    /// What the gateway counted; `None` while it does not answer.
    pub(super) traffic: Option<Traffic>,
}

/// What is known of a process at one moment.
#[derive(Debug, Clone)]
pub(super) struct ProcessSample {
    pub(super) info: ProcessInfo,
    /// CPU time since it began.
    pub(super) cpu_seconds: Option<f64>,
    /// Requests that wait in it; `None` for programs that do not say.
    pub(super) waiting: Option<usize>,
}

/// Takes samples.
#[derive(Debug, Clone)]
pub(super) struct Sampler {
    /// The folder in which running flows register.
    pub(super) registry: Option<PathBuf>,
    /// The flow that is asked for: its name, the name of its file, or the file. `None` for all.
    pub(super) wanted: Option<String>,
    pub(super) began: Instant,
}

impl Sampler {
    /// The flows that are running now. One that is just ending does not answer, and is left out.
    pub(super) fn take(&self) -> Vec<FlowSample> {
        let registry = self.registry.as_deref();
        let entries = registry.map(registry::running).unwrap_or_default();
        let samples = entries.into_iter().filter_map(|entry| {
            let status = control::listing(&entry).ok()?;
            let name = || status.flow.clone();
            let wanted = self.wanted.as_deref();
            let is_wanted = wanted.is_none_or(|it| running::is_called(&entry, it, name));
            is_wanted.then(|| self.of(entry, status))
        });
        samples.collect()
    }

    fn of(&self, entry: RegistryEntry, status: FlowStatus) -> FlowSample {
        let processes = status.processes.into_iter();
        let processes = processes.map(|info| ProcessSample::of(&entry, info));
        let processes: Vec<ProcessSample> = processes.collect();
        let gateway = processes.iter().find(|it| it.info.node.is_none());
        let traffic = gateway.and_then(|it| status_of(&entry, &it.info));
        FlowSample {
            sample: Sample {
                at: self.began.elapsed(),
                flow: status.flow,
                processes,
                traffic,
            },
            entry,
        }
    }
}

impl ProcessSample {
    fn of(entry: &RegistryEntry, info: ProcessInfo) -> Self {
        let status = info.node.as_ref().and_then(|_| status_of(entry, &info));
        Self {
            cpu_seconds: info.pid.and_then(process_cpu_seconds),
            waiting: status.map(|it: ExecutorStatus| it.waiting),
            info,
        }
    }
}

/// What a process reports about itself. Processes that have exited, and other programs, report nothing.
fn status_of<T: DeserializeOwned>(entry: &RegistryEntry, process: &ProcessInfo) -> Option<T> {
    process.pid?;
    let socket = status_socket(&entry.state_directory, &process.name);
    serde_json::from_str(&read_status(&socket).ok()?).ok()
}
