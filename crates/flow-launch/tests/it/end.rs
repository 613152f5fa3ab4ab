//! Shutdown: in order, in time, and without a process left behind.

use std::fs;

use flow_launch::{LaunchError, StartedFlow};

use crate::harness::{Flow, gone, launch, lives, plan, within};

fn pids(started: &StartedFlow) -> Vec<u32> {
    let executors = started.executors.iter().map(|it| it.pid);
    executors.chain([started.gateway.pid]).collect()
}

#[tokio::test]
async fn the_gateway_drains_before_the_executors_do() {
    let (flow, _) = Flow::serving(&["name: a", "name: b"]).await;
    flow.running.stop();
    let mut drained = flow.rest().await;
    drained.retain(|it| it.ends_with(": drained"));
    assert_eq!(drained[0], "gateway: drained");
    drained.sort();
    assert_eq!(drained, ["a: drained", "b: drained", "gateway: drained"]);
}

#[tokio::test]
async fn a_stopped_flow_leaves_no_process() {
    let (flow, started) = Flow::serving(&["name: a", "name: b, replicas: 2"]).await;
    flow.stop().await.unwrap();
    assert!(!pids(&started).into_iter().any(lives));
}

#[tokio::test]
async fn a_process_that_does_not_exit_within_the_grace_period_is_killed() {
    let (flow, started) = Flow::serving(&["name: a, env: {PLAY: stubborn}"]).await;
    flow.stop().await.unwrap();
    assert!(!pids(&started).into_iter().any(lives));
}

#[tokio::test]
async fn a_kill_does_not_wait_for_the_grace_period() {
    let mut launch = launch(plan("", &["name: a, env: {PLAY: stubborn}"]));
    launch.grace = std::time::Duration::from_secs(3_600);
    let mut flow = Flow::launch(launch);
    let started = within(flow.running.started()).await.unwrap();

    flow.running.stop();
    flow.line("gateway", "drained").await;
    flow.running.kill();
    within(flow.running.ended()).await.unwrap();
    assert!(!pids(&started).into_iter().any(lives));
}

#[tokio::test]
async fn a_flow_can_be_stopped_before_it_is_ready() {
    let mut flow = Flow::launch(launch(plan("", &["name: a, env: {PLAY: silent}"])));
    let grandchild = flow.line("a", "has started ").await.parse().unwrap();
    flow.running.stop();
    let failed = within(flow.running.started()).await.unwrap_err();
    assert!(matches!(failed, LaunchError::Stopped), "{failed}");
    gone(grandchild).await;
}

#[tokio::test]
async fn a_dropped_flow_leaves_no_process() {
    let (flow, started) = Flow::serving(&["name: a, env: {PLAY: stubborn}"]).await;
    drop(flow);
    assert!(!pids(&started).into_iter().any(lives));
}

#[tokio::test]
async fn children_are_started_from_a_thread_that_lives_as_long_as_the_flow() {
    let (_flow, started) = Flow::serving(&["name: a"]).await;
    for pid in pids(&started) {
        assert_eq!(parent_thread(pid).as_deref(), Some("supervisor\n"));
    }
}

/// The name of the thread of this process that started a child.
fn parent_thread(pid: u32) -> Option<String> {
    let tasks = fs::read_dir("/proc/self/task").unwrap().flatten();
    let read = |task: &fs::DirEntry, file| fs::read_to_string(task.path().join(file));
    let is_its_child = |task: &fs::DirEntry| {
        let children = read(task, "children").unwrap_or_default();
        children.split_whitespace().any(|it| it == pid.to_string())
    };
    let mut found = tasks.filter(is_its_child);
    read(&found.next()?, "comm").ok()
}
