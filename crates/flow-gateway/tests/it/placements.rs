//! Placements that replace others while requests are in progress.

use std::sync::Arc;

use flow_core::Secret;
use tokio::sync::Semaphore;

use crate::fake_executor::{FakeExecutor, ids};
use crate::test_gateway::{TestGateway, placement, plan, request};

#[tokio::test]
async fn a_request_keeps_its_placement_and_the_next_uses_the_new_one() {
    let gate = Arc::new(Semaphore::new(0));
    let (old, new) = (
        FakeExecutor::gated(gate.clone()).await,
        FakeExecutor::echo().await,
    );
    let gateway = TestGateway::start(placement(plan(&["node"]), &[&old])).await;
    let in_progress = gateway.post(vec![request("/x", &["1"])]);
    let switched = async {
        old.was_called(1).await;
        let placed = gateway
            .placements
            .place(placement(plan(&["node"]), &[&new]))
            .unwrap();
        let mut everywhere = std::pin::pin!(placed.everywhere());
        assert!(is_pending(everywhere.as_mut()).await);

        let reply = gateway.single(request("/x", &["2"])).await.unwrap();
        assert_eq!((ids(&reply), old.calls().len()), (vec!["2".to_owned()], 1));
        assert!(is_pending(everywhere.as_mut()).await);

        gate.add_permits(1);
        everywhere.await;
    };
    let (replies, ()) = tokio::join!(in_progress, switched);
    assert_eq!(ids(&replies[0]), ["1"]);
}

async fn is_pending(future: std::pin::Pin<&mut impl Future>) -> bool {
    futures_util::FutureExt::now_or_never(future).is_none()
}

#[tokio::test]
async fn a_floating_node_keeps_the_placement_of_its_request() {
    let gate = Arc::new(Semaphore::new(0));
    let (echo, aside) = (
        FakeExecutor::echo().await,
        FakeExecutor::gated(gate.clone()).await,
    );
    let flow = || plan(&["echo", "aside, floating: true"]);
    let gateway = TestGateway::start(placement(flow(), &[&echo, &aside])).await;
    gateway.single(request("/x", &["1"])).await.unwrap();
    let placed = gateway
        .placements
        .place(placement(flow(), &[&echo, &echo]))
        .unwrap();
    let mut everywhere = std::pin::pin!(placed.everywhere());
    assert!(is_pending(everywhere.as_mut()).await);
    gate.add_permits(1);
    everywhere.await;
}

#[tokio::test]
async fn a_floating_node_behind_another_gets_the_whole_request_after_the_reply() {
    let gate = Arc::new(Semaphore::new(0));
    let (echo, first) = (
        FakeExecutor::echo().await,
        FakeExecutor::gated(gate.clone()).await,
    );
    let second = FakeExecutor::echo().await;
    let flow = plan(&["echo", "f, floating: true", "g, floating: true, needs: f"]);
    let gateway = TestGateway::start(placement(flow, &[&echo, &first, &second])).await;
    let reply = gateway.single(request("/x", &["1"])).await.unwrap();
    gate.add_permits(1);
    second.was_called(1).await;
    let part = second.calls().remove(0).parts.remove(0);
    let header = part.header.unwrap();
    assert_eq!(header.exec_endpoint.as_deref(), Some("/x"));
    assert_eq!(header.request_id, reply.header.unwrap().request_id);
}

#[tokio::test]
async fn placements_without_requests_end_at_once() {
    let (a, b) = (FakeExecutor::echo().await, FakeExecutor::echo().await);
    let gateway = TestGateway::start(placement(plan(&["node"]), &[&a])).await;
    for fake in [&b, &a, &b] {
        let placed = gateway
            .placements
            .place(placement(plan(&["node"]), &[fake]))
            .unwrap();
        placed.everywhere().await;
        let before = fake.calls().len();
        gateway.single(request("/x", &["1"])).await.unwrap();
        assert_eq!(fake.calls().len(), before + 1);
    }
}

#[tokio::test]
async fn an_open_stream_uses_new_placements() {
    let (a, b) = (FakeExecutor::echo().await, FakeExecutor::echo().await);
    let gateway = TestGateway::start(placement(plan(&["node"]), &[&a])).await;
    let (send, requests) = tokio::sync::mpsc::channel(1);
    let requests = tokio_stream::wrappers::ReceiverStream::new(requests);
    let options = flow_net::PostOptions::default();
    let replies = gateway.client.post(&options, requests);
    let mut replies = replies.await.unwrap();
    let mut ask = async |id: &str| {
        send.send(request("/x", &[id])).await.unwrap();
        futures_util::StreamExt::next(&mut replies)
            .await
            .unwrap()
            .unwrap()
    };
    ask("1").await;
    let placed = gateway
        .placements
        .place(placement(plan(&["node"]), &[&b]))
        .unwrap();
    placed.everywhere().await;
    ask("2").await;
    assert_eq!((a.calls().len(), b.calls().len()), (1, 1));
}

#[tokio::test]
async fn a_placement_that_cannot_be_used_changes_nothing() {
    let echo = FakeExecutor::echo().await;
    let gateway = TestGateway::start(placement(plan(&["node"]), &[&echo])).await;
    let mut bad = plan(&["node"]);
    bad.nodes[0].calls.metadata = Secret::new(vec![("No".to_owned(), "\n".to_owned())]);
    assert!(gateway.placements.place(placement(bad, &[&echo])).is_err());
    gateway.single(request("/x", &["1"])).await.unwrap();
}
