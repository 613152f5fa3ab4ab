//! The processes that a plan needs: one for each replica of each shard, one for each of `uses_before` and
//! `uses_after`, and the gateway, which runs the colocated executors. Pure.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use flow_core::{NodeName, Secret};
use flow_spec::{LocalRun, LogStyle, NodePlan, Plan, Uses};

use crate::spec::invocation::{Invocation, Programs, SharedOptions};
use crate::spec::ports::Ports;
use crate::spec::role::{NodePart, Role};
use crate::spec::round_robin::{self, DevicesError};
use crate::supervisor::backoff::RestartPolicy;

/// The name of the gateway's process. No node may have it.
pub(crate) const GATEWAY: &str = "gateway";

/// A process that the plan needs.
#[derive(Debug, Clone)]
pub(crate) struct ProcessSpec {
    pub(crate) name: Arc<str>,
    pub(crate) role: Role,
    pub(crate) invocation: Invocation,
    /// The ports that the plan assigns.
    pub(crate) ports: Ports,
    /// Its requests come through a Unix socket, if its program knows how to listen at one.
    pub(crate) at_socket: bool,
    /// Its port speaks TLS only.
    pub(crate) has_tls: bool,
    pub(crate) timeout_ready: Option<Duration>,
    pub(crate) grace: Duration,
    pub(crate) restart_policy: RestartPolicy,
    /// Its lines go to its log file, and not to the event channel.
    pub(crate) quiet: bool,
}

/// The value of `CUDA_VISIBLE_DEVICES` of a node selects no devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeDevicesError {
    /// The node.
    pub node: NodeName,
    /// Why.
    pub source: DevicesError,
}

impl fmt::Display for NodeDevicesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "cannot assign devices to the replicas of `{}`",
            self.node
        )
    }
}

impl std::error::Error for NodeDevicesError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

impl ProcessSpec {
    /// Whether a process of the other spec can stay for this one.
    pub(crate) fn is_met_by(&self, other: &Self) -> bool {
        self.role == other.role
            && self.invocation == other.invocation
            && self.ports.are_met_by(other.ports)
            && self.at_socket == other.at_socket
            && self.quiet == other.quiet
    }
}

/// Every executor process of a plan, in the plan's order.
///
/// # Errors
/// If the devices that replicas take in turn do not exist.
pub(crate) fn executors(
    plan: &Plan,
    shared: &SharedOptions,
) -> Result<Vec<ProcessSpec>, NodeDevicesError> {
    let mut specs = Vec::new();
    for node in &plan.nodes {
        if let Some(run) = node.with_processes() {
            let devices = devices(run).map_err(|source| NodeDevicesError {
                node: node.name.clone(),
                source,
            })?;
            specs.extend(NodeProcesses { node, run, shared }.specs(&devices));
        }
    }
    Ok(specs)
}

/// The name and role of every process of a plan, the gateway last.
pub(crate) fn names(plan: &Plan, shared: &SharedOptions) -> Vec<(Arc<str>, Role)> {
    let mut names = Vec::new();
    for node in &plan.nodes {
        if let Some(run) = node.with_processes() {
            // Names do not depend on devices.
            let specs = NodeProcesses { node, run, shared }.specs(&[]);
            names.extend(specs.into_iter().map(|spec| (spec.name, spec.role)));
        }
    }
    names.push((GATEWAY.into(), Role::Gateway));
    names
}

/// The devices that replicas take in turn; empty if they use the value as it is.
fn devices(run: &LocalRun) -> Result<Vec<String>, DevicesError> {
    let value = run.env.reveal(round_robin::VARIABLE).unwrap_or_default();
    let devices = round_robin::devices(value, None)?;
    Ok(devices.unwrap_or_default())
}

/// A node, to be split into its processes.
struct NodeProcesses<'p> {
    node: &'p NodePlan,
    run: &'p LocalRun,
    shared: &'p SharedOptions,
}

impl NodeProcesses<'_> {
    fn specs(&self, devices: &[String]) -> Vec<ProcessSpec> {
        let shards = self.run.shards.get();
        let numbers = 0..self.run.replicas.get();
        let replicas = (0..shards).flat_map(|shard| {
            let numbers = numbers.clone();
            numbers.map(move |number| NodePart::Replica { shard, number })
        });
        let around = [
            self.run
                .before
                .as_ref()
                .map(|uses| (NodePart::Before, uses)),
            self.run.after.as_ref().map(|uses| (NodePart::After, uses)),
        ];
        let replicas = replicas.map(|part| self.replica(part, devices));
        let around = around.into_iter().flatten();
        replicas
            .chain(around.map(|(part, uses)| self.around(part, uses)))
            .collect()
    }

    fn replica(&self, part: NodePart, devices: &[String]) -> ProcessSpec {
        let mut invocation = Invocation::executor(self.shared, self.run);
        if let (NodePart::Replica { shard, .. }, 2..) = (part, self.run.shards.get()) {
            invocation.shard(shard);
        }
        let mut spec = self.spec(part, invocation);
        spec.ports.serving = self.run.ports.get(self.index(part)).copied().unwrap_or(0);
        if let (NodePart::Replica { number, .. }, false) = (part, devices.is_empty()) {
            // The same for every shard, as in Jina.
            let device = &devices[usize::from(number) % devices.len()];
            let env = &mut spec.invocation.env;
            env.insert(
                round_robin::VARIABLE.to_owned(),
                Secret::new(device.clone()),
            );
        }
        spec
    }

    fn around(&self, part: NodePart, uses: &Uses) -> ProcessSpec {
        self.spec(part, Invocation::around_shards(self.shared, self.run, uses))
    }

    /// The number of a replica among all replicas of the node.
    fn index(&self, part: NodePart) -> usize {
        match part {
            NodePart::Replica { shard, number } => {
                usize::from(shard) * usize::from(self.run.replicas.get()) + usize::from(number)
            }
            NodePart::Before | NodePart::After => usize::MAX,
        }
    }

    fn spec(&self, part: NodePart, mut invocation: Invocation) -> ProcessSpec {
        let monitoring = self.run.monitoring.as_ref();
        let telemetry = &self.run.telemetry;
        // What runs in a container does not see the sockets of this machine.
        let at_socket = invocation.container.is_none() && !self.has_address();
        invocation.observe(monitoring.is_some(), telemetry, &self.runtime_name(part));
        ProcessSpec {
            name: self.name(part).into(),
            role: Role::Executor {
                node: self.node.name.clone(),
                part,
            },
            invocation,
            ports: Ports {
                serving: 0,
                metrics: monitoring.map(|it| it.port(self.index(part))),
            },
            at_socket,
            has_tls: false,
            timeout_ready: self.run.timeout_ready,
            grace: self.shared.grace,
            restart_policy: self.shared.restart_policy,
            quiet: self.run.log == Some(LogStyle::Off),
        }
    }

    /// Whether the file gives the processes an address for others than the gateway of this flow.
    fn has_address(&self) -> bool {
        !self.run.ports.is_empty() || self.run.host.is_some()
    }

    /// Jina's name for the process, which its metrics have.
    fn runtime_name(&self, part: NodePart) -> String {
        let node = &self.node.name;
        match (part, self.run.shards.get()) {
            (NodePart::Before, _) => format!("{node}/uses-before/rep-0"),
            (NodePart::After, _) => format!("{node}/uses-after/rep-0"),
            (NodePart::Replica { number, .. }, 1) => format!("{node}/rep-{number}"),
            (NodePart::Replica { shard, number }, _) => {
                format!("{node}/shard-{shard}/rep-{number}")
            }
        }
    }

    fn name(&self, part: NodePart) -> String {
        let node = &self.node.name;
        let (shards, replicas) = (self.run.shards.get(), self.run.replicas.get());
        match part {
            NodePart::Before => format!("{node}/uses-before"),
            NodePart::After => format!("{node}/uses-after"),
            NodePart::Replica { shard, number } => match (shards, replicas) {
                (1, 1) => node.to_string(),
                (1, _) => format!("{node}/rep-{number}"),
                (_, 1) => format!("{node}/shard-{shard}"),
                _ => format!("{node}/shard-{shard}/rep-{number}"),
            },
        }
    }
}

/// The gateway process of a plan, on a machine with `cores` cores.
pub(crate) fn gateway(plan: &Plan, shared: &SharedOptions, cores: NonZeroUsize) -> ProcessSpec {
    let gateway = &plan.gateway;
    let colocated = plan.nodes.iter().filter_map(NodePlan::colocated);
    let mut invocation =
        Invocation::gateway(shared, gateway, threads(plan, &shared.programs, cores));
    for run in colocated.clone() {
        invocation.inherit(shared.programs.variables(&run.uses));
    }
    ProcessSpec {
        name: GATEWAY.into(),
        role: Role::Gateway,
        invocation,
        ports: Ports {
            serving: gateway.port.unwrap_or(0),
            metrics: gateway.monitoring.as_ref().map(|it| it.port(0)),
        },
        at_socket: false,
        has_tls: gateway.tls.is_some(),
        // It is ready when its executors are.
        timeout_ready: colocated.fold(gateway.timeout_ready, |sum, run| {
            Some(sum?.saturating_add(run.timeout_ready?))
        }),
        grace: shared.grace,
        restart_policy: shared.restart_policy,
        quiet: gateway.log == Some(LogStyle::Off),
    }
}

/// The number of the gateway's threads; `None` for one per core.
///
/// If the only executor of a flow runs a model on this machine, the gateway uses half of the cores: more of its threads
/// would take cores from calls that wait for all of theirs, and one of a hundred requests took four times as long. In a
/// flow of several nodes the gateway has more work. A reload does not change the number.
fn threads(plan: &Plan, programs: &Programs, cores: NonZeroUsize) -> Option<NonZeroUsize> {
    let [only] = &plan.nodes[..] else {
        return None;
    };
    let run = only.colocated().or(only.with_processes())?;
    let runs_model = programs
        .built_in(&run.uses)
        .is_some_and(|it| it.uses_all_cores);
    NonZeroUsize::new(cores.get().div_ceil(2)).filter(|_| runs_model)
}

#[cfg(test)]
mod tests;
