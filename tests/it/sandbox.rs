//! Executors in a sandbox: what it forbids fails, and everything else works as without one.

use std::path::{Path, PathBuf};
use std::process::Command;

use flow_tests::{
    Program, TestFlow, eventually, flow_command, flow_serve, post, request, send, skipped,
};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::CONFINED;

/// What every limit at once is in a flow file. The memory is much for the executor, and less than it asks for in the tests.
const ALL: &str = "sandbox: {memory: 512MiB, cpus: 1, no_network: true, read_only: true}";

/// Whether this machine has what the limits need. If not, says so.
fn is_possible() -> bool {
    let folder = tempfile::tempdir().unwrap();
    let mut command = sandbox(folder.path());
    command.args(["--read-only", "--", "true"]);
    let (code, program) = Program::run(command);
    let said = program.stderr();
    if said.contains("needs Landlock") {
        skipped(&said);
        return false;
    }
    assert_eq!(code, Some(0), "{}", program.said());
    true
}

/// The program that limits itself, with a folder of its own.
fn sandbox(folder: &Path) -> Command {
    let mut command = flow_command();
    command
        .env_remove("FLOW_STATUS_SOCKET")
        .args(["sandbox", "--own-folder"])
        .arg(folder.join("own"));
    command
}

/// What the executor answers.
async fn said(flow: &TestFlow, endpoint: &str, parameters: Value) -> String {
    let mut replies = post(flow, vec![request(endpoint, &["?"], &parameters)]).await;
    let mut reply = replies.remove(0);
    assert_eq!(reply.failure, None, "{endpoint}");
    reply.texts.remove(0)
}

/// What a command says that finds the flow.
fn run(flow: &TestFlow, arguments: &[&str]) -> String {
    let mut command = flow_command();
    command.env("XDG_STATE_HOME", flow.folder().join("state"));
    command.args(arguments);
    let (code, program) = Program::run(command);
    assert_eq!(code, Some(0), "{arguments:?}: {}", program.said());
    program.stdout()
}

/// The path of the socket at which a process listens.
fn socket(flow: &TestFlow, name: &str) -> PathBuf {
    let listing: Value = serde_json::from_str(&run(flow, &["ps", "--json"])).unwrap();
    let mut processes = listing[0]["processes"].as_array().unwrap().iter();
    let process = processes.find(|it| it["name"] == name).unwrap();
    let address = process["address"].as_str().unwrap();
    let path = address.strip_prefix("unix:");
    path.unwrap_or_else(|| panic!("{address}")).into()
}

fn entries(folder: &Path) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

#[tokio::test]
async fn what_a_sandbox_forbids_fails_and_requests_are_served() {
    if !is_possible() {
        return;
    }
    let files = tempfile::tempdir().unwrap();
    let (own, outside) = (files.path().join("own"), files.path().join("outside"));
    std::fs::create_dir(&outside).unwrap();
    let flow = TestFlow::up(&format!(
        "executors: [{{name: a, uses: {CONFINED}, workspace: {}, {ALL}}}]",
        own.display()
    ));
    let at = |folder: &Path| json!({"path": folder.join("file")});
    assert_eq!(said(&flow, "/write", at(&own)).await, "done");
    assert_eq!(said(&flow, "/child", at(&own)).await, "done");
    assert_eq!(
        said(&flow, "/write", json!({"path": "/dev/null"})).await,
        "done"
    );
    let state = flow.folder().join("state");
    for forbidden in [&outside, &state] {
        assert_eq!(
            said(&flow, "/write", at(forbidden)).await,
            "permission denied"
        );
        assert_eq!(said(&flow, "/child", at(forbidden)).await, "failed");
        assert!(!forbidden.join("file").exists());
    }
    let temporary = PathBuf::from(said(&flow, "/temporary", json!({})).await);
    assert!(temporary.starts_with(&state), "{}", temporary.display());
    assert!(temporary.exists());

    let port = json!({"port": flow.port()});
    assert_eq!(said(&flow, "/connect", port).await, "permission denied");
    assert_eq!(said(&flow, "/listen", json!({})).await, "permission denied");
    assert_eq!(
        said(&flow, "/datagram", json!({})).await,
        "permission denied"
    );

    let allocate = |mebibytes: u32| said(&flow, "/allocate", json!({"mebibytes": mebibytes}));
    assert_eq!(allocate(16).await, "done");
    assert_eq!(allocate(1024).await, "out of memory");
    assert_eq!(allocate(16).await, "done");
    assert_eq!(said(&flow, "/processors", json!({})).await, "1");
    assert_eq!(
        said(&flow, "/privileges", json!({})).await,
        "NoNewPrivs:\t1"
    );

    let line = flow.program().line("sandbox applied");
    for limit in [
        "memory 512 MiB",
        "processors 1",
        "Unix sockets only (seccomp)",
        "Landlock",
    ] {
        assert!(line.contains(limit), "{line}");
    }
}

#[tokio::test]
async fn without_a_sandbox_the_same_is_allowed() {
    let flow = TestFlow::up(&format!("executors: [{{name: a, uses: {CONFINED}}}]"));
    let path = json!({"path": flow.folder().join("file")});
    assert_eq!(said(&flow, "/write", path).await, "done");
    let port = json!({"port": flow.port()});
    assert_eq!(said(&flow, "/connect", port).await, "done");
    let allocated = said(&flow, "/allocate", json!({"mebibytes": 1024})).await;
    assert_eq!(allocated, "done");
    assert_eq!(
        said(&flow, "/privileges", json!({})).await,
        "NoNewPrivs:\t0"
    );
}

#[tokio::test]
async fn each_limit_holds_by_itself() {
    if !is_possible() {
        return;
    }
    let flow = TestFlow::up(&format!(
        "executors:\n\
         - {{name: files, uses: echo, sandbox: {{read_only: true}}, host: 127.0.0.1}}\n\
         - {{name: network, uses: {CONFINED}, sandbox: {{no_network: true}}}}\n"
    ));
    // The second one answers: it may write, and not connect.
    let path = json!({"path": flow.folder().join("file")});
    assert_eq!(said(&flow, "/write", path).await, "done");
    let port = json!({"port": flow.port()});
    assert_eq!(said(&flow, "/connect", port).await, "permission denied");
    let lines: Vec<String> = flow
        .program()
        .lines()
        .into_iter()
        .map(|it| it.text)
        .collect();
    let of = |name: &str| {
        let applied = lines
            .iter()
            .find(|it| it.contains(name) && it.contains("sandbox applied"));
        applied.unwrap_or_else(|| panic!("{lines:#?}")).clone()
    };
    assert!(!of("files").contains("seccomp") && of("files").contains("Landlock"));
    assert!(of("network").contains("seccomp") && !of("network").contains("Landlock"));
}

#[test]
fn echo_in_a_sandbox_is_served_at_its_socket_over_restarts_and_changes() {
    if !is_possible() {
        return;
    }
    let mut flow = TestFlow::up(&format!("executors: [{{name: echo, uses: echo, {ALL}}}]"));
    flow.expect("process died and is restarted")
        .expect("replica cannot be reached");
    let answers = |flow: &TestFlow| {
        let said = run(flow, &["post", &flow.url(), "--on", "/", "--text", "well"]);
        assert!(said.contains("well"), "{said}");
    };
    answers(&flow);
    let first = socket(&flow, "echo");
    let folders = first.ancestors().nth(2).unwrap().to_owned();
    assert!(folders.ends_with("sandboxes"), "{}", first.display());
    let pid = flow.pid("echo");
    send(pid, Signal::KILL);
    eventually("the executor is started again", || flow.pid("echo") != pid);
    assert_eq!(socket(&flow, "echo"), first);
    answers(&flow);
    run(&flow, &["restart", "echo"]);
    assert_ne!(socket(&flow, "echo"), first);
    answers(&flow);
    run(&flow, &["scale", "echo=2"]);
    answers(&flow);
    assert_eq!(entries(&folders), 2);
    run(&flow, &["down"]);
    flow.program_mut().end();
    assert_eq!(entries(&folders), 0);
}

#[tokio::test]
async fn a_reload_adds_and_removes_a_sandbox() {
    if !is_possible() {
        return;
    }
    let flow = TestFlow::up(&format!("executors: [{{name: a, uses: {CONFINED}}}]"));
    let port = json!({"port": flow.port()});
    assert_eq!(said(&flow, "/connect", port.clone()).await, "done");
    let reload = |limits: &str| {
        let yaml = format!("jtype: Flow\nexecutors: [{{name: a, uses: {CONFINED}{limits}}}]");
        std::fs::write(flow.folder().join("flow.yml"), yaml).unwrap();
        run(&flow, &["reload"]);
    };
    reload(&format!(", {ALL}"));
    assert_eq!(
        said(&flow, "/connect", port.clone()).await,
        "permission denied"
    );
    reload("");
    assert_eq!(said(&flow, "/connect", port).await, "done");
}

/// A Python executor that tries the same.
const PYTHON: &str = r#"
import os
import socket

from jina import DocumentArray, Executor, requests


class Confined(Executor):
    @requests
    def attempt(self, docs: DocumentArray, parameters, **kwargs):
        def denied(attempt):
            try:
                attempt()
            except PermissionError:
                return "denied"
            except MemoryError:
                return "no memory"
            return "done"

        outcomes = [
            denied(lambda: open(parameters["outside"], "w")),
            denied(lambda: os.makedirs(self.workspace + "/folder")),
            denied(lambda: socket.create_connection(("127.0.0.1", int(parameters["port"])))),
            denied(lambda: bytearray(2 << 30)),
        ]
        for doc in docs:
            doc.text = " ".join(outcomes)
"#;

#[tokio::test]
async fn a_python_executor_has_the_same_limits() {
    let Some(python) = flow_serve() else { return };
    if !is_possible() {
        return;
    }
    let files = tempfile::tempdir().unwrap();
    let executor = files.path().join("executor.py");
    std::fs::write(&executor, PYTHON).unwrap();
    let yaml = format!(
        "executors: [{{name: a, uses: '{}:Confined', workspace: {}, \
         sandbox: {{memory: 1GiB, no_network: true, read_only: true}}}}]",
        executor.display(),
        files.path().join("own").display()
    );
    let flow = TestFlow::up_in(&yaml, &[("FLOW_PYTHON", python.to_str().unwrap())]);
    let outside = files.path().join("outside");
    let parameters = json!({"outside": outside, "port": flow.port()});
    let outcomes = said(&flow, "/", parameters).await;
    assert_eq!(outcomes, "denied done denied no memory");
    assert!(!outside.exists());
}

#[test]
fn any_program_is_limited_before_it_begins() {
    if !is_possible() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let outside = folder.path().join("outside");
    let mut command = sandbox(folder.path());
    let script = format!(
        "echo here > \"$TMPDIR/file\" && cat \"$TMPDIR/file\" && echo x > {}",
        outside.display()
    );
    command.args(["--read-only", "--", "sh", "-c", &script]);
    let (code, program) = Program::run(command);
    assert_ne!(code, Some(0), "{}", program.said());
    assert_eq!(program.stdout(), "here\n");
    assert!(
        program.stderr().contains("Permission denied"),
        "{}",
        program.said()
    );
    assert!(!outside.exists());
}

#[test]
fn a_program_that_does_not_exist_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = sandbox(folder.path());
    command.args(["--millicpus", "1000", "--", "/nowhere/at/all"]);
    let (code, program) = Program::run(command);
    assert_eq!(code, Some(1), "{}", program.said());
    let said = program.stderr();
    assert!(said.contains("cannot run `/nowhere/at/all`"), "{said}");
}

#[test]
fn what_the_sandbox_would_need_is_said_before_the_program_begins() {
    let check = |flag: &str, expected: &str| {
        let mut command = flow_command();
        command.env_remove("FLOW_LISTEN_SOCKET");
        command.args(["sandbox", flag, "--", "echo", "begun"]);
        let (code, program) = Program::run(command);
        assert_eq!(code, Some(1), "{}", program.said());
        assert_eq!(program.stdout(), "");
        assert!(program.stderr().contains(expected), "{}", program.said());
    };
    check(
        "--no-network",
        "the flow has no folder in which executors can have them",
    );
    check(
        "--read-only",
        "`read_only` needs a folder for temporary files",
    );
}
