//! Which replicas get a request: slow ones get fewer, and a second one gets it while the first does not answer.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use flow_core::{Code, Deadline};
use flow_spec::{Hedge, NodeAddresses};
use tokio::sync::mpsc;

use crate::fake_executor::{FakeExecutor, first, ids};
use crate::monitoring::scrape;
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

/// An executor that takes 100 ms for a number of calls, and then answers at once, except for these calls, counted from 0: it never
/// answers them, and notes when one is cancelled.
async fn stalling(
    slow: usize,
    stalls: &'static [usize],
    cancelled: mpsc::Sender<()>,
) -> FakeExecutor {
    let count = AtomicUsize::new(0);
    FakeExecutor::start(move |call| {
        let number = count.fetch_add(1, Ordering::Relaxed);
        let cancelled = cancelled.clone();
        async move {
            if stalls.contains(&number) {
                let _at_the_end = AtTheEnd(cancelled);
                std::future::pending::<()>().await;
            }
            if number < slow {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            Ok(first(call))
        }
    })
    .await
}

struct AtTheEnd(mpsc::Sender<()>);

impl Drop for AtTheEnd {
    fn drop(&mut self) {
        // The test may have ended.
        self.0.try_send(()).ok();
    }
}

/// Hedged requests, and those whose hedge was answered first.
async fn hedges(gateway: &TestGateway) -> (f64, f64) {
    let numbers = scrape(gateway.metrics).await;
    let number = |name| numbers[&format!("flow_node_{name}_total{{node=\"node\"}}")];
    (number("hedges"), number("hedges_won"))
}

async fn hedging(replicas: &[&FakeExecutor], hedge: Hedge) -> TestGateway {
    let mut plan = plan(&["node"]);
    plan.nodes[0].calls.idempotent = true;
    plan.nodes[0].calls.hedge = Some(hedge);
    let replicas = replicas.iter().map(|it| address(it)).collect();
    TestGateway::start(placement_at(plan, &[NodeAddresses::replicas(replicas)])).await
}

#[tokio::test]
async fn a_request_that_a_replica_does_not_answer_is_answered_by_another_and_cancelled() {
    let (sender, mut cancelled) = mpsc::channel(8);
    let stalls = stalling(0, &[10, 20], sender).await;
    let other = FakeExecutor::echo().await;
    let after = Hedge::After(Duration::from_millis(100));
    let gateway = hedging(&[&stalls, &other], after).await;
    send(&gateway, 60).await;
    cancelled.recv().await.unwrap();
    cancelled.recv().await.unwrap();
    let (hedges, won) = hedges(&gateway).await;
    // A pause of the machine may hedge a call, too.
    assert!(hedges >= won && won >= 2.0, "{won} of {hedges}");
}

#[tokio::test]
async fn a_percentage_of_calls_decides_after_what_time_a_request_is_hedged() {
    let (sender, mut cancelled) = mpsc::channel(8);
    let stalls = stalling(10, &[13], sender.clone()).await;
    let other = stalling(10, &[], sender).await;
    let percent = Hedge::Percentile(95.try_into().unwrap());
    let gateway = hedging(&[&stalls, &other], percent).await;
    // Twenty requests show how long calls take. Without a hedge, one of the others would never be answered.
    send(&gateway, 36).await;
    cancelled.recv().await.unwrap();
}

#[tokio::test]
async fn at_most_one_request_in_twenty_is_hedged_when_all_replicas_are_slow() {
    let delay = Duration::from_millis(20);
    let (one, other) = tokio::join!(delayed(delay), delayed(delay));
    let gateway = hedging(&[&one, &other], Hedge::After(Duration::from_millis(1))).await;
    send(&gateway, 60).await;
    // One to begin with, and one for every twenty.
    assert_eq!(hedges(&gateway).await.0, 4.0);
}

#[tokio::test]
async fn a_hedged_request_ends_at_its_deadline() {
    let (sender, _cancelled) = mpsc::channel(8);
    let all = &[0, 1, 2, 3];
    let one = stalling(0, all, sender.clone()).await;
    let other = stalling(0, all, sender).await;
    let after = Hedge::After(Duration::from_millis(10));
    let gateway = hedging(&[&one, &other], after).await;
    let deadline = Deadline::after(Instant::now(), Some(Duration::from_millis(300)));
    let failure = gateway.client.single(request("/x", &["1"]), deadline).await;
    assert_eq!(failure.unwrap_err().code(), Code::DeadlineExceeded);
    assert_eq!(one.calls().len() + other.calls().len(), 2);
}
