//! Retries: how many, when, and on which replica.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use flow_spec::NodeAddresses;
use tonic::Status;

use crate::fake_executor::{FakeExecutor, did_not_run, first, ids};
use crate::test_gateway::{TestGateway, address, error, placement, placement_at, plan, request};

#[tokio::test]
async fn a_failing_executor_gets_a_fifth_more_calls_and_a_few() {
    let sick = FakeExecutor::failing(did_not_run("try again")).await;
    let gateway = TestGateway::start(placement(plan(&["node"]), &[&sick])).await;
    let began = Instant::now();
    let replies = gateway.post(vec![request("/x", &["1"]); 200]).await;
    assert!(replies.iter().all(|it| error(it).contains("try again")));
    let calls = sick.calls().len() as u64;
    // A fifth, ten to begin with, and ten for each second that the test took.
    let most = 200 + 40 + 10 + 10 * (1 + began.elapsed().as_secs());
    assert!((240..=most).contains(&calls), "{calls} calls, not {most}");
}

#[tokio::test]
async fn a_busy_replica_is_called_again_at_the_time_that_it_names() {
    let calls = Arc::new(AtomicUsize::new(0));
    let busy = FakeExecutor::start(move |call| {
        let is_first = calls.fetch_add(1, Ordering::Relaxed) == 0;
        async move {
            let mut status = Status::resource_exhausted("full");
            let after = "150".parse().unwrap();
            status
                .metadata_mut()
                .insert("grpc-retry-pushback-ms", after);
            if is_first {
                Err(status)
            } else {
                Ok(first(call))
            }
        }
    })
    .await;
    let gateway = TestGateway::start(placement(plan(&["node"]), &[&busy])).await;
    let began = Instant::now();
    let reply = gateway.single(request("/x", &["1"])).await.unwrap();
    assert_eq!(ids(&reply), ["1"]);
    assert!(began.elapsed() >= Duration::from_millis(150));
    assert_eq!(busy.calls().len(), 2);
}

#[tokio::test]
async fn a_replica_that_disappears_loses_no_request() {
    let (gone, alive) = (FakeExecutor::echo().await, FakeExecutor::echo().await);
    let places = NodeAddresses::replicas(vec![address(&gone), address(&alive)]);
    let gateway = TestGateway::start(placement_at(plan(&["node"]), &[places])).await;
    drop(gone);
    for reply in gateway.post(vec![request("/x", &["1"]); 200]).await {
        assert_eq!(
            (ids(&reply), error(&reply)),
            (vec!["1".to_owned()], String::new())
        );
    }
}
