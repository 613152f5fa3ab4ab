//! Further tries: how many, when, and at whom.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use flow_spec::Places;
use tonic::Status;

use crate::fake::{Fake, first, ids};
use crate::house::{House, at, placed, placed_at, plan, request, wrong};

#[tokio::test]
async fn a_sick_executor_gets_a_fifth_more_calls_and_a_few() {
    let sick = Fake::failing(Status::unavailable("try again")).await;
    let house = House::open(placed(plan(&["node"]), &[&sick])).await;
    let began = Instant::now();
    let replies = house.post(vec![request("/x", &["1"]); 200]).await;
    assert!(replies.iter().all(|it| wrong(it).contains("try again")));
    let calls = sick.asked().len() as u64;
    // A fifth, ten to begin with, and ten for each second that all this took.
    let most = 200 + 40 + 10 + 10 * (1 + began.elapsed().as_secs());
    assert!((240..=most).contains(&calls), "{calls} calls, not {most}");
}

#[tokio::test]
async fn a_replica_that_is_busy_is_asked_when_it_says() {
    let calls = Arc::new(AtomicUsize::new(0));
    let busy = Fake::start(move |asked| {
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
                Ok(first(asked))
            }
        }
    })
    .await;
    let house = House::open(placed(plan(&["node"]), &[&busy])).await;
    let began = Instant::now();
    let reply = house.single(request("/x", &["1"])).await.unwrap();
    assert_eq!(ids(&reply), ["1"]);
    assert!(began.elapsed() >= Duration::from_millis(150));
    assert_eq!(busy.asked().len(), 2);
}

#[tokio::test]
async fn a_replica_that_is_gone_loses_no_request() {
    let (gone, alive) = (Fake::echo().await, Fake::echo().await);
    let places = Places::replicas(vec![at(&gone), at(&alive)]);
    let house = House::open(placed_at(plan(&["node"]), &[places])).await;
    drop(gone);
    for reply in house.post(vec![request("/x", &["1"]); 200]).await {
        assert_eq!(
            (ids(&reply), wrong(&reply)),
            (vec!["1".to_owned()], String::new())
        );
    }
}
