//! What happens when a process of a running flow dies.

use flow_launch::Failed;

use crate::harness::{Flow, gone, kill, launch, plan, within};

#[tokio::test]
async fn a_killed_executor_is_started_again_on_its_old_port() {
    let (mut flow, started) = Flow::serving(&["name: a"]).await;
    let before = &started.executors[0];
    assert_eq!(flow.ready("a").await.pid, before.pid);

    kill(before.pid);
    let after = flow.ready("a").await;
    assert_ne!(after.pid, before.pid);
    assert_eq!(after.address, before.address);
}

#[tokio::test]
async fn a_killed_gateway_gets_its_port_and_its_placement_again() {
    let (mut flow, started) = Flow::serving(&["name: a"]).await;
    let before = &started.gateway;
    let placed = flow.line("gateway", "placement ").await;
    assert_eq!(flow.ready("gateway").await.pid, before.pid);

    kill(before.pid);
    assert_eq!(flow.line("gateway", "placement ").await, placed);
    assert_eq!(flow.ready("gateway").await.address, before.address);
}

#[tokio::test]
async fn what_a_process_started_ends_with_it() {
    let (mut flow, started) = Flow::serving(&["name: a"]).await;
    let grandchild = flow.line("a", "has started ").await.parse().unwrap();
    kill(started.executors[0].pid);
    gone(grandchild).await;
}

#[tokio::test]
async fn a_flow_goes_on_without_an_executor_that_is_given_up() {
    let (mut flow, _) = Flow::serving(&["name: a", "name: b, env: {PLAY: dies-later}"]).await;
    // Its first life, and as many restarts as it may have.
    for _ in 0..3 {
        flow.ready("b").await;
    }
    flow.stop().await.unwrap();
}

#[tokio::test]
async fn a_flow_whose_gateway_is_given_up_ends() {
    let plan = plan("gateway: {env: {PLAY: dies-later}}", &["name: a"]);
    let mut flow = Flow::launch(launch(plan));
    let started = within(flow.running.started()).await.unwrap();
    let ended = within(flow.running.ended()).await;
    assert!(matches!(ended, Err(Failed::GivenUp)), "{ended:?}");
    gone(started.executors[0].pid).await;
}
