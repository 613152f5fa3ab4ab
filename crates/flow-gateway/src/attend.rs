//! What a gateway does beside its requests, for the newest core: waits until its nodes are ready and says
//! so, learns what they offer, and looks up where names lead.

use std::sync::Arc;
use std::time::{Duration, Instant};

use flow_core::{Code, Deadline, Failure};
use flow_net::{Health, Pool};
use flow_proto::jina::EndpointsProto;
use flow_spec::NodePlan;
use futures_util::future::join_all;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::core::Core;
use crate::visit::Node;

/// Wait between two looks at a node that is not ready, and how long one look may take.
const LOOK_AGAIN: Duration = Duration::from_millis(250);
const LOOK_MAX: Duration = Duration::from_secs(2);

/// How soon it is noticed that a replica came back, which may offer something else now.
const RETURNS_EVERY: Duration = Duration::from_secs(1);

/// How long what was learned is believed of an executor that was never seen to go away.
const LEARN_AGAIN: Duration = Duration::from_secs(30);

/// How soon a new address behind a name is used. Name servers of clusters hold answers for as long.
const LOOK_UP_EVERY: Duration = Duration::from_secs(5);

/// Attends to the newest core, for ever.
pub(crate) async fn attend(mut cores: watch::Receiver<Arc<Core>>, health: &Health) {
    loop {
        let core = cores.borrow_and_update().clone();
        tokio::select! {
            () = attend_to(&core, health) => {}
            changed = cores.changed() => if changed.is_err() {
                return std::future::pending().await;
            },
        }
    }
}

async fn attend_to(core: &Core, health: &Health) {
    let ready = async {
        if !core.nodes().all(|(_, node)| node.was_ready()) {
            health.say(false).await;
            wait_until_ready(core).await;
        }
        health.say(true).await;
    };
    let learning = join_all(core.nodes().map(|(plan, node)| keep_learning(plan, node)));
    let pools = core.nodes().flat_map(|(_, node)| node.pools());
    let names = join_all(pools.filter(|pool| pool.has_names()).map(keep_looking_up));
    tokio::join!(ready, learning, names);
    // A flow without nodes has nothing to attend to until it changes.
    std::future::pending().await
}

async fn wait_until_ready(core: &Core) {
    for (plan, node) in core.nodes().filter(|(_, node)| !node.was_ready()) {
        let mut told = false;
        while !is_ready(node).await {
            if !told {
                tracing::info!(executor = %plan.name, "waiting for executor");
                told = true;
            }
            sleep(LOOK_AGAIN).await;
        }
        node.note_ready();
    }
}

/// Whether each of the node's pools has a replica that serves.
async fn is_ready(node: &Node) -> bool {
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
        // One without a health service answered all the same.
        let answered = serving
            .as_ref()
            .is_err_and(|failure| failure.code() == Code::Unimplemented);
        if answered || serving.is_ok_and(|serving| serving) {
            return true;
        }
    }
    false
}

async fn keep_learning(plan: &NodePlan, node: &Node) {
    loop {
        let generation = node.generation();
        let wait = match ask(plan, node, soon()).await {
            Ok(offered) => {
                node.offered.learn(&offered, generation);
                LEARN_AGAIN
            }
            // Not there yet, or it does not tell: then nothing is taken for granted.
            Err(_) => RETURNS_EVERY,
        };
        let again = Instant::now() + wait;
        while Instant::now() < again && node.generation() == generation {
            sleep(RETURNS_EVERY).await;
        }
    }
}

/// Asks one replica of the node what it offers.
pub(crate) async fn ask(
    plan: &NodePlan,
    node: &Node,
    deadline: Deadline,
) -> Result<EndpointsProto, Failure> {
    let name = plan.name.as_str();
    let none = || Failure::new(Code::Unavailable, "no replica is running").at(name);
    let pool = node.shards.first().ok_or_else(none)?;
    let lease = pool.lease(Instant::now()).map_err(|_| none())?;
    let asked = lease.replica().endpoints(deadline).await;
    asked.map_err(|failure| failure.at(name))
}

async fn keep_looking_up(pool: &Pool) {
    loop {
        pool.look_up().await;
        sleep(LOOK_UP_EVERY).await;
    }
}

/// When a look at a node has to be over.
pub(crate) fn soon() -> Deadline {
    Deadline::after(Instant::now(), Some(LOOK_MAX))
}
