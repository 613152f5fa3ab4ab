//! The flow under test, started as users start it, and the commands that change it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use flow_process::ProcessEvent;
use flow_tests::{Program, flow_command};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::log_pipe::{ErrorLines, LogPipe};
use crate::proxy::Proxy;

/// A flow that is up, and its external executor.
#[derive(Debug)]
pub(crate) struct Flow {
    child: Child,
    port: u16,
    log: LogPipe,
    pub(crate) proxy: Proxy,
    generation: AtomicU32,
    folder: TempDir,
    _external: Program,
}

/// A replica that is ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Replica {
    pub(crate) name: String,
    pub(crate) pid: u32,
}

impl Flow {
    pub(crate) fn up() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let external = external();
        let proxy = Proxy::start(external.address());
        let mut command = command(&folder);
        command
            .arg("up")
            .arg(folder.path().join("flow.yml"))
            .args(["--port", "0", "--ready-format", "json"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        fs::write(folder.path().join("flow.yml"), yaml(&folder, &proxy, 0)).unwrap();
        let mut child = command.spawn().unwrap();
        let log = LogPipe::default();
        log.read(child.stderr.take().unwrap());
        let port = ready_port(&mut child);
        Self {
            child,
            port,
            log,
            proxy,
            generation: AtomicU32::new(0),
            folder,
            _external: external,
        }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The process `flow up`.
    pub(crate) fn supervisor(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn log(&self) -> &LogPipe {
        &self.log
    }

    pub(crate) fn loud(&self) -> ErrorLines {
        self.log.loud()
    }

    /// What the executor `book` wrote down.
    pub(crate) fn recorded(&self) -> String {
        fs::read_to_string(self.folder.path().join("runs.txt")).unwrap()
    }

    /// Runs a command of `flow`; the error is what it printed.
    pub(crate) fn command(&self, arguments: &[&str]) -> Result<String, String> {
        let mut command = command(&self.folder);
        let output = command.args(arguments).output().unwrap();
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }

    /// Changes a variable of `work` in the flow file, and reads it again.
    pub(crate) fn reload(&self) -> Result<String, String> {
        let generation = self.generation.fetch_add(1, Ordering::Relaxed) + 1;
        let yaml = yaml(&self.folder, &self.proxy, generation);
        fs::write(self.folder.path().join("flow.yml"), yaml).unwrap();
        self.command(&["reload"])
    }

    /// Replicas of a node that are ready; none while the supervisor does not answer.
    pub(crate) fn ready(&self, node: &str) -> Vec<Replica> {
        let listing = self.command(&["ps", "--json"]).unwrap_or_default();
        let listing: Value = serde_json::from_str(&listing).unwrap_or_default();
        let processes = listing[0]["processes"].as_array().into_iter().flatten();
        let of_node = processes.filter(|it| it["node"] == node && it["state"] == "ready");
        let replica = |it: &Value| {
            Some(Replica {
                name: it["name"].as_str()?.to_owned(),
                pid: u32::try_from(it["pid"].as_u64()?).ok()?,
            })
        };
        of_node.filter_map(replica).collect()
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        // It drains, and takes its processes with it.
        let pid = Pid::from_child(&self.child);
        let is_there = kill_process(pid, Signal::TERM).is_ok();
        debug_assert!(is_there, "`flow up` has ended by itself");
        drop(self.child.wait());
    }
}

fn command(folder: &TempDir) -> Command {
    let mut command = flow_command();
    command
        .env("XDG_STATE_HOME", folder.path().join("state"))
        .stdin(Stdio::null());
    command
}

/// An executor that runs outside of the flow.
fn external() -> Program {
    let mut command = flow_command();
    command.args(["executor", "--uses", "echo", "--port", "0", "--log", "json"]);
    Program::start(command)
}

/// A program of the tests, in the folder of this one.
fn sibling(name: &str) -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let path = own.with_file_name(name);
    assert!(path.exists(), "there is no `{}`", path.display());
    path
}

fn yaml(folder: &TempDir, proxy: &Proxy, generation: u32) -> String {
    let (faulty, recorder) = (sibling("faulty"), sibling("recorder"));
    let runs = folder.path().join("runs.txt");
    format!(
        "jtype: Flow
with: {{access_log: true}}
executors:
  - {{name: work, uses: {}, replicas: 3, idempotent: true, env: {{GENERATION: 'g{generation}'}}}}
  - {{name: far, external: true, host: 127.0.0.1, port: {}, idempotent: true}}
  - {{name: book, uses: {}, replicas: 2, uses_with: {{file: {}, prefixes: [r-, a-], pause_ms: 10}}}}
",
        faulty.display(),
        proxy.address.port(),
        recorder.display(),
        runs.display(),
    )
}

/// Reads standard output until the ready event.
fn ready_port(child: &mut Child) -> u16 {
    let stdout = child.stdout.take().unwrap();
    for line in BufReader::new(stdout).lines().map_while(Result::ok) {
        if let Some(Ok(ProcessEvent::Ready(ready))) = ProcessEvent::parse(&line) {
            return ready.address.port().expect("it listens at a port");
        }
    }
    panic!("`flow up` ended before it was ready")
}
