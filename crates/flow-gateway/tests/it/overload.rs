//! More requests than there is room for, and clients that do not read.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use flow_core::Code;
use flow_net::PostOptions;
use flow_spec::Plan;
use futures_util::{StreamExt, stream};
use tokio::sync::Semaphore;

use crate::fake::{Fake, ids};
use crate::house::{House, placed, plan, request};
use crate::topology::tonic_client;

fn with_room(max: usize) -> Plan {
    let mut plan = plan(&["node"]);
    plan.gateway.in_flight_max = NonZeroUsize::new(max).unwrap();
    plan
}

#[tokio::test]
async fn a_call_without_room_is_refused_and_told_when_to_come_again() {
    let gate = Arc::new(Semaphore::new(0));
    let held = Fake::held(gate.clone()).await;
    let house = House::open(placed(with_room(1), &[&held])).await;
    let first = house.single(request("/x", &["1"]));
    let second = async {
        held.was_asked(1).await;
        let mut client = tonic_client(&house).await;
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
    let reply = house.single(request("/x", &["3"])).await;
    assert_eq!(ids(&reply.unwrap()), ["3"]);
}

#[tokio::test]
async fn a_stream_waits_for_room_and_loses_nothing() {
    let gate = Arc::new(Semaphore::new(0));
    let held = Fake::held(gate.clone()).await;
    let house = House::open(placed(with_room(2), &[&held])).await;
    let requests: Vec<_> = (0..20)
        .map(|id| request("/x", &[&id.to_string()]))
        .collect();
    let (one, two) = (house.post(requests.clone()), house.post(requests));
    let release = async {
        held.was_asked(2).await;
        assert_eq!(held.asked().len(), 2, "no more than there is room for");
        gate.add_permits(40);
    };
    let (one, two, ()) = tokio::join!(one, two, release);
    assert_eq!((one.len(), two.len()), (20, 20));
    gate.add_permits(1);
    let reply = house.single(request("/x", &["1"])).await;
    assert!(reply.is_ok(), "all seats are free again: {reply:?}");
}

#[tokio::test]
async fn a_client_that_never_reads_slows_only_itself() {
    let echo = Fake::echo().await;
    let house = House::open(placed(with_room(8), &[&echo])).await;
    // Large enough that unread replies fill every buffer on their way.
    let large = "x".repeat(1 << 20);
    let requests = stream::repeat_with(move || request("/x", &[&large]));
    let options = PostOptions {
        prefetch: Some(64),
        ..PostOptions::default()
    };
    let unread = house.client.post(&options, requests).await.unwrap();
    echo.was_asked(64).await;

    let other = house.reconnect().await;
    for _ in 0..50 {
        let reply = tokio::time::timeout(LIMIT, other.single(request("/x", &["1"]))).await;
        match reply.expect("nobody else is held up") {
            Ok(_) => {}
            // The large ones still take their turns.
            Err(failure) => assert_eq!(failure.code(), Code::Overloaded),
        }
    }
    let replies = tokio::time::timeout(LIMIT, other.post(vec![request("/x", &["1"]); 50])).await;
    assert_eq!(replies.expect("nobody else is held up").len(), 50);
    drop(unread);
}

/// Far longer than anything here takes.
const LIMIT: Duration = Duration::from_secs(20);

#[tokio::test]
async fn whoever_hangs_up_gives_seats_back() {
    let gate = Arc::new(Semaphore::new(0));
    let held = Fake::held(gate.clone()).await;
    let house = House::open(placed(with_room(4), &[&held])).await;
    let requests = stream::iter(vec![request("/x", &["1"]); 4]).chain(stream::pending());
    let replies = house.client.post(&PostOptions::default(), requests).await;
    held.was_asked(4).await;
    drop(replies);
    gate.add_permits(100);
    // A stream waits until there is a seat.
    let replies = tokio::time::timeout(LIMIT, house.post(vec![request("/x", &["2"])])).await;
    assert_eq!(ids(&replies.unwrap()[0]), ["2"]);
}
