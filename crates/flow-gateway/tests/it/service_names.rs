//! Replicas that the SRV records of a service lead to, asked for at a real name server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use flow_spec::{Address, NodeAddresses, ServiceAddress};
use futures_util::future::join_all;
use tokio::sync::Semaphore;

use crate::fake_executor::{FakeExecutor, ids};
use crate::monitoring::scrape;
use crate::name_server::{AnswerMode, NameServer, Zone};
use crate::test_gateway::{TestGateway, error, placement_at, plan, request};

/// How long answers of the test's name server are valid, and time for the lookup and the connection.
const SOON: Duration = Duration::from_secs(3);

/// Requests in progress when there are many.
const CLIENTS: usize = 8;

/// A gateway whose only node is the service that the name server knows.
async fn gateway(names: &NameServer) -> TestGateway {
    let service = format!("{}/_grpc._tcp.node.test.", names.address);
    let service = ServiceAddress::parse(&service).unwrap();
    let places = NodeAddresses::replicas(vec![Address::Service(service)]);
    TestGateway::start(placement_at(plan(&["node"]), &[places])).await
}

/// Records of the same priority and weight.
fn equal(of: &[&FakeExecutor]) -> Zone {
    let records: Vec<_> = of.iter().map(|it| (0, 0, it.address)).collect();
    Zone::of_ports(&records)
}

async fn send(gateway: &TestGateway, times: usize) {
    for _ in 0..times {
        let reply = gateway.single(request("/x", &["1"])).await.unwrap();
        assert_eq!(error(&reply), "");
        assert_eq!(ids(&reply), ["1"]);
    }
}

/// Sends requests, several at a time, while something else is done. Each of them must succeed.
async fn under_load<T>(gateway: &TestGateway, work: impl Future<Output = T>) -> T {
    let is_done = AtomicBool::new(false);
    let client = async |_| {
        while !is_done.load(Ordering::Relaxed) {
            send(gateway, 1).await;
        }
    };
    let working = async {
        let result = work.await;
        is_done.store(true, Ordering::Relaxed);
        result
    };
    let (result, _) = tokio::join!(working, join_all((0..CLIENTS).map(client)));
    result
}

#[tokio::test]
async fn a_replica_that_the_records_add_gets_requests_soon_and_one_that_they_drop_gets_no_more() {
    let (old, new) = (FakeExecutor::echo().await, FakeExecutor::echo().await);
    let names = NameServer::start(equal(&[&old])).await;
    let gateway = gateway(&names).await;
    under_load(&gateway, async {
        old.was_called(1).await;
        let began = Instant::now();
        names.change(|zone| *zone = equal(&[&old, &new]));
        new.was_called(1).await;
        assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
        names.change(|zone| *zone = equal(&[&new]));
        names.is_asked(2).await;
    })
    .await;
    let (before, called) = (old.calls().len(), new.calls().len());
    send(&gateway, 20).await;
    assert_eq!(old.calls().len(), before);
    assert_eq!(new.calls().len(), called + 20);
}

#[tokio::test]
async fn a_replica_that_the_records_drop_finishes_its_calls() {
    let gate = Arc::new(Semaphore::new(0));
    let old = FakeExecutor::gated(gate.clone()).await;
    let new = FakeExecutor::echo().await;
    let names = NameServer::start(equal(&[&old])).await;
    let gateway = gateway(&names).await;
    let in_progress = async {
        let reply = gateway.single(request("/x", &["in progress"]));
        assert_eq!(error(&reply.await.unwrap()), "");
    };
    let meanwhile = async {
        old.was_called(1).await;
        names.change(|zone| *zone = equal(&[&new]));
        names.is_asked(2).await;
        send(&gateway, 5).await;
        gate.add_permits(1);
    };
    tokio::join!(in_progress, meanwhile);
    assert_eq!((old.calls().len(), new.calls().len()), (1, 5));
}

#[tokio::test]
async fn replicas_of_a_higher_priority_number_are_used_while_no_other_can_be_reached() {
    let second = FakeExecutor::echo().await;
    // Nothing listens there after it has ended.
    let at = FakeExecutor::echo().await.address;
    let names = NameServer::start(Zone::of_ports(&[(10, 0, at), (20, 9, second.address)])).await;
    let gateway = gateway(&names).await;
    let many = || join_all((0..40).map(|_| send(&gateway, 1)));
    many().await;
    assert_eq!(second.calls().len(), 40);
    let first = FakeExecutor::echo_at(at).await;
    under_load(&gateway, first.was_called(20)).await;
    let before = (first.calls().len(), second.calls().len());
    many().await;
    assert_eq!(first.calls().len(), before.0 + 40);
    assert_eq!(second.calls().len(), before.1);
}

#[tokio::test]
async fn replicas_share_requests_by_the_weights_of_their_records() {
    let replicas = [FakeExecutor::echo().await, FakeExecutor::echo().await];
    let records = [(0, 1, replicas[0].address), (0, 3, replicas[1].address)];
    let names = NameServer::start(Zone::of_ports(&records)).await;
    let gateway = gateway(&names).await;
    send(&gateway, 400).await;
    let [light, heavy] = replicas.each_ref().map(|it| it.calls().len());
    assert!((95..=105).contains(&light), "{light}");
    assert_eq!(light + heavy, 400);
    // Another answer changes the weights of the replicas that are there.
    names.change(|zone| {
        *zone = Zone::of_ports(&[(0, 1, replicas[0].address), (0, 1, replicas[1].address)])
    });
    // It asks again when it has used the answer.
    names.is_asked(4).await;
    send(&gateway, 100).await;
    assert_eq!(replicas[0].calls().len(), light + 50);
}

async fn names(gateway: &TestGateway, state: &str) -> f64 {
    scrape(gateway.metrics).await[&format!("flow_names{{node=\"node\",state=\"{state}\"}}")]
}

/// While the name server is like this, the gateway uses the addresses that it had before.
async fn check_keeps(change: impl FnOnce(&mut Zone)) {
    let executor = FakeExecutor::echo().await;
    let name_server = NameServer::start(equal(&[&executor])).await;
    let gateway = gateway(&name_server).await;
    send(&gateway, 1).await;
    assert_eq!(names(&gateway, "resolved").await, 1.0);
    name_server.change(change);
    under_load(&gateway, async {
        while names(&gateway, "stale").await < 1.0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    name_server.change(|zone| *zone = equal(&[&executor]));
    under_load(&gateway, async {
        while names(&gateway, "resolved").await < 1.0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_name_server_that_fails_changes_nothing() {
    check_keeps(|zone| zone.mood = AnswerMode::Fails).await;
}

#[tokio::test]
async fn a_name_server_that_does_not_answer_changes_nothing() {
    check_keeps(|zone| zone.mood = AnswerMode::Silent).await;
}

#[tokio::test]
async fn an_answer_without_records_changes_nothing() {
    check_keeps(|zone| zone.services.clear()).await;
}

#[tokio::test]
async fn answers_that_are_valid_for_no_time_at_all_are_used_for_a_second() {
    let executor = FakeExecutor::echo().await;
    let names = NameServer::start(equal(&[&executor])).await;
    names.change(|zone| zone.ttl = 0);
    let gateway = gateway(&names).await;
    let began = Instant::now();
    names.is_asked(3).await;
    assert!(
        began.elapsed() > Duration::from_millis(1900),
        "{:?}",
        began.elapsed()
    );
    send(&gateway, 1).await;
}

#[tokio::test]
async fn of_a_thousand_records_the_first_by_priority_are_used() {
    let executor = FakeExecutor::echo().await;
    let mut records = vec![(0, 0, executor.address)];
    let other = |port| (1, 0, SocketAddr::from(([127, 0, 0, 1], port)));
    records.extend((1..1000).map(other));
    let names = NameServer::start(Zone::of_ports(&records)).await;
    let gateway = gateway(&names).await;
    send(&gateway, 20).await;
    assert_eq!(executor.calls().len(), 20);
    let ready = "flow_replicas{node=\"node\",state=\"ready\"}";
    assert_eq!(scrape(gateway.metrics).await[ready], 256.0);
}

#[tokio::test]
async fn each_address_of_each_family_of_a_host_is_asked_for() {
    let executor = FakeExecutor::echo().await;
    let names = NameServer::start(equal(&[&executor])).await;
    // Nothing listens at the first address; the connection goes to the other one.
    names.change(|zone| {
        let addresses = zone.hosts.values_mut().next().unwrap();
        addresses.insert(0, "::1".parse().unwrap());
    });
    let gateway = gateway(&names).await;
    send(&gateway, 3).await;
    assert_eq!(executor.calls().len(), 3);
    let ready = "flow_replicas{node=\"node\",state=\"ready\"}";
    assert_eq!(scrape(gateway.metrics).await[ready], 1.0);
}

#[tokio::test]
async fn a_request_before_the_first_answer_says_which_name_has_none() {
    let executor = FakeExecutor::echo().await;
    let names = NameServer::start(equal(&[&executor])).await;
    names.change(|zone| zone.services.clear());
    let gateway = gateway(&names).await;
    let answer = async || gateway.single(request("/x", &["1"])).await;
    let expected = format!(
        "executor `node`: no replica is running: no address of `srv://{}/_grpc._tcp.node.test.` is known: the DNS has no records of this service",
        names.address
    );
    assert_eq!(answer().await.unwrap_err().message(), expected);
    names.change(|zone| *zone = equal(&[&executor]));
    let answered = async {
        while answer().await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(SOON, answered).await.unwrap();
}
