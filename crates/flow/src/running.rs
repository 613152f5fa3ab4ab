//! A running flow.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};

use flow_client::Client;
use flow_net::ConnectError;
use flow_process::ProcessEvent;
use flow_spec::LoadError;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, ChildStdout, Command};
use tokio::task::JoinSet;

use crate::program;

/// Number of last lines of the log that an error quotes.
const LAST_LINES: usize = 20;

/// A flow that is running. Dropping it kills its processes; [`stop`](Self::stop) lets them finish requests in progress.
#[derive(Debug)]
pub struct Running {
    child: Child,
    port: u16,
    /// Read the output of the processes.
    readers: JoinSet<VecDeque<String>>,
    /// Contains the flow file.
    _folder: TempDir,
}

/// A flow did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// It has problems.
    #[error(transparent)]
    Invalid(#[from] LoadError),
    /// The current folder, to which its paths are relative, is not known.
    #[error("cannot find the current folder")]
    Folder(#[source] io::Error),
    /// Its file could not be written.
    #[error("cannot write the flow's file")]
    File(#[source] io::Error),
    /// The program could not be started.
    #[error("cannot start `{}`; name it with `Flow::program`", .program.display())]
    Program {
        /// The program.
        program: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It ended before it was ready.
    #[error("the flow did not start: {status}\n{log}")]
    Ended {
        /// How it ended.
        status: ExitStatus,
        /// Its last lines.
        log: String,
    },
}

impl Running {
    pub(crate) async fn start(text: &str, given: Option<PathBuf>) -> Result<Self, StartError> {
        let folder = tempfile::tempdir().map_err(StartError::File)?;
        let file = folder.path().join("flow.yml");
        std::fs::write(&file, text).map_err(StartError::File)?;
        let program = program::find(given, std::env::current_exe().ok().as_deref());
        let mut command = Command::new(&program);
        command.arg("up").arg(&file);
        command.args(["--ready-format", "json"]);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let started = command.kill_on_drop(true).spawn();
        let mut child = started.map_err(|source| StartError::Program { program, source })?;
        let mut readers = JoinSet::new();
        let mut log = JoinSet::new();
        if let Some(stderr) = child.stderr.take() {
            log.spawn(last_lines(stderr));
        }
        let port = match child.stdout.take() {
            Some(stdout) => ready(stdout, &mut readers).await,
            None => None,
        };
        if let Some(port) = port {
            readers.spawn(async move {
                log.join_next()
                    .await
                    .and_then(Result::ok)
                    .unwrap_or_default()
            });
            return Ok(Self {
                child,
                port,
                readers,
                _folder: folder,
            });
        }
        let status = child.wait().await.map_err(StartError::File)?;
        let log = log
            .join_next()
            .await
            .and_then(Result::ok)
            .unwrap_or_default();
        let log = Vec::from(log).join("\n");
        Err(StartError::Ended { status, log })
    }

    /// The port that clients connect to.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL for clients on this machine.
    #[must_use]
    pub fn url(&self) -> String {
        format!("grpc://127.0.0.1:{}", self.port)
    }

    /// A client of this flow.
    ///
    /// # Errors
    /// If it does not answer.
    pub async fn client(&self) -> Result<Client, ConnectError> {
        Client::connect(&self.url()).await
    }

    /// Stops the flow after its requests in progress, and waits for its end.
    ///
    /// # Errors
    /// If the operating system refuses.
    pub async fn stop(mut self) -> io::Result<ExitStatus> {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok());
        if let Some(pid) = pid.and_then(Pid::from_raw) {
            kill_process(pid, Signal::TERM)?;
        }
        let status = self.child.wait().await;
        while self.readers.join_next().await.is_some() {}
        status
    }
}

/// Waits for the ready event and returns its port; `None` if the program ends without one. A task reads later lines,
/// so that the program never waits to write them.
async fn ready(stdout: ChildStdout, readers: &mut JoinSet<VecDeque<String>>) -> Option<u16> {
    let mut lines = BufReader::new(stdout).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if let Some(Ok(ProcessEvent::Ready(ready))) = ProcessEvent::parse(&line) {
            readers.spawn(last_lines(lines.into_inner()));
            return ready.address.port();
        }
    }
    None
}

async fn last_lines(from: impl AsyncRead + Unpin) -> VecDeque<String> {
    let mut lines = BufReader::new(from).lines();
    let mut last = VecDeque::with_capacity(LAST_LINES);
    while let Ok(Some(line)) = lines.next_line().await {
        if last.len() == LAST_LINES {
            last.pop_front();
        }
        last.push_back(line);
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program of this text. Another process writes it: if this one did, a test that starts a process meanwhile would
    /// pass the open file on, and a file that is open for writing cannot be run.
    fn program(folder: &TempDir, text: &str) -> PathBuf {
        let program = folder.path().join("flow");
        let source = folder.path().join("flow.sh");
        std::fs::write(&source, text).unwrap();
        let mut install = std::process::Command::new("install");
        let installed = install.args(["-m", "755"]).arg(source).arg(&program);
        assert!(installed.status().unwrap().success());
        program
    }

    #[tokio::test]
    async fn the_port_is_that_of_the_ready_event() {
        let folder = tempfile::tempdir().unwrap();
        let event = r#"{"event":"ready","process":"flow","pid":7,"address":"127.0.0.1:54321"}"#;
        let text = format!("#!/bin/sh\necho starting\necho '{event}'\n");
        let running = Running::start("jtype: Flow", Some(program(&folder, &text))).await;
        assert_eq!(running.unwrap().port(), 54321);
    }

    #[tokio::test]
    async fn a_missing_program_is_named() {
        let started = Running::start("jtype: Flow", Some("/no/such/flow".into())).await;
        let error = started.unwrap_err().to_string();
        assert_eq!(
            error,
            "cannot start `/no/such/flow`; name it with `Flow::program`"
        );
    }

    #[tokio::test]
    async fn the_log_of_a_program_that_ends_is_quoted() {
        let folder = tempfile::tempdir().unwrap();
        let program = program(&folder, "#!/bin/sh\necho why not >&2\nexit 3\n");
        let error = Running::start("jtype: Flow", Some(program))
            .await
            .unwrap_err();
        assert!(error.to_string().ends_with("\nwhy not"), "{error}");
    }
}
