//! What the console asks the supervisor that started this gateway: over the control socket in its state directory, as
//! `flow ps` and `flow restart` do, and from the log files there, as `flow logs` does.

mod log_search;
mod newest_lines;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use flow_core::Chain;
use flow_gateway::supervisor::{
    Action, FlowFileReport, FlowProcess, LogExcerpt, LogQuery, SupervisorClient, SupervisorError,
};
use flow_launch::StateDirectory;
use flow_launch::protocol::{
    ControlCommand, ControlRequest, ControlResponse, ControlResult, FlowFileState, ProcessInfo,
    ProcessState,
};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Most bytes of all responses to one command.
const RESPONSES_LEN_MAX: u64 = 4 << 20;

/// Sentences about a change that are kept.
const SENTENCES_MAX: usize = 256;

/// Time for the supervisor to list its processes, or to check the flow file.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Searches of logs at a time. Each keeps a thread and a disk busy.
const SEARCHES_MAX: usize = 2;

/// A client of the supervisor with this state directory.
#[derive(Debug)]
pub(super) struct ControlClient {
    state_directory: PathBuf,
    searches: Arc<Semaphore>,
}

impl ControlClient {
    pub(super) fn new(state_directory: PathBuf) -> Self {
        Self {
            state_directory,
            searches: Arc::new(Semaphore::new(SEARCHES_MAX)),
        }
    }

    /// Sends a command, and returns its result with the sentences before it.
    async fn ask(
        &self,
        command: ControlCommand,
    ) -> Result<(ControlResult, Vec<String>), SupervisorError> {
        let unreachable = |error: io::Error| {
            let error = Chain(&error);
            SupervisorError::Unreachable(format!(
                "cannot reach the supervisor of this flow: {error}"
            ))
        };
        let mut socket = self.connect().await.map_err(unreachable)?;
        let mut line = serde_json::to_vec(&ControlRequest::new(command))
            .map_err(|error| unreachable(error.into()))?;
        line.push(b'\n');
        socket.write_all(&line).await.map_err(unreachable)?;
        let mut lines = BufReader::new(socket.take(RESPONSES_LEN_MAX)).lines();
        let mut said = Vec::new();
        while let Some(line) = lines.next_line().await.map_err(unreachable)? {
            let response = serde_json::from_str(&line);
            match response.map_err(|error| unreachable(error.into()))? {
                ControlResponse::Progress(sentence) if said.len() < SENTENCES_MAX => {
                    said.push(sentence);
                }
                ControlResponse::Progress(_) => {}
                ControlResponse::Done(result) => return Ok((result, said)),
                ControlResponse::Refused(why) => return Err(SupervisorError::Refused(why)),
            }
        }
        Err(SupervisorError::Unreachable(
            "the flow has ended".to_owned(),
        ))
    }

    /// Connecting waits if too many others do, so another thread does it.
    async fn connect(&self) -> io::Result<UnixStream> {
        let state_directory = self.state_directory.clone();
        let connect = move || flow_launch::connect(&state_directory);
        let socket = tokio::task::spawn_blocking(connect).await;
        let socket = socket.map_err(io::Error::other)??;
        socket.set_nonblocking(true)?;
        UnixStream::from_std(socket)
    }

    /// Sends a command that changes nothing, and does not wait long for its result.
    async fn query(&self, command: ControlCommand) -> Result<ControlResult, SupervisorError> {
        let late = |_| {
            SupervisorError::Unreachable("the supervisor of this flow does not answer".to_owned())
        };
        let answer = timeout(ANSWER_WITHIN, self.ask(command)).await;
        answer.map_err(late)?.map(|(result, _)| result)
    }

    async fn list(&self) -> Result<Vec<FlowProcess>, SupervisorError> {
        match self.query(ControlCommand::Ps).await? {
            ControlResult::Listing(status) => {
                Ok(status.processes.into_iter().map(process).collect())
            }
            _ => Err(unexpected_answer()),
        }
    }

    async fn check_file(&self) -> Result<FlowFileReport, SupervisorError> {
        match self.query(ControlCommand::CheckFile).await? {
            ControlResult::File(FlowFileState::Followed) => Ok(FlowFileReport::Followed),
            ControlResult::File(FlowFileState::Changed) => Ok(FlowFileReport::Changed),
            ControlResult::File(FlowFileState::Invalid { problem }) => {
                Ok(FlowFileReport::Invalid { problem })
            }
            _ => Err(unexpected_answer()),
        }
    }

    async fn search(&self, query: LogQuery) -> Result<LogExcerpt, SupervisorError> {
        let failed = |error: &dyn std::error::Error| {
            SupervisorError::Unreachable(format!("cannot read the logs: {error}"))
        };
        let permit = self.searches.clone().acquire_owned().await;
        let permit = permit.map_err(|error| failed(&error))?;
        let folder = StateDirectory::logs(&self.state_directory);
        // The permit stays with the thread, which goes on when the page has left.
        let search = move || {
            let _permit = permit;
            log_search::search(&folder, &query)
        };
        let found = tokio::task::spawn_blocking(search).await;
        found.map_err(|error| failed(&error))
    }
}

impl SupervisorClient for ControlClient {
    fn processes(&self) -> BoxFuture<'_, Result<Vec<FlowProcess>, SupervisorError>> {
        self.list().boxed()
    }

    fn flow_file(&self) -> BoxFuture<'_, Result<FlowFileReport, SupervisorError>> {
        self.check_file().boxed()
    }

    fn change(&self, action: Action) -> BoxFuture<'_, Result<Vec<String>, SupervisorError>> {
        let command = match action {
            Action::Restart { name } => ControlCommand::Restart { name },
            Action::Scale { name, replicas } => ControlCommand::Scale { name, replicas },
            Action::Reload {} => ControlCommand::Reload,
        };
        let asked = self.ask(command);
        asked.map(|it| it.map(|(_, said)| said)).boxed()
    }

    fn search_logs(&self, query: LogQuery) -> BoxFuture<'_, Result<LogExcerpt, SupervisorError>> {
        self.search(query).boxed()
    }
}

fn unexpected_answer() -> SupervisorError {
    let why = "the supervisor of this flow sent an unexpected answer";
    SupervisorError::Unreachable(why.to_owned())
}

fn process(info: ProcessInfo) -> FlowProcess {
    FlowProcess {
        name: info.name,
        node: info.node,
        pid: info.pid,
        state: state(info.state).to_owned(),
        restarts: info.restarts,
        uptime_seconds: info.uptime_seconds,
        memory_bytes: info.memory_bytes,
    }
}

/// A state in words.
fn state(state: ProcessState) -> &'static str {
    match state {
        ProcessState::Starting => "starting",
        ProcessState::Ready => "ready",
        ProcessState::Waiting => "waiting for its restart",
        ProcessState::Stopping => "stopping",
        ProcessState::Failed => "failed",
    }
}
