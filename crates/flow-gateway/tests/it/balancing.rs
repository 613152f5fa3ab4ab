//! Which replica gets a request: slow ones get fewer.

use std::time::{Duration, Instant};

use flow_core::Deadline;
use flow_spec::NodeAddresses;

use crate::fake_executor::{FakeExecutor, first, ids};
use crate::test_gateway::{TestGateway, address, placement_at, plan, request};

/// An executor that takes this long for each call.
async fn delayed(by: Duration) -> FakeExecutor {
    FakeExecutor::start(move |call| async move {
        tokio::time::sleep(by).await;
        Ok(first(call))
    })
    .await
}

async fn gateway(replicas: &[&FakeExecutor]) -> TestGateway {
    let replicas = replicas.iter().map(|it| address(it)).collect();
    let places = NodeAddresses::replicas(replicas);
    TestGateway::start(placement_at(plan(&["node"]), &[places])).await
}

/// Sends requests one after the other.
async fn send(gateway: &TestGateway, times: usize) {
    for _ in 0..times {
        let reply = gateway
            .client
            .single(request("/x", &["1"]), Deadline::NEVER);
        assert_eq!(ids(&reply.await.unwrap()), ["1"]);
    }
}

#[tokio::test]
async fn a_replica_that_is_much_slower_than_the_others_gets_few_requests() {
    let quick = delayed(Duration::from_millis(2)).await;
    let slow = delayed(Duration::from_millis(200)).await;
    let gateway = gateway(&[&quick, &slow]).await;
    send(&gateway, 10).await;
    let before = slow.calls().len();
    assert!(
        (4..=6).contains(&before),
        "{before} calls until it is known"
    );
    let began = Instant::now();
    send(&gateway, 200).await;
    // One in two seconds, which show whether it has recovered.
    let most = 1 + began.elapsed().as_secs() / 2;
    let after = slow.calls().len() - before;
    assert!(after as u64 <= most, "{after} of 200 calls");
    assert_eq!(quick.calls().len() + slow.calls().len(), 210);
}

#[tokio::test]
async fn replicas_of_the_same_pace_share_equally() {
    let (one, other) = tokio::join!(
        delayed(Duration::from_millis(10)),
        delayed(Duration::from_millis(10))
    );
    let gateway = gateway(&[&one, &other]).await;
    send(&gateway, 50).await;
    let (one, other) = (one.calls().len(), other.calls().len());
    assert!(one.abs_diff(other) <= 6, "{one} and {other}");
}
