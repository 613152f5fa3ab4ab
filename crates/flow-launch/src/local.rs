//! A child that is a process of this machine.
//!
//! It leads a process group of its own. A Ctrl-C at the terminal therefore reaches only us, and the order
//! in which processes end stays ours; and a child's own children end with it.

use std::io;
use std::process::Stdio;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, Command};
use tokio::task::JoinSet;

use crate::child::{Start, StartError, Voice};
use crate::command::{Invocation, Ports};
use crate::ended::Cause;

/// A process that was started.
#[derive(Debug)]
pub(crate) struct Process {
    process: Child,
    group: Group,
}

impl Process {
    /// Starts it; it dies with the thread that calls this.
    pub(crate) fn start(
        start: &Start<'_>,
        voice: Voice,
    ) -> Result<(Self, Option<ChildStdin>, JoinSet<()>), StartError> {
        let invocation = start.invocation;
        let process = command(start.name, invocation, start.ports).spawn();
        let mut process = process.map_err(|source| StartError::Spawn {
            name: start.name.clone(),
            program: invocation.program.display().to_string(),
            remedy: invocation.remedy.clone().filter(|_| is_missing(&source)),
            source,
        })?;
        let piped = "both streams of a child are pipes";
        let stdout = process.stdout.take().expect(piped);
        let stderr = process.stderr.take().expect(piped);
        let stdin = process.stdin.take();
        let group = Group::of(&process);
        Ok((Self { process, group }, stdin, voice.hear(stdout, stderr)))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id().unwrap_or(0)
    }

    pub(crate) async fn ended(&mut self) -> Cause {
        // Only a process that is not ours cannot be waited for.
        self.process
            .wait()
            .await
            .map_or(Cause::Code(-1), Cause::from)
    }

    pub(crate) fn ask_to_end(&self) {
        self.group.signal(Signal::TERM);
    }

    /// Ends it and all that it started. (The group's number is still taken while one of them lives, and the
    /// kernel does not hand out a number again right after its use.)
    pub(crate) fn kill(&self) {
        self.group.signal(Signal::KILL);
    }
}

fn command(name: &str, invocation: &Invocation, ports: Ports) -> Command {
    let mut command = Command::new(&invocation.program);
    let stdin = if invocation.reads {
        Stdio::piped()
    } else {
        Stdio::null()
    };
    command
        .args(&invocation.arguments)
        .args(invocation.at_start(name, ports, std::process::id()))
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
    fn of(process: &Child) -> Self {
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
