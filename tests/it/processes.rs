//! How a flow starts, ends, and fails to start, seen from outside.

use std::net::TcpListener;
use std::process::Command;

use flow_core::Deadline;
use flow_tests::{
    Program, TestFlow, client, eventually, flow_command, flow_file, is_alive, post, texts,
};
use rustix::process::Signal;
use serde_json::json;

use crate::FAULTY;

const ECHO: &str = "executors: [{name: echo, uses: echo}]";

fn flow(arguments: &[&str]) -> (Option<i32>, Program) {
    let mut command = flow_command();
    command.args(arguments);
    Program::run(command)
}

/// Runs `flow COMMAND FILE` on a file of this text.
fn flow_on(command: &str, yaml: &str) -> (Option<i32>, Program) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("flow.yml");
    std::fs::write(&file, yaml).unwrap();
    flow(&[command, file.to_str().unwrap()])
}

/// A request in progress when the flow is asked to end, and the outcomes of both.
async fn end_with_work_under_way(signals: &[Signal]) -> (Option<i32>, Option<Vec<String>>) {
    let mut flow = TestFlow::up(&format!("executors: [{{name: faulty, uses: {FAULTY}}}]"));
    let (began, until) = (flow.folder().join("began"), flow.folder().join("until"));
    let parameters = json!({ "began": began, "until": until });
    let waits = flow_tests::request("/wait", &["x"], &parameters);
    let client = client(&flow).await;
    let mut task = tokio::task::JoinSet::new();
    task.spawn(async move { client.single(waits, Deadline::NEVER).await });
    tokio::task::spawn_blocking(move || eventually("the work has begun", || began.exists()))
        .await
        .unwrap();
    for signal in signals {
        flow.program().signal(*signal);
        flow.program().line("finishing requests in progress");
    }
    if let [_only] = signals {
        std::fs::write(&until, "").unwrap();
    }
    let reply = task.join_next().await.unwrap().unwrap();
    let code = tokio::task::spawn_blocking(move || flow.program_mut().end().code())
        .await
        .unwrap();
    (code, reply.ok().map(|reply| flow_tests::said(&reply).texts))
}

#[tokio::test]
async fn the_first_signal_lets_requests_in_progress_finish() {
    for signal in [Signal::TERM, Signal::INT] {
        let (code, texts) = end_with_work_under_way(&[signal]).await;
        assert_eq!(
            (code, texts),
            (Some(0), Some(vec!["x".to_owned()])),
            "{signal:?}"
        );
    }
}

#[tokio::test]
async fn the_second_signal_ends_at_once() {
    let (code, texts) = end_with_work_under_way(&[Signal::TERM, Signal::TERM]).await;
    assert_eq!((code, texts), (Some(130), None));
}

#[test]
fn an_idle_client_does_not_hold_up_the_end() {
    let mut flow = TestFlow::up(ECHO);
    let idle = std::net::TcpStream::connect(("127.0.0.1", flow.port())).unwrap();
    flow.program().signal(Signal::TERM);
    assert_eq!(flow.program_mut().end().code(), Some(0));
    drop(idle);
}

#[test]
fn nothing_outlives_a_flow_that_is_killed() {
    let mut flow =
        TestFlow::up("executors: [{name: a, uses: echo, replicas: 2}, {name: b, uses: echo}]");
    let pids = ["gateway", "a/rep-0", "a/rep-1", "b"].map(|name| flow.pid(name));
    assert!(pids.into_iter().all(is_alive));
    flow.program().signal(Signal::KILL);
    flow.program_mut().end();
    for pid in pids {
        eventually("the process has gone", || !is_alive(pid));
    }
}

#[tokio::test]
async fn a_gateway_that_is_killed_comes_back_at_its_port() {
    let flow = TestFlow::up(ECHO);
    flow.expect("gateway");
    let first = flow.pid("gateway");
    let lines = flow.program().lines().len();
    flow_tests::send(first, Signal::KILL);
    let again = flow.program().line_from(lines, "gateway@");
    assert!(again.ends_with(&format!(":{}", flow.port())), "{again}");
    assert_eq!(
        post(&flow, vec![texts("/any", &["x"])]).await[0].texts,
        ["x"]
    );
}

#[test]
fn every_line_of_the_log_is_json_where_that_was_asked_for() {
    let mut flow = TestFlow::up_with(ECHO, &["--log", "json"]);
    flow.program().signal(Signal::TERM);
    flow.program_mut().end();
    let log = flow.program().stderr();
    assert!(log.contains("ready and listening"), "{log}");
    for line in log.lines() {
        let object: serde_json::Value =
            serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
        assert!(object.is_object(), "{line}");
    }
}

#[test]
fn an_executor_that_cannot_load_fails_the_start_with_its_own_words() {
    let yaml = format!(
        "jtype: Flow\nwith: {{port: 0}}\nexecutors: [{{name: a, uses: echo}}, {{name: ill, uses: {FAULTY}, uses_with: {{sick: no appetite}}}}]"
    );
    let (code, up) = flow_on("up", &yaml);
    assert_eq!(code, Some(1), "{}", up.said());
    let output = up.stderr();
    for part in ["`ill`", "exit code 1", "no appetite"] {
        assert!(output.contains(part), "no `{part}` in {output}");
    }
    let started = up.lines();
    let echo = started.iter().find_map(|line| line.text.strip_prefix("a@"));
    if let Some(pid) = echo.and_then(|line| line.split(' ').next()) {
        assert!(
            !is_alive(pid.parse().unwrap()),
            "the other executor is left behind"
        );
    }
}

#[test]
fn a_taken_port_is_reported_with_its_owner() {
    let taken = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let file = flow_file("echo.yml");
    let (code, up) = flow(&["up", file.to_str().unwrap(), "--port", &port]);
    assert_eq!(code, Some(1), "{}", up.said());
    let wanted = format!("port {port} is taken: process {}", std::process::id());
    assert!(
        up.stderr().contains(&wanted),
        "no `{wanted}` in {}",
        up.said()
    );
}

#[test]
fn a_file_that_is_not_there_is_bad_usage() {
    for command in ["up", "check"] {
        let (code, program) = flow(&[command, "no/such/flow.yml"]);
        assert_eq!(code, Some(2), "{}", program.said());
        assert!(
            program.stderr().contains("no/such/flow.yml"),
            "{}",
            program.said()
        );
    }
}

/// A bad file is refused by `check` and by `up`, with the same words.
fn check_refused(yaml: &str, wanted: &[&str]) {
    for command in ["check", "up"] {
        let (code, program) = flow_on(command, yaml);
        assert_eq!(code, Some(2), "{}", program.said());
        let output = program.stderr() + &program.stdout();
        for part in wanted {
            assert!(output.contains(part), "no `{part}` in {output}");
        }
    }
}

#[test]
fn an_unknown_key_is_reported_with_its_position_and_a_suggestion() {
    let yaml = "jtype: Flow\nexecutors:\n  - name: echo\n    uses: echo\n    replcas: 2\n";
    check_refused(yaml, &["5:5", "replcas", "did you mean `replicas`"]);
}

#[test]
fn all_problems_of_a_file_are_reported_at_once() {
    let yaml = "jtype: Flow\nexecutors:\n  - {name: a, uses: echo, needs: b}\n  - {name: b, uses: echo, needs: a}\n  - {name: c, uses: echo, polling: some}\n  - {name: d, uses: echo, replicas: none}\n";
    check_refused(
        yaml,
        &[
            "3 problems",
            "cycle",
            "executors.c.polling",
            "executors.d.replicas",
        ],
    );
}

#[test]
fn a_cycle_is_refused() {
    let yaml = "jtype: Flow\nexecutors:\n  - {name: a, uses: echo, needs: b}\n  - {name: b, uses: echo, needs: a}\n";
    check_refused(yaml, &["cycle", "`a` → `b` → `a`"]);
}

#[test]
fn a_name_that_two_executors_have_is_made_unique_with_a_warning() {
    let yaml = "jtype: Flow\nexecutors:\n  - {name: a, uses: echo}\n  - {name: a, uses: echo}\n";
    let (code, program) = flow_on("check", yaml);
    assert_eq!(code, Some(0), "{}", program.said());
    let shown = program.stderr();
    assert!(
        shown.contains("4:12") && shown.contains("this one is called `a1`"),
        "{shown}"
    );
}

#[test]
fn a_missing_executor_is_reported_before_anything_starts() {
    let yaml = "jtype: Flow\nexecutors: [{name: a, uses: ./no/such/program}]\n";
    let (code, up) = flow_on("up", yaml);
    assert_eq!(code, Some(2), "{}", up.said());
    assert!(up.stderr().contains("./no/such/program"), "{}", up.said());
}

#[test]
fn every_shipped_flow_is_valid() {
    let flows = flow_file("")
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|it| it == "yml"));
    let mut command: Command = flow_command();
    command.arg("check").args(flows);
    let (code, program) = Program::run(command);
    assert_eq!(code, Some(0), "{}", program.said());
}
