//! More requests than the limit allows, and clients that do not read.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use flow_core::Code;
use flow_net::PostOptions;
use flow_spec::Plan;
use futures_util::{StreamExt, stream};
use tokio::sync::Semaphore;

use crate::fake_executor::{FakeExecutor, ids};
use crate::test_gateway::{TestGateway, placement, plan, request};
use crate::topology::tonic_client;

fn limited(max: usize) -> Plan {
    let mut plan = plan(&["node"]);
    plan.gateway.in_flight_max = NonZeroUsize::new(max).unwrap();
    plan
}

#[tokio::test]
async fn a_call_beyond_the_limit_is_refused_with_a_time_for_the_next_try() {
    let gate = Arc::new(Semaphore::new(0));
    let node = FakeExecutor::gated(gate.clone()).await;
    let gateway = TestGateway::start(placement(limited(1), &[&node])).await;
    let first = gateway.single(request("/x", &["1"]));
    let second = async {
        node.was_called(1).await;
        let mut client = tonic_client(&gateway).await;
        let refused = client.process_single_data(request("/x", &["2"])).await;
        let status = refused.unwrap_err();
        gate.add_permits(1);
        status
    };
    let (reply, status) = tokio::join!(first, second);
    assert_eq!(ids(&reply.unwrap()), ["1"]);
    assert_eq!(status.code(), tonic::Code::ResourceExhausted);
    let after = status.metadata().get("grpc-retry-pushback-ms").unwrap();
    assert_eq!(after, "500");
    assert_eq!(
        status.message(),
        "the gateway is busy with 1 requests, its limit (`in_flight_max`); try again in 500 ms, or \
         send on a stream, which waits"
    );
    gate.add_permits(1);
    let reply = gateway.single(request("/x", &["3"])).await;
    assert_eq!(ids(&reply.unwrap()), ["3"]);
}

#[tokio::test]
async fn a_stream_waits_for_permits_and_loses_nothing() {
    let gate = Arc::new(Semaphore::new(0));
    let node = FakeExecutor::gated(gate.clone()).await;
    let gateway = TestGateway::start(placement(limited(2), &[&node])).await;
    let requests: Vec<_> = (0..20)
        .map(|id| request("/x", &[&id.to_string()]))
        .collect();
    let (one, two) = (gateway.post(requests.clone()), gateway.post(requests));
    let release = async {
        node.was_called(2).await;
        assert_eq!(node.calls().len(), 2, "no more than the limit allows");
        gate.add_permits(40);
    };
    let (one, two, ()) = tokio::join!(one, two, release);
    assert_eq!((one.len(), two.len()), (20, 20));
    gate.add_permits(1);
    let reply = gateway.single(request("/x", &["1"])).await;
    assert!(reply.is_ok(), "all permits are available again: {reply:?}");
}

#[tokio::test]
async fn a_client_that_never_reads_slows_only_itself() {
    let echo = FakeExecutor::echo().await;
    let gateway = TestGateway::start(placement(limited(8), &[&echo])).await;
    // Large enough that unread replies fill every buffer between gateway and client.
    let large = "x".repeat(1 << 20);
    let requests = stream::repeat_with(move || request("/x", &[&large]));
    let options = PostOptions {
        prefetch: Some(64),
        ..PostOptions::default()
    };
    let unread = gateway.client.post(&options, requests).await.unwrap();
    echo.was_called(64).await;

    let other = gateway.reconnect().await;
    for _ in 0..50 {
        let reply = tokio::time::timeout(LIMIT, other.single(request("/x", &["1"]))).await;
        match reply.expect("other clients are not delayed") {
            Ok(_) => {}
            // The large requests may hold all permits at the moment.
            Err(failure) => assert_eq!(failure.code(), Code::Overloaded),
        }
    }
    let replies = tokio::time::timeout(LIMIT, other.post(vec![request("/x", &["1"]); 50])).await;
    assert_eq!(replies.expect("other clients are not delayed").len(), 50);
    drop(unread);
}

/// Much longer than any of these tests takes.
const LIMIT: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_client_that_disconnects_gives_its_permits_back() {
    let gate = Arc::new(Semaphore::new(0));
    let node = FakeExecutor::gated(gate.clone()).await;
    let gateway = TestGateway::start(placement(limited(4), &[&node])).await;
    let requests = stream::iter(vec![request("/x", &["1"]); 4]).chain(stream::pending());
    let replies = gateway.client.post(&PostOptions::default(), requests).await;
    node.was_called(4).await;
    drop(replies);
    gate.add_permits(100);
    // A stream waits for a permit.
    let replies = tokio::time::timeout(LIMIT, gateway.post(vec![request("/x", &["2"])])).await;
    assert_eq!(ids(&replies.unwrap()[0]), ["2"]);
}
