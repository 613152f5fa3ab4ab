//! Which processes a plan needs: one post for each replica of each shard, one for what is called before
//! and after shards, and one for the gateway. Pure.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use flow_core::NodeName;
use flow_spec::{LocalRun, Log, NodePlan, Plan, Run, Uses};

use crate::backoff::Restarts;
use crate::command::{Common, Invocation, Ports};
use crate::rr::{self, BadDevices};

/// The gateway's name among the processes; no node may have it.
pub(crate) const GATEWAY: &str = "gateway";

/// One process as the plan wants it.
#[derive(Debug, Clone)]
pub(crate) struct Post {
    pub(crate) name: Arc<str>,
    pub(crate) role: Role,
    pub(crate) invocation: Invocation,
    /// Ports that the plan gives it.
    pub(crate) ports: Ports,
    pub(crate) timeout_ready: Option<Duration>,
    pub(crate) grace: Duration,
    pub(crate) restarts: Restarts,
    /// Its lines are kept, and not passed on.
    pub(crate) quiet: bool,
}

/// What a process is in its flow.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// It runs a node, or a part of it.
    Executor {
        /// The node.
        node: NodeName,
        /// Which part.
        part: Part,
    },
    /// Clients talk to it.
    Gateway,
}

/// What a process does for its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// It shares a shard's work.
    Replica {
        /// Which of the node's shards, from 0.
        shard: u16,
        /// Which of the shard's replicas, from 0.
        number: u16,
    },
    /// It is called before the shards.
    Before,
    /// It is called after them.
    After,
}

/// A sentence about a node whose value of `CUDA_VISIBLE_DEVICES` chooses no devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeDevices {
    /// The node.
    pub node: NodeName,
    /// What is wrong.
    pub source: BadDevices,
}

impl fmt::Display for NodeDevices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the replicas of `{}` cannot be given devices", self.node)
    }
}

impl std::error::Error for NodeDevices {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

impl Post {
    /// Whether a process of the other post does all that one of this post would: then it may stay.
    pub(crate) fn is_met_by(&self, other: &Self) -> bool {
        self.role == other.role
            && self.invocation == other.invocation
            && self.ports.are_met_by(other.ports)
            && self.quiet == other.quiet
    }
}

/// Every executor process of a plan, in the plan's order.
///
/// # Errors
/// If the devices that replicas are to take in turn are not there.
pub(crate) fn executors(plan: &Plan, common: &Common) -> Result<Vec<Post>, NodeDevices> {
    let mut posts = Vec::new();
    for node in &plan.nodes {
        if let Run::Local(run) = &node.run {
            let devices = devices(run).map_err(|source| NodeDevices {
                node: node.name.clone(),
                source,
            })?;
            posts.extend(Cut { node, run, common }.posts(&devices));
        }
    }
    Ok(posts)
}

/// The name and role of every process of a plan, that of the gateway last.
pub(crate) fn names(plan: &Plan, common: &Common) -> Vec<(Arc<str>, Role)> {
    let mut names = Vec::new();
    for node in &plan.nodes {
        if let Run::Local(run) = &node.run {
            // Which devices there are makes no difference to a name.
            let posts = Cut { node, run, common }.posts(&[]);
            names.extend(posts.into_iter().map(|post| (post.name, post.role)));
        }
    }
    names.push((GATEWAY.into(), Role::Gateway));
    names
}

/// The devices that replicas take in turn; empty: they see what the environment says.
fn devices(run: &LocalRun) -> Result<Vec<String>, BadDevices> {
    let value = run.env.get(rr::VARIABLE).map_or("", String::as_str);
    let devices = rr::devices(value, None)?;
    Ok(devices.unwrap_or_default())
}

/// A node, to be cut into its processes.
struct Cut<'p> {
    node: &'p NodePlan,
    run: &'p LocalRun,
    common: &'p Common,
}

impl Cut<'_> {
    fn posts(&self, devices: &[String]) -> Vec<Post> {
        let shards = self.run.shards.get();
        let numbers = 0..self.run.replicas.get();
        let replicas = (0..shards).flat_map(|shard| {
            let numbers = numbers.clone();
            numbers.map(move |number| Part::Replica { shard, number })
        });
        let around = [
            self.run.before.as_ref().map(|uses| (Part::Before, uses)),
            self.run.after.as_ref().map(|uses| (Part::After, uses)),
        ];
        let replicas = replicas.map(|part| self.replica(part, devices));
        let around = around.into_iter().flatten();
        replicas
            .chain(around.map(|(part, uses)| self.around(part, uses)))
            .collect()
    }

    fn replica(&self, part: Part, devices: &[String]) -> Post {
        let mut invocation = Invocation::executor(self.common, self.run);
        if let (Part::Replica { shard, .. }, 2..) = (part, self.run.shards.get()) {
            invocation.shard(shard);
        }
        let mut post = self.post(part, invocation);
        post.ports.serving = self.run.ports.get(self.nth(part)).copied().unwrap_or(0);
        if let (Part::Replica { number, .. }, false) = (part, devices.is_empty()) {
            // The same for every shard, as in Jina.
            let device = &devices[usize::from(number) % devices.len()];
            let env = &mut post.invocation.env;
            env.insert(rr::VARIABLE.to_owned(), device.clone());
        }
        post
    }

    fn around(&self, part: Part, uses: &Uses) -> Post {
        self.post(part, Invocation::around(self.common, self.run, uses))
    }

    /// Which of the node's replicas it is, over all shards.
    fn nth(&self, part: Part) -> usize {
        match part {
            Part::Replica { shard, number } => {
                usize::from(shard) * usize::from(self.run.replicas.get()) + usize::from(number)
            }
            Part::Before | Part::After => usize::MAX,
        }
    }

    fn post(&self, part: Part, mut invocation: Invocation) -> Post {
        let monitoring = self.run.monitoring.as_ref();
        if monitoring.is_some() {
            invocation.monitor(&self.runtime_name(part));
        }
        Post {
            name: self.name(part).into(),
            role: Role::Executor {
                node: self.node.name.clone(),
                part,
            },
            invocation,
            ports: Ports {
                serving: 0,
                metrics: monitoring.map(|it| it.port(self.nth(part))),
            },
            timeout_ready: self.run.timeout_ready,
            grace: self.common.grace,
            restarts: self.common.restarts,
            quiet: self.run.log == Some(Log::Off),
        }
    }

    /// What Jina calls the process, and so its metrics do.
    fn runtime_name(&self, part: Part) -> String {
        let node = &self.node.name;
        match (part, self.run.shards.get()) {
            (Part::Before, _) => format!("{node}/uses-before/rep-0"),
            (Part::After, _) => format!("{node}/uses-after/rep-0"),
            (Part::Replica { number, .. }, 1) => format!("{node}/rep-{number}"),
            (Part::Replica { shard, number }, _) => format!("{node}/shard-{shard}/rep-{number}"),
        }
    }

    fn name(&self, part: Part) -> String {
        let node = &self.node.name;
        let (shards, replicas) = (self.run.shards.get(), self.run.replicas.get());
        match part {
            Part::Before => format!("{node}/uses-before"),
            Part::After => format!("{node}/uses-after"),
            Part::Replica { shard, number } => match (shards, replicas) {
                (1, 1) => node.to_string(),
                (1, _) => format!("{node}/rep-{number}"),
                (_, 1) => format!("{node}/shard-{shard}"),
                _ => format!("{node}/shard-{shard}/rep-{number}"),
            },
        }
    }
}

/// The gateway process of a plan, on a machine with so many cores.
pub(crate) fn gateway(plan: &Plan, common: &Common, cores: NonZeroUsize) -> Post {
    let gateway = &plan.gateway;
    Post {
        name: GATEWAY.into(),
        role: Role::Gateway,
        invocation: Invocation::gateway(common, gateway, threads(plan, cores)),
        ports: Ports {
            serving: gateway.port.unwrap_or(0),
            metrics: gateway.monitoring.as_ref().map(|it| it.port(0)),
        },
        timeout_ready: gateway.timeout_ready,
        grace: common.grace,
        restarts: common.restarts,
        quiet: gateway.log == Some(Log::Off),
    }
}

/// Beside one executor on the same machine the gateway has half of the cores: handing a request from thread to
/// thread costs more than moving it, and the others are the executor's. On two cores that is a tenth more requests a
/// second, and 0.05 ms less for each. In a flow of several nodes the gateway has the more to do, and takes all. The
/// plan at the start decides: a gateway's threads stay as they are when its flow is reloaded.
fn threads(plan: &Plan, cores: NonZeroUsize) -> Option<NonZeroUsize> {
    match &plan.nodes[..] {
        [only] if matches!(only.run, Run::Local(_)) => NonZeroUsize::new(cores.get().div_ceil(2)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
