use std::time::Duration;

use flow_net::Drain;
use futures_util::stream;
use tokio::sync::Semaphore;

use super::*;
use crate::tests::in_memory::{InMemory, flow, ids, limited, plan, request};

fn options(window: usize, in_order: bool) -> StreamOptions {
    StreamOptions {
        window: NonZeroUsize::new(window).unwrap(),
        in_order,
        call: CallOptions::default(),
        budget: None,
        identity: None,
    }
}

fn requests(count: usize) -> Vec<StreamItem> {
    (0..count)
        .map(|id| Ok(request("/x", &[&id.to_string()])))
        .collect()
}

fn first_id(reply: StreamItem) -> String {
    ids(&reply.unwrap()).remove(0)
}

fn draining() -> Draining {
    Drain::new(Duration::ZERO).watch()
}

/// Lets all tasks run until none can continue.
async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

/// A node that answers the requests in the opposite order, once `count` of them are there.
fn reversing(count: usize) -> InMemory {
    let gates: Vec<_> = (0..=count).map(|_| Arc::new(Semaphore::new(0))).collect();
    gates[count].add_permits(1);
    InMemory::new(move |request: Envelope| {
        let id: usize = ids(&request)[0].parse().unwrap();
        let (own, next) = (gates[id + 1].clone(), gates[id].clone());
        async move {
            own.acquire().await.unwrap().forget();
            next.add_permits(1);
            Ok(request)
        }
    })
}

#[tokio::test]
async fn replies_leave_as_they_finish_or_in_the_order_of_the_requests() {
    for (in_order, expected) in [(false, ["2", "1", "0"]), (true, ["0", "1", "2"])] {
        let snapshots = flow(plan(&["a"]), &[&reversing(3)]);
        let sent = stream::iter(requests(3));
        let replies = replies(&snapshots, sent, options(3, in_order), draining());
        let order: Vec<String> = replies.map(first_id).collect().await;
        assert_eq!(order, expected);
    }
}

#[tokio::test]
async fn no_more_requests_than_the_window_are_in_progress() {
    let gate = Arc::new(Semaphore::new(0));
    let node = InMemory::gated(gate.clone());
    let snapshots = flow(plan(&["a"]), &[&node]);
    let sent = stream::iter(requests(10));
    let replies = replies(&snapshots, sent, options(4, false), draining());
    settle().await;
    assert_eq!(node.calls().len(), 4);
    gate.add_permits(10);
    assert_eq!(replies.count().await, 10);
}

#[tokio::test]
async fn a_request_waits_for_a_permit_and_none_is_lost() {
    let gate = Arc::new(Semaphore::new(0));
    let node = InMemory::gated(gate.clone());
    let snapshots = flow(limited(plan(&["a"]), 2), &[&node]);
    let sent = stream::iter(requests(10));
    let replies = replies(&snapshots, sent, options(8, true), draining());
    settle().await;
    assert_eq!(node.calls().len(), 2);
    gate.add_permits(10);
    let order: Vec<String> = replies.map(first_id).collect().await;
    let expected: Vec<String> = (0..10).map(|id| id.to_string()).collect();
    assert_eq!(order, expected);
    let limit = snapshots.newest().limit.clone();
    assert!(limit.try_acquire().is_some() && limit.try_acquire().is_some());
}

#[tokio::test]
async fn a_drain_answers_the_requests_that_were_read_and_then_ends_the_stream() {
    let gate = Arc::new(Semaphore::new(0));
    let node = InMemory::gated(gate.clone());
    let snapshots = flow(plan(&["a"]), &[&node]);
    let drain = Drain::new(Duration::ZERO);
    let sent = stream::iter(requests(2)).chain(stream::pending());
    let replies = replies(&snapshots, sent, options(8, false), drain.watch());
    settle().await;
    drain.begin();
    settle().await;
    gate.add_permits(2);
    let items: Vec<StreamItem> = replies.collect().await;
    assert_eq!(items.len(), 3);
    assert!(items[..2].iter().all(Result::is_ok));
    assert_eq!(items[2].as_ref().unwrap_err().code(), Code::Unavailable);
}

#[tokio::test]
async fn a_failure_of_the_client_ends_the_stream_after_the_replies() {
    let snapshots = flow(plan(&["a"]), &[&InMemory::echo()]);
    let mut sent = requests(2);
    sent.push(Err(Failure::new(Code::Cancelled, "gone")));
    let replies = replies(
        &snapshots,
        stream::iter(sent),
        options(8, false),
        draining(),
    );
    let items: Vec<StreamItem> = replies.collect().await;
    let failed: Vec<bool> = items.iter().map(Result::is_err).collect();
    assert_eq!(failed, [false, false, true]);
}

#[tokio::test]
async fn dropping_the_replies_gives_the_permits_back() {
    let gate = Arc::new(Semaphore::new(0));
    let node = InMemory::gated(gate.clone());
    let snapshots = flow(limited(plan(&["a"]), 2), &[&node]);
    let sent = stream::iter(requests(2)).chain(stream::pending());
    let replies = replies(&snapshots, sent, options(8, false), draining());
    settle().await;
    let limit = snapshots.newest().limit.clone();
    assert!(limit.try_acquire().is_none());
    drop(replies);
    settle().await;
    assert!(limit.try_acquire().is_some());
}
