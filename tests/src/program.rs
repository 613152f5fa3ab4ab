//! A process of a test: started, watched, and ended with the test.

use std::io::Write;
use std::net::SocketAddr;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use flow_process::{ProcessEvent, ReadyEvent};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::lines::{LIMIT, Line, Lines, Stream};

/// Wait between two looks at something that cannot be waited for.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// A running process and all that it wrote.
#[derive(Debug)]
pub struct Program {
    child: Child,
    lines: Lines,
    shown: String,
}

impl Program {
    /// Starts a process.
    pub fn start(mut command: Command) -> Self {
        let shown = format!("{command:?}");
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .unwrap_or_else(|error| panic!("{shown}: {error}"));
        let lines = Lines::default();
        lines.gather(Stream::Out, child.stdout.take().unwrap());
        lines.gather(Stream::Err, child.stderr.take().unwrap());
        Self {
            child,
            lines,
            shown,
        }
    }

    /// Runs a process to its end.
    pub fn run(command: Command) -> (Option<i32>, Self) {
        let mut program = Self::start(command);
        program.write_all(b"");
        (program.end().code(), program)
    }

    /// Writes to its standard input, and closes it.
    pub fn write_all(&mut self, bytes: &[u8]) {
        // A process that has ended reads no more; its exit code is looked at elsewhere.
        drop(self.child.stdin.take().unwrap().write_all(bytes));
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for a line that holds `part`, written before or after now.
    pub fn line(&self, part: &str) -> String {
        self.line_from(0, part)
    }

    /// The same for a line after the first `skip`.
    pub fn line_from(&self, skip: usize, part: &str) -> String {
        self.lines
            .wait_for(skip, |line| line.contains(part))
            .unwrap_or_else(|| panic!("ended without a line that holds `{part}`:\n{}", self.said()))
    }

    /// Waits for its ready event. Executors and gateways write it with `--log json`, `flow up` with
    /// `--ready-format json`.
    pub fn ready(&self) -> ReadyEvent {
        let line = self.line(r#"{"event":"ready""#);
        match ProcessEvent::parse(&line) {
            Some(Ok(ProcessEvent::Ready(ready))) => ready,
            other => panic!("{other:?}"),
        }
    }

    /// The address with the port at which it listens, from its ready event.
    pub fn address(&self) -> SocketAddr {
        let ready = self.ready();
        ready.address.tcp().expect("it listens at a port")
    }

    /// The port at which it listens, from its ready event.
    pub fn port(&self) -> u16 {
        self.address().port()
    }

    /// All that it wrote so far.
    pub fn lines(&self) -> Vec<Line> {
        self.lines.all()
    }

    /// What it wrote to standard output.
    pub fn stdout(&self) -> String {
        self.on(Stream::Out)
    }

    /// What it wrote to standard error.
    pub fn stderr(&self) -> String {
        self.on(Stream::Err)
    }

    fn on(&self, stream: Stream) -> String {
        let lines = self
            .lines()
            .into_iter()
            .filter(|line| line.stream == stream);
        lines.map(|line| line.text + "\n").collect()
    }

    /// The command and all lines, for a test that fails.
    pub fn said(&self) -> String {
        let lines = self
            .lines()
            .into_iter()
            .map(|line| format!("    {}\n", line.text));
        format!("  {}\n{}", self.shown, lines.collect::<String>())
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        send(self.pid(), signal);
    }

    /// Waits until it has ended.
    pub fn end(&mut self) -> ExitStatus {
        self.lines.wait_for_end();
        self.child.wait().unwrap()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        if thread::panicking() {
            #[allow(clippy::print_stderr, reason = "it explains a failed test")]
            {
                eprintln!("{}", self.said());
            }
        }
    }
}

/// Sends a signal to a process that is there.
pub fn send(pid: u32, signal: Signal) {
    kill_process(raw(pid), signal).unwrap_or_else(|error| panic!("process {pid}: {error}"));
}

/// Whether there is such a process.
pub fn is_alive(pid: u32) -> bool {
    test_kill_process(raw(pid)).is_ok()
}

fn raw(pid: u32) -> Pid {
    Pid::from_raw(pid.try_into().unwrap()).unwrap()
}

/// Waits for a state that is not reported.
pub fn eventually(what: &str, is_so: impl Fn() -> bool) {
    eventually_or(what, is_so, String::new);
}

/// The same; `explain` says what was found instead if it is never so.
#[track_caller]
pub fn eventually_or(what: &str, is_so: impl Fn() -> bool, explain: impl FnOnce() -> String) {
    let end = Instant::now() + LIMIT;
    while !is_so() {
        let is_in_time = Instant::now() < end;
        assert!(is_in_time, "not within {LIMIT:?}: {what}\n{}", explain());
        thread::sleep(LOOK_AGAIN);
    }
}
