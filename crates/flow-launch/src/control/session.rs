//! One caller of the control socket: one request, and the responses to it.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use flow_core::Chain;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::change::source::PlanSource;
use crate::change::{ChangeError, ChangeProgress, FlowChange};
use crate::control::log_level::{self, LogLevelError};
use crate::control::protocol::{
    ControlCommand, ControlRequest, ControlResponse, ControlResult, FlowStatus, ProcessInfo,
    ProcessState,
};
use crate::spec::process_spec;
use crate::spec::role::Role;
use crate::supervisor::Supervisor;
use crate::supervisor::handle::ProcessHandle;
use crate::supervisor::shutdown::{self, Shutdown};

/// Longest request.
const REQUEST_LEN_MAX: u64 = 64 << 10;

/// Time for a caller that has connected to write its request.
const REQUEST_WITHIN: Duration = Duration::from_secs(5);

/// Time for a caller to read its last response.
const RESPONSE_WITHIN: Duration = Duration::from_secs(30);

/// What the caller of a reload hears while another one is in progress.
const OTHER_RELOAD: &str = "waits for another reload, which may build executors, to finish";

/// What the request of a caller needs.
#[derive(Clone)]
pub(super) struct ControlSession {
    pub(super) supervisor: Arc<Supervisor>,
    pub(super) source: Option<PlanSource>,
    pub(super) shutdown: watch::Sender<Shutdown>,
}

impl ControlSession {
    /// Reads the request of a caller and writes the responses.
    pub(super) async fn run(self, caller: UnixStream) {
        let (read, mut write) = caller.into_split();
        let request = async {
            let mut line = String::new();
            let mut read = BufReader::new(read.take(REQUEST_LEN_MAX));
            read.read_line(&mut line).await.map(|_| line)
        };
        let Ok(Ok(line)) = timeout(REQUEST_WITHIN, request).await else {
            return;
        };
        let (progress, mut sentences) = ChangeProgress::channel();
        // The change must go on when the caller does not read: writing has its own time.
        let mut response = std::pin::pin!(self.respond(&line, progress));
        let mut written = Vec::new();
        let last = loop {
            tokio::select! {
                biased;
                last = &mut response => break last,
                Some(sentence) = sentences.recv(), if written.is_empty() => {
                    written = line_of(&ControlResponse::Progress(sentence));
                }
                wrote = write.write(&written), if !written.is_empty() => {
                    written.drain(..wrote.unwrap_or(written.len()));
                }
            }
        };
        while let Ok(sentence) = sentences.try_recv() {
            written.extend(line_of(&ControlResponse::Progress(sentence)));
        }
        written.extend(line_of(&last));
        // An error means that the caller has left, or does not read.
        drop(timeout(RESPONSE_WITHIN, write.write_all(&written)).await);
    }

    async fn respond(&self, line: &str, progress: ChangeProgress) -> ControlResponse {
        match ControlRequest::parse(line) {
            Ok(command) => self.execute(command, progress).await.map_or_else(
                |error| ControlResponse::Refused(Chain(&error).to_string()),
                ControlResponse::Done,
            ),
            Err(error) => ControlResponse::Refused(error),
        }
    }

    async fn execute(
        &self,
        command: ControlCommand,
        progress: ChangeProgress,
    ) -> Result<ControlResult, CommandError> {
        let supervisor = &self.supervisor;
        match command {
            ControlCommand::Ps => return Ok(ControlResult::Listing(flow_status(supervisor))),
            ControlCommand::Restart { name } => {
                let title = format!("`flow restart {name}`");
                let change = FlowChange::begin(supervisor, &title, progress).await;
                change.restart(&name).await?;
            }
            ControlCommand::Scale { name, replicas } => {
                let title = format!("`flow scale {name}={replicas}`");
                let change = FlowChange::begin(supervisor, &title, progress).await;
                change.scale(&name, replicas).await?;
            }
            ControlCommand::LogLevel { name, filter } => {
                log_level::change(supervisor, name.as_deref(), filter.as_deref(), &progress)
                    .await?;
            }
            ControlCommand::CheckFile => {
                let source = self.source.as_ref().ok_or(CommandError::NoFile)?;
                return Ok(ControlResult::File(source.state().await));
            }
            ControlCommand::Reload => {
                let source = self.source.as_ref().ok_or(CommandError::NoFile)?;
                let waits = || progress.report_to_caller(OTHER_RELOAD.to_owned());
                let _lock = source.lock(waits).await;
                // Other changes go on while the files are read, which may build executors.
                let plan = source.read().await.map_err(CommandError::BadFile)?;
                let change = FlowChange::begin(supervisor, "`flow reload`", progress).await;
                let reloaded = change.reload(plan).await;
                reloaded.inspect_err(|error| source.note_failure(Chain(error).to_string()))?;
            }
            ControlCommand::Down => {
                shutdown::request(&self.shutdown, Shutdown::Drain);
                // The connection ends with the process, by which the caller sees that the flow is down.
                std::future::pending().await
            }
        }
        Ok(ControlResult::Changed)
    }
}

#[derive(Debug, thiserror::Error)]
enum CommandError {
    #[error(transparent)]
    Change(#[from] ChangeError),
    #[error(transparent)]
    LogLevel(#[from] LogLevelError),
    #[error("this flow was not started from a file, so there is none to read again")]
    NoFile,
    #[error("the flow file is invalid, and the flow is unchanged: {0}")]
    BadFile(String),
}

fn line_of(response: &ControlResponse) -> Vec<u8> {
    let mut line = serde_json::to_vec(response).expect("a response is always JSON");
    line.push(b'\n');
    line
}

fn flow_status(supervisor: &Supervisor) -> FlowStatus {
    let gateway = supervisor.gateway();
    let all = supervisor.executors().into_iter().chain(gateway);
    let mut processes: Vec<ProcessInfo> = all.map(|process| process_info(&process)).collect();
    let plan = supervisor.plan();
    if processes.is_empty() {
        let names = process_spec::names(&plan, &supervisor.shared);
        processes.extend(names.into_iter().map(|(name, role)| planned(&name, &role)));
    }
    FlowStatus {
        flow: plan.name,
        processes,
    }
}

/// A process that starts when the preparation of the flow is done.
fn planned(name: &str, role: &Role) -> ProcessInfo {
    ProcessInfo {
        name: name.to_owned(),
        node: node(role),
        pid: None,
        state: ProcessState::Starting,
        address: None,
        restarts: 0,
        uptime_seconds: None,
        memory_bytes: None,
    }
}

/// The node that a process works for.
fn node(role: &Role) -> Option<String> {
    match role {
        Role::Executor { node, .. } => Some(node.to_string()),
        Role::Gateway => None,
    }
}

fn process_info(handle: &ProcessHandle) -> ProcessInfo {
    let status = handle.status();
    let is_alive = matches!(status.state, ProcessState::Ready | ProcessState::Stopping);
    let process = status.process.as_ref();
    let pid = process.filter(|_| is_alive).map(|it| it.pid);
    let ready_since = status.ready_since.filter(|_| is_alive);
    ProcessInfo {
        name: handle.spec.name.to_string(),
        node: node(&handle.spec.role),
        pid,
        state: status.state,
        address: process.map(|it| it.address.clone()),
        restarts: status.restarts,
        uptime_seconds: ready_since.map(|it| it.elapsed().as_secs_f64()),
        memory_bytes: pid.and_then(resident_memory),
    }
}

/// Resident memory of a process, in bytes.
fn resident_memory(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kibibytes * 1024)
}
