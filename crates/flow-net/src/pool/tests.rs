use flow_core::Deadline;
use tokio::task::JoinSet;

use super::*;
use crate::grpc::single_data_server::tests::Repeater;
use crate::{Drain, GrpcRoutes, GrpcService, Limits, Listener, Server, SingleDataServer};

fn pool(count: u16) -> Pool {
    let replica = |port| Replica::new(&format!("http://127.0.0.1:{port}"), Limits::default());
    let replicas = (1..=count)
        .map(|port| Arc::new(replica(port).unwrap()))
        .collect();
    Pool::new(replicas, Policy::default(), Metadata::new())
}

#[tokio::test]
async fn the_least_busy_replica_is_leased() {
    let pool = pool(3);
    let leases: Vec<Lease> = (0..6)
        .map(|_| pool.lease(Instant::now()).unwrap())
        .collect();
    for replica in pool.replicas().iter() {
        assert_eq!(replica.in_flight(), 2);
    }
    drop(leases);
    assert!(
        pool.replicas()
            .iter()
            .all(|replica| replica.in_flight() == 0)
    );
}

#[tokio::test]
async fn pools_with_different_first_turns_begin_with_different_replicas() {
    let first = |turn| {
        let lease = pool(3).with_first_turn(turn).lease(Instant::now());
        lease.unwrap().replica().uri().to_owned()
    };
    let begun: std::collections::BTreeSet<String> = (0..3).map(first).collect();
    assert_eq!(begun.len(), 3);
}

#[tokio::test]
async fn a_replica_that_cannot_be_reached_is_avoided_for_a_while() {
    let pool = pool(2);
    let now = Instant::now();
    let replicas = pool.replicas();
    assert!(replicas[0].record(Reached::No, now));
    assert!(replicas[0].is_ejected() && !replicas[1].is_ejected());
    for _ in 0..4 {
        assert_eq!(pool.lease(now).unwrap().replica().uri(), replicas[1].uri());
    }
    assert!(!replicas[0].is_backing_off(now + Duration::from_millis(50)));
    assert!(!replicas[0].record(Reached::No, now), "only the first time");
    replicas[0].record(Reached::Yes, now);
    assert!(!replicas[0].is_backing_off(now) && !replicas[0].is_ejected());
}

#[tokio::test]
async fn if_no_replica_can_be_reached_one_is_leased_nevertheless() {
    let pool = pool(2);
    let now = Instant::now();
    for replica in pool.replicas().iter() {
        replica.record(Reached::No, now);
    }
    assert!(pool.lease(now).is_ok());
    assert_eq!(self::pool(0).lease(now).unwrap_err(), NoReplica);
}

#[tokio::test]
async fn a_replica_that_came_back_gets_its_share_gradually() {
    let pool = pool(2).with_slow_start(Duration::from_secs(10));
    let now = Instant::now() + Duration::from_secs(60);
    let replicas = pool.replicas();
    replicas[0].record(Reached::No, now);
    replicas[0].record(Reached::Yes, now);
    // How many of 1000 requests, sent one after the other, it gets after a number of seconds.
    let requests = |seconds| {
        let at = now + Duration::from_secs(seconds);
        let leases = (0..1000).map(|_| pool.lease(at).unwrap());
        leases
            .filter(|lease| lease.replica().uri() == replicas[0].uri())
            .count()
    };
    let counts = [0, 5, 9, 10].map(requests);
    let expected = [35..65, 225..275, 425..475, 500..501];
    for (count, expected) in counts.iter().zip(&expected) {
        assert!(expected.contains(count), "{counts:?}");
    }
}

#[tokio::test]
async fn a_replica_that_is_avoided_is_not_back_when_a_deadline_passes() {
    let pool = pool(2);
    let now = Instant::now();
    let replicas = pool.replicas();
    assert!(!replicas[0].record(Reached::Unknown, now));
    assert!(!replicas[0].is_ejected(), "it may be slow");
    replicas[0].record(Reached::No, now);
    let later = now + Duration::from_secs(5);
    assert!(!replicas[0].record(Reached::Unknown, later));
    assert!(replicas[0].is_ejected() && replicas[0].is_backing_off(later));
    replicas[0].record(Reached::Yes, later);
    assert!(!replicas[0].is_ejected());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_request_does_not_wait_for_an_address_that_is_gone_if_another_replica_is_connected() {
    use crate::replica::silent_address::SilentAddress;

    let silent = SilentAddress::new().await;
    let listener = Listener::bind("127.0.0.1", 0).await.unwrap();
    let addresses = [silent.address, listener.local_addr()];
    let mut server = JoinSet::new();
    server.spawn(async move {
        let routes = GrpcRoutes::new(SingleDataServer::new(Repeater, usize::MAX, usize::MAX));
        let server = Server::new(listener, GrpcService::new(routes));
        server.serve(&Drain::new(Duration::ZERO), async {}).await;
    });
    let replica = |at| Replica::new(&format!("http://{at}"), Limits::default()).unwrap();
    let replicas: Vec<_> = addresses.map(replica).map(Arc::new).into();
    // It has no discovery, and is connected now.
    assert!(replicas[1].endpoints(Deadline::NEVER).await.is_err());
    assert!(replicas[1].is_connected() && !replicas[0].is_connected());
    let pool = Pool::new(replicas.clone(), Policy::default(), Metadata::new());
    let begun = Instant::now();
    for _ in 0..4 {
        let reply = pool
            .call(&[Envelope::default()], &CallOptions::default())
            .await;
        assert!(reply.is_ok());
    }
    assert!(replicas[0].is_ejected(), "none of the requests went there");
    // A connection may take two seconds when there is no other replica.
    assert!(begun.elapsed() < Duration::from_secs(1));
}
