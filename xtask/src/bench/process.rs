//! A server that a measurement starts, waits for, and ends.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::shell;

/// A model that must come from the network first takes longest.
const READY_WITHIN: Duration = Duration::from_secs(120);

/// Servers drain; one that does not end by then is killed.
const GONE_WITHIN: Duration = Duration::from_secs(20);

/// Interval at which a server that should end is checked.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Maximum lines kept until they are read: more than any banner has. Later ones are dropped.
const LINES_MAX: usize = 1_000;

pub(super) struct Server {
    child: Child,
    line: String,
    /// The line that said it is ready.
    pub(super) ready: String,
    /// From its start to that line.
    pub(super) started_in: Duration,
}

impl Server {
    /// Starts a server and waits for a line with `word`, which it says when it takes requests.
    pub(super) fn start(command: &mut Command, word: &str) -> anyhow::Result<Self> {
        let line = shell::line(command);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let started = Instant::now();
        let mut child = command
            .spawn()
            .with_context(|| format!("cannot start `{line}`"))?;
        let lines = follow(&mut child);
        let mut server = Self {
            child,
            line,
            ready: String::new(),
            started_in: Duration::ZERO,
        };
        server.ready = server.wait(&lines, word, started)?;
        server.started_in = started.elapsed();
        Ok(server)
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    fn wait(
        &mut self,
        lines: &Receiver<String>,
        word: &str,
        started: Instant,
    ) -> anyhow::Result<String> {
        let mut said = String::new();
        loop {
            let left = READY_WITHIN.saturating_sub(started.elapsed());
            match lines.recv_timeout(left) {
                Ok(line) if line.contains(word) => return Ok(line),
                Ok(line) => said = said + "  " + &line + "\n",
                Err(RecvTimeoutError::Timeout) => {
                    bail!(
                        "`{}` is not ready after {READY_WITHIN:?}:\n{said}",
                        self.line
                    )
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let status = self.child.wait()?;
                    bail!(
                        "`{}` ended before it was ready ({status}):\n{said}",
                        self.line
                    )
                }
            }
        }
    }

    fn end(&mut self) -> anyhow::Result<()> {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::TERM).context("it has ended already")?;
        let asked = Instant::now();
        while self.child.try_wait()?.is_none() {
            if GONE_WITHIN < asked.elapsed() {
                self.child.kill()?;
                self.child.wait()?;
                bail!("it did not end within {GONE_WITHIN:?} of SIGTERM");
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            eprintln!("`{}`: {error:#}", self.line);
        }
    }
}

/// Reads all that a child says, so that it never waits for a reader.
fn follow(child: &mut Child) -> Receiver<String> {
    let (sender, lines) = sync_channel(LINES_MAX);
    if let Some(stdout) = child.stdout.take() {
        follow_one(stdout, sender.clone());
    }
    if let Some(stderr) = child.stderr.take() {
        follow_one(stderr, sender);
    }
    lines
}

fn follow_one(stream: impl Read + Send + 'static, sender: SyncSender<String>) {
    // The thread ends with the stream, which ends with the child.
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            // Once it is ready, there is no receiver any more, which is fine.
            drop(sender.try_send(line));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(script: &str) -> anyhow::Result<Server> {
        Server::start(Command::new("sh").args(["-c", script]), "ready on")
    }

    #[test]
    fn a_server_is_waited_for_until_it_says_ready() {
        let server =
            start("echo not ready; echo ready on port 7 >&2; exec sleep 60").expect("ready");
        assert_eq!(server.ready, "ready on port 7");
    }

    #[test]
    fn a_server_that_ends_too_early_is_reported_with_its_last_output() {
        let error = start("echo port in use; exit 3")
            .err()
            .expect("it ended")
            .to_string();
        assert!(
            error.contains("port in use") && error.contains("exit status: 3"),
            "{error}"
        );
    }
}
