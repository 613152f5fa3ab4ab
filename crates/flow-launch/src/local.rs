//! One child process: its start, what it says, and its end.
//!
//! A child leads a process group of its own. A Ctrl-C at the terminal therefore reaches only us, and
//! the order in which processes end stays ours; and a child's own children end with it.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncWriteExt;
use tokio::process::{ChildStdin, ChildStdout, Command};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::command::Invocation;
use crate::ended::{Cause, Ended, write_lines};
use crate::ready::{self, BadReady, Ready};
use crate::relay::{Lines, Outlets, Relay};

/// After its end a child's words are read for at most this long: what it started may hold its pipes.
const LAST_WORDS_MAX: Duration = Duration::from_millis(500);

/// Why a process never became ready.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// There is no process at all.
    #[error("cannot start `{name}` as `{program}`{}", remedy.as_ref().map(|it| format!(" ({it})")).unwrap_or_default())]
    Spawn {
        /// The process's name.
        name: Arc<str>,
        /// The program.
        program: String,
        /// What to do, where that can be guessed.
        remedy: Option<String>,
        /// What the kernel says.
        source: io::Error,
    },
    /// It ended first.
    #[error("`{name}` {ended}")]
    Ended {
        /// The process's name.
        name: Arc<str>,
        /// How, and its last words.
        ended: Ended,
    },
    /// It took too long and was killed.
    #[error("`{name}` was not ready within {limit:?} (`timeout_ready`) and was killed{}", Quote(.last_lines))]
    TooLate {
        /// The process's name.
        name: Arc<str>,
        /// How long it was given.
        limit: Duration,
        /// What it wrote last.
        last_lines: Vec<String>,
    },
    /// It speaks another language.
    #[error("`{name}` is no executor that flow can start")]
    Meaningless {
        /// The process's name.
        name: Arc<str>,
        /// What it said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

struct Quote<'a>(&'a [String]);

impl std::fmt::Display for Quote<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write_lines(f, self.0)
    }
}

/// A process that was started.
#[derive(Debug)]
pub(crate) struct Child {
    name: Arc<str>,
    process: tokio::process::Child,
    group: Group,
    /// Apart from `process`, which would close it as soon as its end is waited for.
    stdin: Option<ChildStdin>,
    ready: oneshot::Receiver<Result<Ready, BadReady>>,
    placed: watch::Receiver<u64>,
    relay: Relay,
    relays: JoinSet<()>,
}

impl Child {
    /// Starts a process. It dies with the thread that calls this, for that is its parent.
    pub(crate) fn start(
        name: &Arc<str>,
        invocation: &Invocation,
        port: u16,
        outlets: Outlets,
    ) -> Result<Self, StartError> {
        let process = command(name, invocation, port).spawn();
        let mut process = process.map_err(|source| StartError::Spawn {
            name: name.clone(),
            program: invocation.program.display().to_string(),
            remedy: invocation.remedy.clone().filter(|_| is_missing(&source)),
            source,
        })?;
        let relay = Relay::new(name.clone(), outlets);
        let mut relays = JoinSet::new();
        let (tell_ready, ready) = oneshot::channel();
        let (tell_placed, placed) = watch::channel(0);
        if let Some(stdout) = process.stdout.take() {
            let ear = Ear {
                ready: Some(tell_ready),
                placed: tell_placed,
            };
            relays.spawn(ear.listen(stdout, relay.clone()));
        }
        if let Some(stderr) = process.stderr.take() {
            relays.spawn(relay.clone().all(stderr));
        }
        Ok(Self {
            name: name.clone(),
            group: Group::of(&process),
            stdin: process.stdin.take(),
            process,
            ready,
            placed,
            relay,
            relays,
        })
    }

    /// The process's number; 0 when it has ended.
    pub(crate) fn pid(&self) -> u32 {
        self.process.id().unwrap_or(0)
    }

    /// Its standard input, for whoever asks first.
    pub(crate) fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.stdin.take()
    }

    /// The number of the newest placement that everything in it follows, as it says so; 0: none yet.
    pub(crate) fn placed(&self) -> watch::Receiver<u64> {
        self.placed.clone()
    }

    /// Waits for an end before the process was ready.
    pub(crate) async fn ended_early(&mut self) -> StartError {
        let ended = self.ended().await;
        StartError::Ended {
            name: self.name.clone(),
            ended,
        }
    }

    /// Waits until the process says that it is ready.
    pub(crate) async fn ready(&mut self, limit: Option<Duration>) -> Result<Ready, StartError> {
        let limit = limit.unwrap_or(Duration::MAX);
        match timeout(limit, self.ready_or_ended()).await {
            Ok(outcome) => outcome,
            Err(_elapsed) => {
                let last_lines = self.kill().await.last_lines;
                let name = self.name.clone();
                Err(StartError::TooLate {
                    name,
                    limit,
                    last_lines,
                })
            }
        }
    }

    async fn ready_or_ended(&mut self) -> Result<Ready, StartError> {
        let said = tokio::select! {
            Ok(said) = &mut self.ready => said,
            ended = self.process.wait() => return self.ready_before_its_end(ended).await,
        };
        match said {
            Ok(ready) => Ok(ready),
            Err(source) => {
                self.kill().await;
                let (name, source) = (self.name.clone(), Box::new(source));
                Err(StartError::Meaningless { name, source })
            }
        }
    }

    /// A child that was ready for a moment may have ended before we read that it was.
    async fn ready_before_its_end(
        &mut self,
        status: io::Result<ExitStatus>,
    ) -> Result<Ready, StartError> {
        let ended = self.last_words(status).await;
        match self.ready.try_recv() {
            Ok(Ok(ready)) => Ok(ready),
            _ => Err(StartError::Ended {
                name: self.name.clone(),
                ended,
            }),
        }
    }

    /// Waits for the process's end.
    pub(crate) async fn ended(&mut self) -> Ended {
        let status = self.process.wait().await;
        self.last_words(status).await
    }

    /// Asks the process to end, and ends it when the limit is over.
    pub(crate) async fn stop(&mut self, limit: Duration) -> Ended {
        self.group.signal(Signal::TERM);
        match timeout(limit, self.ended()).await {
            Ok(ended) => ended,
            Err(_elapsed) => {
                tracing::warn!(name = %self.name, ?limit, "process did not end in time and is killed");
                self.kill().await
            }
        }
    }

    /// Ends the process and all that it started.
    pub(crate) async fn kill(&mut self) -> Ended {
        self.group.signal(Signal::KILL);
        self.ended().await
    }

    async fn last_words(&mut self, status: io::Result<ExitStatus>) -> Ended {
        // What it started would hold its port and its pipes. (The group's number is still taken while
        // one of them lives, and the kernel does not hand out a number again right after its use.)
        self.group.signal(Signal::KILL);
        let heard = async { while self.relays.join_next().await.is_some() {} };
        if timeout(LAST_WORDS_MAX, heard).await.is_err() {
            self.relays.abort_all();
        }
        Ended {
            // Only a process that is not ours cannot be waited for.
            cause: status.map_or(Cause::Code(-1), Cause::from),
            last_lines: self.relay.last_lines(),
        }
    }
}

fn command(name: &str, invocation: &Invocation, port: u16) -> Command {
    let mut command = Command::new(&invocation.program);
    let stdin = if invocation.reads {
        Stdio::piped()
    } else {
        Stdio::null()
    };
    command
        .args(&invocation.arguments)
        .args(invocation.at_start(name, port, std::process::id()))
        .envs(&invocation.env)
        .process_group(0)
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

fn is_missing(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

/// What is listened for on standard output.
struct Ear {
    ready: Option<oneshot::Sender<Result<Ready, BadReady>>>,
    placed: watch::Sender<u64>,
}

impl Ear {
    /// Reads standard output: what is not meant for us is passed on.
    async fn listen(mut self, stdout: ChildStdout, relay: Relay) {
        let mut lines = Lines::new(stdout);
        while let Some(line) = lines.next().await {
            if let Some(line) = self.hear(line) {
                relay.line(line).await;
            }
        }
    }

    /// Takes a line, or gives it back.
    fn hear(&mut self, line: String) -> Option<String> {
        if let Some(number) = ready::placed(&line) {
            self.placed.send_replace(number);
            return None;
        }
        match (ready::parse(&line), self.ready.take()) {
            (Some(said), Some(tell)) => {
                // Nobody waits any more when the child was stopped meanwhile.
                drop(tell.send(said));
                None
            }
            (_, waiting) => {
                self.ready = waiting;
                Some(line)
            }
        }
    }
}

/// Writes a line to a child. Fails if the child has ended, which its owner learns otherwise.
pub(crate) async fn write_line(stdin: &mut ChildStdin, line: &str) -> io::Result<()> {
    stdin.write_all(line.as_bytes()).await?;
    stdin.write_all(b"\n").await?;
    stdin.flush().await
}

/// The process group of a child and all that it started.
#[derive(Debug, Clone, Copy)]
struct Group(Option<Pid>);

impl Group {
    fn of(process: &tokio::process::Child) -> Self {
        let id = process.id().and_then(|id| i32::try_from(id).ok());
        Self(id.and_then(Pid::from_raw))
    }

    fn signal(self, signal: Signal) {
        let Some(leader) = self.0 else { return };
        match kill_process_group(leader, signal) {
            // Nobody is left: that is what the signal was for.
            Ok(()) | Err(Errno::SRCH) => {}
            Err(error) => tracing::warn!(%error, group = %leader, "cannot signal a process"),
        }
    }
}
