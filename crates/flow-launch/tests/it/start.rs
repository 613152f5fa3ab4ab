//! The start of a flow, and its failures.

use std::net::TcpListener;

use flow_launch::{FlowEvent, ReadyProcess};
use flow_spec::Placement;

use crate::harness::{Flow, gone, launch, plan, within};

fn names(members: &[ReadyProcess]) -> Vec<&str> {
    members.iter().map(|it| &*it.name).collect()
}

#[tokio::test]
async fn the_gateway_gets_the_address_of_every_replica() {
    let (mut flow, started) = Flow::serving(&["name: a, replicas: 2", "name: b"]).await;

    assert_eq!(names(&started.executors), ["a/rep-0", "a/rep-1", "b"]);
    let placement: Placement =
        serde_json::from_str(&flow.line("gateway", "placement ").await).unwrap();
    assert_eq!(placement, started.placement);
    let ports = placement
        .addresses
        .iter()
        .flat_map(|it| it.all())
        .map(|it| it.tcp().map(|it| it.port));
    let listening = started.executors.iter().map(|it| it.address.port());
    assert!(ports.eq(listening), "{placement:?}");
}

#[tokio::test]
async fn a_ready_process_has_an_address_and_facts() {
    let (_flow, started) = Flow::serving(&["name: a"]).await;
    let member = &started.executors[0];
    let expected = format!(
        "a@{} ready and listening on {} (device none)",
        member.pid, member.address
    );
    assert_eq!(member.to_string(), expected);
}

#[tokio::test]
async fn children_know_their_parent_and_their_lines_become_events() {
    let (mut flow, _) = Flow::serving(&["name: a"]).await;
    let parent = flow.line("a", "child of ").await;
    assert_eq!(parent, std::process::id().to_string());

    let (mut flow, _) = Flow::serving(&["name: a"]).await;
    assert_eq!(flow.line("a", "an ordinary ").await, "line");
}

#[tokio::test]
async fn executors_start_together() {
    let meeting = tempfile::tempdir().unwrap();
    let env = format!(
        "env: {{PLAY: meets, GUESTS: 3, MEETING: '{}'}}",
        meeting.path().display()
    );
    let guests = [
        format!("name: a, replicas: 2, {env}"),
        format!("name: b, {env}"),
    ];
    let guests: Vec<&str> = guests.iter().map(String::as_str).collect();

    // Each becomes ready only after all others have started.
    let (_flow, started) = Flow::serving(&guests).await;
    assert_eq!(started.executors.len(), 3);
}

#[tokio::test]
async fn lines_of_a_quiet_process_are_not_events() {
    let (flow, _) = Flow::serving(&["name: a, quiet: true"]).await;
    flow.running.stop();
    let heard = flow.rest().await;
    assert!(
        heard.iter().all(|it| it.starts_with("gateway: ")),
        "{heard:?}"
    );
}

#[tokio::test]
async fn a_child_that_dies_fails_the_start_with_its_last_lines() {
    let (flow, error) = Flow::failing(&["name: a", "name: b, env: {PLAY: dies}"]).await;
    let expected =
        "`b` ended with exit code 3; its last lines:\n  looking for the model\n  no such model";
    assert_eq!(error, expected);
    drop(flow);
}

#[tokio::test]
async fn a_child_that_crashes_fails_the_start_with_its_signal() {
    let (_flow, error) = Flow::failing(&["name: b, env: {PLAY: crashes}"]).await;
    assert_eq!(error, "`b` was ended by signal SIGSEGV and wrote nothing");
}

#[tokio::test]
async fn a_child_that_takes_too_long_fails_the_start_and_is_killed() {
    let (flow, error) = Flow::failing(&["name: b, timeout_ready: 200, env: {PLAY: silent}"]).await;
    let expected =
        "`b` was not ready within 200ms (`timeout_ready`) and was killed; its last lines:";
    assert!(error.starts_with(expected), "{error}");
    drop(flow);
}

#[tokio::test]
async fn an_invalid_ready_line_fails_the_start() {
    let (_flow, error) = Flow::failing(&["name: b, env: {PLAY: babbles}"]).await;
    assert_eq!(error, "`b` is not an executor that flow can start");
}

#[tokio::test]
async fn a_flow_that_fails_to_start_leaves_no_process() {
    let (mut flow, _) = Flow::failing(&[
        "name: a",
        "name: b, timeout_ready: 500, env: {PLAY: silent}",
    ])
    .await;
    let a: u32 = flow.line("a", "has started ").await.parse().unwrap();
    let b: u32 = flow.line("b", "has started ").await.parse().unwrap();
    gone(a).await;
    gone(b).await;
    // The channel ends with the last process.
    flow.rest().await;
}

#[tokio::test]
async fn a_missing_program_is_named() {
    let mut plan = plan("", &["name: a"]);
    plan.nodes[0].run = uses("ecco", plan.nodes[0].run.clone());
    let mut flow = Flow::launch(launch(plan));
    let error = within(flow.running.started()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot start `a` as `ecco` (no such program is on PATH; the built-in executors are `echo`)"
    );
}

fn uses(name: &str, run: flow_spec::Run) -> flow_spec::Run {
    let flow_spec::Run::Local(mut local) = run else {
        panic!("the flow starts it")
    };
    local.uses = flow_spec::Uses::Named(name.to_owned());
    flow_spec::Run::Local(local)
}

#[tokio::test]
async fn a_port_in_use_is_an_error_before_any_process_starts() {
    let taken = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let top = format!("with: {{port: {port}}}");
    let mut flow = Flow::launch(launch(plan(&top, &["name: a"])));

    let error = within(flow.running.started()).await.unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains(&format!("`127.0.0.1:{port}`")), "{cause}");
    assert!(flow.rest().await.is_empty());
}

#[tokio::test]
async fn an_event_reports_each_process_that_is_ready() {
    let (mut flow, _) = Flow::serving(&["name: a"]).await;
    let mut ready = Vec::new();
    while ready.len() < 2 {
        if let Some(FlowEvent::Ready(member)) = within(flow.events.recv()).await {
            ready.push(member.name.to_string());
        }
    }
    assert_eq!(ready, ["a", "gateway"]);
}
