//! Placements that take the place of others while requests are under way.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::fake::{Fake, ids};
use crate::house::{House, placed, plan, request};

#[tokio::test]
async fn a_request_ends_where_it_began_and_the_next_begins_at_the_new_place() {
    let gate = Arc::new(Semaphore::new(0));
    let (old, new) = (Fake::held(gate.clone()).await, Fake::echo().await);
    let house = House::open(placed(plan(&["node"]), &[&old])).await;
    let under_way = house.post(vec![request("/x", &["1"])]);
    let switched = async {
        old.was_asked(1).await;
        let placed = house
            .placements
            .place(placed(plan(&["node"]), &[&new]))
            .unwrap();
        let mut everywhere = std::pin::pin!(placed.everywhere());
        assert!(is_pending(everywhere.as_mut()).await);

        let reply = house.single(request("/x", &["2"])).await.unwrap();
        assert_eq!((ids(&reply), old.asked().len()), (vec!["2".to_owned()], 1));
        assert!(is_pending(everywhere.as_mut()).await);

        gate.add_permits(1);
        everywhere.await;
    };
    let (replies, ()) = tokio::join!(under_way, switched);
    assert_eq!(ids(&replies[0]), ["1"]);
}

async fn is_pending(future: std::pin::Pin<&mut impl Future>) -> bool {
    futures_util::FutureExt::now_or_never(future).is_none()
}

#[tokio::test]
async fn a_floating_node_keeps_the_placement_that_its_request_began_with() {
    let gate = Arc::new(Semaphore::new(0));
    let (echo, aside) = (Fake::echo().await, Fake::held(gate.clone()).await);
    let flow = || plan(&["echo", "aside, floating: true"]);
    let house = House::open(placed(flow(), &[&echo, &aside])).await;
    house.single(request("/x", &["1"])).await.unwrap();
    let placed = house
        .placements
        .place(placed(flow(), &[&echo, &echo]))
        .unwrap();
    let mut everywhere = std::pin::pin!(placed.everywhere());
    assert!(is_pending(everywhere.as_mut()).await);
    gate.add_permits(1);
    everywhere.await;
}

#[tokio::test]
async fn a_floating_node_behind_another_gets_the_whole_request_after_the_reply() {
    let gate = Arc::new(Semaphore::new(0));
    let (echo, first) = (Fake::echo().await, Fake::held(gate.clone()).await);
    let second = Fake::echo().await;
    let flow = plan(&["echo", "f, floating: true", "g, floating: true, needs: f"]);
    let house = House::open(placed(flow, &[&echo, &first, &second])).await;
    let reply = house.single(request("/x", &["1"])).await.unwrap();
    gate.add_permits(1);
    second.was_asked(1).await;
    let asked = second.asked().remove(0).parts.remove(0);
    let header = asked.header.unwrap();
    assert_eq!(header.exec_endpoint.as_deref(), Some("/x"));
    assert_eq!(header.request_id, reply.header.unwrap().request_id);
}

#[tokio::test]
async fn placements_without_requests_follow_each_other_at_once() {
    let (a, b) = (Fake::echo().await, Fake::echo().await);
    let house = House::open(placed(plan(&["node"]), &[&a])).await;
    for fake in [&b, &a, &b] {
        let placed = house
            .placements
            .place(placed(plan(&["node"]), &[fake]))
            .unwrap();
        placed.everywhere().await;
        let before = fake.asked().len();
        house.single(request("/x", &["1"])).await.unwrap();
        assert_eq!(fake.asked().len(), before + 1);
    }
}

#[tokio::test]
async fn an_open_stream_follows_the_placements_too() {
    let (a, b) = (Fake::echo().await, Fake::echo().await);
    let house = House::open(placed(plan(&["node"]), &[&a])).await;
    let (send, requests) = tokio::sync::mpsc::channel(1);
    let requests = tokio_stream::wrappers::ReceiverStream::new(requests);
    let options = flow_net::PostOptions::default();
    let replies = house.client.post(&options, requests);
    let mut replies = replies.await.unwrap();
    let mut ask = async |id: &str| {
        send.send(request("/x", &[id])).await.unwrap();
        futures_util::StreamExt::next(&mut replies)
            .await
            .unwrap()
            .unwrap()
    };
    ask("1").await;
    let placed = house
        .placements
        .place(placed(plan(&["node"]), &[&b]))
        .unwrap();
    placed.everywhere().await;
    ask("2").await;
    assert_eq!((a.asked().len(), b.asked().len()), (1, 1));
}

#[tokio::test]
async fn a_placement_that_cannot_be_used_changes_nothing() {
    let echo = Fake::echo().await;
    let house = House::open(placed(plan(&["node"]), &[&echo])).await;
    let mut bad = plan(&["node"]);
    bad.nodes[0]
        .calls
        .metadata
        .push(("No".to_owned(), "\n".to_owned()));
    assert!(house.placements.place(placed(bad, &[&echo])).is_err());
    house.single(request("/x", &["1"])).await.unwrap();
}
