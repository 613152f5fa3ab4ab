//! What a gateway does besides requests, for the newest snapshot: it waits until the nodes are ready and then reports
//! itself healthy, asks executors for their endpoints, and looks up names.

use std::sync::Arc;
use std::time::{Duration, Instant};

use flow_core::Code;
use flow_net::{Health, Pool};
use flow_spec::NodePlan;
use futures_util::future::join_all;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::discovery::{node_endpoints, soon};
use crate::node::GatewayNode;
use crate::snapshot::Snapshot;

/// Interval between two health checks of a node that is not ready.
const HEALTH_CHECK_EVERY: Duration = Duration::from_millis(250);

/// Interval at which a replica that came back is noticed; it may offer other endpoints.
const RECOVERY_CHECK_EVERY: Duration = Duration::from_secs(1);

/// Age at which endpoints are asked for again, although no replica was seen to go away.
const ENDPOINTS_AGE_MAX: Duration = Duration::from_secs(30);

/// Time that executors have to answer before the gateway reports itself started. Those that a launcher has started answer
/// in milliseconds; an external one may be down for as long as it likes.
const FIRST_ANSWERS_WITHIN: Duration = Duration::from_secs(1);

/// Asks each node whether it is ready and what it offers, so that the first client finds the answers.
pub(crate) async fn ask_once(snapshot: &Snapshot) {
    let nodes = snapshot.nodes().map(async |(plan, node)| {
        join_all(node.pools().map(Pool::resolve_new_names)).await;
        if is_ready(node).await {
            node.set_ready();
        }
        ask_endpoints(plan, node).await;
    });
    // What did not answer is asked again by `run`.
    drop(timeout(FIRST_ANSWERS_WITHIN, join_all(nodes)).await);
}

/// Works for the newest snapshot, until the future is dropped.
pub(crate) async fn run(mut snapshots: watch::Receiver<Arc<Snapshot>>, health: &Health) {
    loop {
        let snapshot = snapshots.borrow_and_update().clone();
        tokio::select! {
            () = run_for(&snapshot, health) => {}
            changed = snapshots.changed() => if changed.is_err() {
                return std::future::pending().await;
            },
        }
    }
}

async fn run_for(snapshot: &Snapshot, health: &Health) {
    let ready = async {
        if !snapshot.nodes().all(|(_, node)| node.was_ready()) {
            health.set_serving(false).await;
            wait_until_ready(snapshot).await;
        }
        health.set_serving(true).await;
    };
    let endpoints = join_all(
        snapshot
            .nodes()
            .map(|(plan, node)| follow_endpoints(plan, node)),
    );
    let pools = snapshot.nodes().flat_map(|(_, node)| node.pools());
    let names = join_all(pools.map(Pool::follow_names));
    tokio::join!(ready, endpoints, names);
    // A flow without nodes needs nothing until it changes.
    std::future::pending().await
}

async fn wait_until_ready(snapshot: &Snapshot) {
    for (plan, node) in snapshot.nodes().filter(|(_, node)| !node.was_ready()) {
        let mut logged = false;
        while !is_ready(node).await {
            if !logged {
                tracing::info!(executor = %plan.name, "waiting for executor");
                logged = true;
            }
            sleep(HEALTH_CHECK_EVERY).await;
        }
        node.set_ready();
    }
}

/// Whether each pool of the node has a replica that serves.
async fn is_ready(node: &GatewayNode) -> bool {
    for pool in node.pools() {
        if !has_ready_replica(pool).await {
            return false;
        }
    }
    true
}

async fn has_ready_replica(pool: &Pool) -> bool {
    for replica in pool.replicas() {
        let serving = replica.is_serving(soon()).await;
        // A replica without a health service answered all the same.
        let answered = serving
            .as_ref()
            .is_err_and(|failure| failure.code() == Code::Unimplemented);
        if answered || serving.is_ok_and(|serving| serving) {
            return true;
        }
    }
    false
}

async fn follow_endpoints(plan: &NodePlan, node: &GatewayNode) {
    loop {
        let generation = node.generation();
        let wait = match ask_endpoints(plan, node).await {
            true => ENDPOINTS_AGE_MAX,
            false => RECOVERY_CHECK_EVERY,
        };
        let again = Instant::now() + wait;
        while Instant::now() < again && node.generation() == generation {
            sleep(RECOVERY_CHECK_EVERY).await;
        }
    }
}

/// Notes what a node offers. False: it has not started yet, or has no discovery, and its endpoints stay unknown.
async fn ask_endpoints(plan: &NodePlan, node: &GatewayNode) -> bool {
    let generation = node.generation();
    let offered = node_endpoints(plan, node, soon()).await;
    if let Ok(offered) = &offered {
        node.endpoints.set(offered, generation);
    }
    offered.is_ok()
}
