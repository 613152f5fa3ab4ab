//! What the requests of one placement share, and none of them changes.
//!
//! While a gateway runs, other placements may follow; see `current.rs`. A request keeps the core that it
//! began with, and so the replicas of that placement, to its end.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

use flow_core::{Code, Failure, NodeName};
use flow_net::retry::Policy;
use flow_net::{Limits, Metadata, Name, Pool, Replica};
use flow_spec::{Address, Calls, NodeIdx, NodePlan, Placement, Places, Plan, Retries};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::failure_log::FailureLog;
use crate::gateway::BindError;
use crate::meter::Meter;
use crate::visit::Node;

/// Requests that may be in floating nodes at a time. Nobody waits for these, so nothing else would hold
/// back a client that is faster than they are.
const FLOATING_MAX: usize = 1024;

/// The plan, and where its nodes are.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) plan: Plan,
    /// By [`NodeIdx`].
    nodes: Vec<Node>,
    pub(crate) floating: Arc<Floating>,
    /// Some node's result is dropped: requests outlive their replies.
    pub(crate) has_floating: bool,
    /// Some node gets only some documents: branches have to be put back in order.
    pub(crate) has_conditions: bool,
    pub(crate) room: Room,
    pub(crate) lasting: Lasting,
    /// Cancelled when the last request of this core has ended.
    _ended: DropGuard,
}

/// What no placement changes.
#[derive(Debug, Clone)]
pub(crate) struct Lasting {
    pub(crate) limits: Limits,
    /// None: nobody wants to know.
    pub(crate) meter: Option<Meter>,
    pub(crate) failures: Arc<FailureLog>,
}

/// Requests whose reply has gone out and whose floating nodes still run.
#[derive(Debug)]
pub(crate) struct Floating {
    pub(crate) tasks: TaskTracker,
    pub(crate) room: Arc<Semaphore>,
}

/// How many requests may be under way in the whole gateway.
#[derive(Debug, Clone)]
pub(crate) struct Room {
    max: NonZeroUsize,
    semaphore: Arc<Semaphore>,
}

/// A place among the requests under way; free again when dropped.
pub(crate) type Seat = OwnedSemaphorePermit;

impl Room {
    fn new(max: NonZeroUsize) -> Self {
        let permits = max.get().min(Semaphore::MAX_PERMITS);
        let semaphore = Arc::new(Semaphore::new(permits));
        Self { max, semaphore }
    }

    /// A place, if there is one now.
    pub(crate) fn seat_now(&self) -> Result<Seat, Failure> {
        self.semaphore.clone().try_acquire_owned().map_err(|_| {
            let message = format!(
                "the gateway is busy with {} requests, its limit (`in_flight_max`)",
                self.max
            );
            Failure::new(Code::Overloaded, message)
        })
    }

    /// A place, as soon as there is one; those who wait get theirs in turn.
    pub(crate) async fn seat(self) -> Seat {
        match self.semaphore.acquire_owned().await {
            Ok(seat) => seat,
            Err(_closed) => unreachable!("the semaphore is never closed"),
        }
    }
}

impl Core {
    /// A core of this placement. Replicas that `before` knows are taken over with their connections, and
    /// `ended` is cancelled when its last request is done.
    pub(crate) fn new(
        placement: Placement,
        lasting: Lasting,
        before: Option<&Self>,
        ended: CancellationToken,
    ) -> Result<Self, BindError> {
        let known = Known::of(before, &lasting);
        let mut nodes = Vec::new();
        for (at, node) in placement.plan.nodes() {
            let placed = known.node(node, placement.places(at))?;
            if before.is_some_and(|before| before.was_ready(&node.name)) {
                placed.note_ready();
            }
            nodes.push(placed);
        }
        let plan = placement.plan;
        let max = plan.gateway.in_flight_max;
        let room = before.map(|before| &before.room);
        let room = room.filter(|room| room.max == max).cloned();
        Ok(Self {
            nodes,
            floating: before.map_or_else(Floating::new, |before| before.floating.clone()),
            has_floating: plan.nodes.iter().any(|node| !node.awaited),
            has_conditions: plan.nodes.iter().any(|node| node.calls.when.is_some()),
            room: room.unwrap_or_else(|| Room::new(max)),
            plan,
            lasting,
            _ended: ended.drop_guard(),
        })
    }

    /// A core of this placement after this one.
    pub(crate) fn next(
        &self,
        placement: Placement,
        ended: CancellationToken,
    ) -> Result<Self, BindError> {
        Self::new(placement, self.lasting.clone(), Some(self), ended)
    }

    fn was_ready(&self, name: &NodeName) -> bool {
        self.nodes()
            .any(|(plan, node)| plan.name == *name && node.was_ready())
    }

    pub(crate) fn node(&self, node: NodeIdx) -> &Node {
        &self.nodes[node.index()]
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = (&NodePlan, &Node)> {
        self.plan.nodes.iter().zip(&self.nodes)
    }
}

impl Floating {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            tasks: TaskTracker::new(),
            room: Arc::new(Semaphore::new(FLOATING_MAX)),
        })
    }
}

/// Replicas of the placement before, and how those that it did not know are called.
struct Known<'l> {
    by_uri: HashMap<String, Vec<Arc<Replica>>>,
    lasting: &'l Lasting,
}

impl<'l> Known<'l> {
    fn of(before: Option<&Core>, lasting: &'l Lasting) -> Self {
        let mut by_uri: HashMap<String, Vec<Arc<Replica>>> = HashMap::new();
        let pools = before.into_iter().flat_map(|core| &core.nodes);
        for replica in pools.flat_map(Node::pools).flat_map(Pool::replicas) {
            let uri = replica.found_behind().unwrap_or(replica.uri()).to_owned();
            let same = by_uri.entry(uri).or_default();
            if !same.iter().any(|it| Arc::ptr_eq(it, &replica)) {
                same.push(replica);
            }
        }
        Self { by_uri, lasting }
    }

    fn node(&self, node: &NodePlan, places: &Places) -> Result<Node, BindError> {
        let pool = |addresses: &[Address]| {
            self.pool(&node.calls, addresses)
                .map_err(|reason| BindError::Node {
                    node: node.name.clone(),
                    reason,
                })
        };
        let alone = |address: &Option<Address>| {
            let address = address.as_ref().map(std::slice::from_ref);
            address.map(pool).transpose()
        };
        let shards = places.shards.iter().map(|it| pool(it));
        Ok(Node::new(
            shards.collect::<Result<_, _>>()?,
            alone(&places.before)?,
            alone(&places.after)?,
        ))
    }

    fn pool(&self, calls: &Calls, addresses: &[Address]) -> Result<Pool, String> {
        let Lasting { limits, meter, .. } = self.lasting;
        let mut replicas = Vec::new();
        let mut names = Vec::new();
        for address in addresses {
            let uri = address.to_string();
            let is_name = address.host.parse::<std::net::IpAddr>().is_err() && !address.tls;
            let name = is_name.then(|| Name::new(&address.host, address.port, *limits));
            let name = name.transpose().map_err(|error| error.to_string())?;
            match (self.by_uri.get(&uri), &name) {
                (Some(known), _) => replicas.extend(known.iter().cloned()),
                (None, Some(name)) => replicas.push(name.alone().clone()),
                (None, None) => {
                    let replica = Replica::new(&uri, *limits).map_err(|error| error.to_string())?;
                    replicas.push(Arc::new(replica));
                }
            }
            names.extend(name);
        }
        let pool = Pool::new(replicas, policy(calls), metadata(calls)?);
        let traffic = meter.as_ref().map(|it| it.traffic().clone());
        Ok(pool.with_names(names, *limits).with_traffic(traffic))
    }
}

fn policy(calls: &Calls) -> Policy {
    let retries = match calls.retries {
        Retries::Default => None,
        Retries::Times(times) => Some(times),
    };
    Policy {
        retries,
        idempotent: calls.idempotent,
    }
}

fn metadata(calls: &Calls) -> Result<Metadata, String> {
    let entry = |(key, value): &(String, String)| match (key.parse(), value.parse()) {
        (Ok(key), Ok(value)) => Ok((key, value)),
        _ => Err(format!(
            "`{key}: {value}` is no gRPC metadata: ASCII only, keys in lower case"
        )),
    };
    calls.metadata.iter().map(entry).collect()
}
