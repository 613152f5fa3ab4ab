//! Lines of processes never make them wait.

use flow_launch::FlowEvent;

use crate::harness::{Flow, gone, within};

#[tokio::test]
async fn a_process_goes_on_when_its_lines_are_never_read() {
    let folder = tempfile::tempdir().unwrap();
    let flooded = folder.path().join("flooded");
    let env = format!("{{PLAY: floods, FLOOD_DONE: '{}'}}", flooded.display());
    let (mut flow, started) = Flow::serving(&[&format!("name: a, env: {env}")]).await;
    let written = async {
        while !flooded.exists() {
            tokio::task::yield_now().await;
        }
    };
    within(written).await;

    let mut dropped = 0;
    while dropped == 0 {
        if let FlowEvent::Dropped(lines) = within(flow.events.recv()).await.unwrap() {
            assert_eq!(&*lines.name, "a");
            dropped = lines.count;
        }
    }
    assert!(dropped > 10_000, "{dropped}");
    flow.stop().await.unwrap();
    gone(started.executors[0].pid).await;
}
