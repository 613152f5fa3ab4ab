//! A flow in processes of its own.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};

use flow_net::ConnectError;
use flow_spec::LoadError;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, ChildStdout, Command};
use tokio::task::JoinSet;

use crate::client::Client;
use crate::program;

/// Last lines of the log that an error quotes: enough for a cause and what led to it.
const LAST_LINES: usize = 20;

/// A flow that is up. When it is dropped, its processes are ended at once; [`stop`](Self::stop) lets them
/// finish what is under way.
#[derive(Debug)]
pub struct Running {
    child: Child,
    port: u16,
    /// Reads what the processes print, for as long as they do.
    readers: JoinSet<VecDeque<String>>,
    /// Holds the flow's file.
    _folder: TempDir,
}

/// Why a flow is not up.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// It is wrong.
    #[error(transparent)]
    Invalid(#[from] LoadError),
    /// The folder in which its relative paths begin is not known.
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
    #[error("the flow did not come up: {status}\n{log}")]
    Ended {
        /// How it ended.
        status: ExitStatus,
        /// Its last words.
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

    /// Where clients on this machine connect.
    #[must_use]
    pub fn url(&self) -> String {
        format!("grpc://127.0.0.1:{}", self.port)
    }

    /// A client of this flow.
    ///
    /// # Errors
    /// If nobody answers there any more.
    pub async fn client(&self) -> Result<Client, ConnectError> {
        Client::connect(&self.url()).await
    }

    /// Lets the flow finish what is under way, and waits for its end.
    ///
    /// # Errors
    /// If the operating system does not let us.
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

/// Reads the banner to its end, and the port in it; none if the program ends before. What follows is read
/// on, so that nobody waits to be heard.
async fn ready(stdout: ChildStdout, readers: &mut JoinSet<VecDeque<String>>) -> Option<u16> {
    let mut lines = BufReader::new(stdout).lines();
    let mut port = None;
    while let Ok(Some(line)) = lines.next_line().await {
        port = local_port(&line).or(port);
        if port.is_some() && line.trim_start().starts_with("ready after") {
            readers.spawn(last_lines(lines.into_inner()));
            return port;
        }
    }
    None
}

fn local_port(line: &str) -> Option<u16> {
    let address = line.trim_start().strip_prefix("Local ")?;
    address.rsplit(':').next()?.trim().parse().ok()
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

    #[test]
    fn the_port_stands_in_the_banner() {
        assert_eq!(local_port("  Local      127.0.0.1:54321"), Some(54321));
        assert_eq!(local_port("  Private    10.0.0.5:54321"), None);
        assert_eq!(local_port("  Local      nothing"), None);
    }

    #[tokio::test]
    async fn a_program_that_is_not_there_is_named() {
        let started = Running::start("jtype: Flow", Some("/no/such/flow".into())).await;
        let told = started.unwrap_err().to_string();
        assert_eq!(
            told,
            "cannot start `/no/such/flow`; name it with `Flow::program`"
        );
    }

    #[tokio::test]
    async fn a_program_that_ends_is_quoted() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("flow");
        std::fs::write(&program, "#!/bin/sh\necho why not >&2\nexit 3\n").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&program, mode).unwrap();
        let told = Running::start("jtype: Flow", Some(program))
            .await
            .unwrap_err();
        assert!(told.to_string().ends_with("\nwhy not"), "{told}");
    }
}
