//! Restarts of processes of a running flow.

use crate::harness::{Flow, gone, kill, launch, plan, within};

#[tokio::test]
async fn a_killed_executor_is_restarted_on_its_port() {
    let (mut flow, started) = Flow::serving(&["name: a"]).await;
    let before = &started.executors[0];
    assert_eq!(flow.ready("a").await.pid, before.pid);

    kill(before.pid);
    let after = flow.ready("a").await;
    assert_ne!(after.pid, before.pid);
    assert_eq!(after.address, before.address);
}

#[tokio::test]
async fn a_killed_gateway_is_restarted_with_its_port_and_placement() {
    let (mut flow, started) = Flow::serving(&["name: a"]).await;
    let before = &started.gateway;
    let placed = flow.line("gateway", "placement ").await;
    assert_eq!(flow.ready("gateway").await.pid, before.pid);

    kill(before.pid);
    assert_eq!(flow.line("gateway", "placement ").await, placed);
    assert_eq!(flow.ready("gateway").await.address, before.address);
}

#[tokio::test]
async fn child_processes_of_an_executor_end_with_it() {
    let (mut flow, started) = Flow::serving(&["name: a"]).await;
    let grandchild = flow.line("a", "has started ").await.parse().unwrap();
    kill(started.executors[0].pid);
    gone(grandchild).await;
}

#[tokio::test]
async fn an_executor_that_dies_again_and_again_is_always_restarted() {
    let (mut flow, _) = Flow::serving(&["name: a", "name: b, env: {PLAY: dies-later}"]).await;
    for _ in 0..5 {
        flow.ready("b").await;
    }
    flow.stop().await.unwrap();
}

#[tokio::test]
async fn a_gateway_that_dies_again_and_again_is_always_restarted() {
    let plan = plan("gateway: {env: {PLAY: dies-later}}", &["name: a"]);
    let mut flow = Flow::launch(launch(plan));
    within(flow.running.started()).await.unwrap();
    for _ in 0..5 {
        flow.ready("gateway").await;
    }
    flow.stop().await.unwrap();
}
