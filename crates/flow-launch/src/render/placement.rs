//! The placement of a gateway in a container.

use flow_spec::{
    Address, Container, Env, NodeAddresses, NodePlan, Placement, Plan, Run, Sandbox, Uses,
};

use crate::render::export::GatewayFiles;
use crate::render::metadata_secrets;
use crate::render::parts::{NodeUnits, Units, Workload};

/// The plan with every node external, at the addresses of its containers. The gateway does not need to know what runs
/// there, so its configuration holds no option or variable of an executor.
pub(crate) fn placement(
    plan: &Plan,
    units: &Units,
    files: &GatewayFiles,
    addresses: impl Fn(&Workload) -> Vec<Address>,
) -> Placement {
    let mut plan = plan.clone();
    plan.gateway.env = Env::new();
    files.place(&mut plan.gateway);
    let ports = plan.gateway.more_ports.iter_mut();
    for (it, (_, port)) in ports.zip(&units.gateway.more_ports) {
        it.port = Some(*port);
    }
    plan.workspace = None;
    plan.reload = false;
    let nodes = plan.nodes.iter_mut().zip(&units.nodes);
    let places = nodes
        .map(|(node, units)| {
            metadata_secrets::replace(node);
            places(node, units.as_ref(), &addresses)
        })
        .collect();
    Placement {
        plan,
        addresses: places,
    }
}

fn places(
    node: &mut NodePlan,
    units: Option<&NodeUnits>,
    addresses: impl Fn(&Workload) -> Vec<Address>,
) -> NodeAddresses {
    let one = |unit: &Workload| addresses(unit).into_iter().next();
    let places = match (units, &node.run) {
        (Some(units), _) => NodeAddresses {
            shards: units.shards.iter().map(&addresses).collect(),
            before: units.before.as_ref().and_then(one),
            after: units.after.as_ref().and_then(one),
        },
        (None, Run::External { addresses }) => NodeAddresses::replicas(addresses.clone()),
        (None, Run::Local(_)) => NodeAddresses::default(),
    };
    node.run = Run::External {
        addresses: places.shards.iter().flatten().cloned().collect(),
    };
    places
}

/// Remarks about external nodes, because an address of the machine itself is another one in a container; and about
/// options that a target does not support, which `lacks` names for containers and `lacks_limits` for sandboxes.
pub(crate) fn remarks(
    plan: &Plan,
    lacks: impl Fn(&NodePlan, &Container) -> Vec<String>,
    lacks_limits: &[&str],
) -> Vec<String> {
    let external = plan.nodes.iter().filter_map(|node| match &node.run {
        Run::External { addresses } => Some((&node.name, addresses)),
        Run::Local(_) => None,
    });
    let remark = |(name, addresses): (_, &Vec<Address>)| {
        let at = addresses.iter().find(is_local)?;
        Some(format!(
            "`{name}` is external at `{at}`, which in a container is the container itself: give it an address that the gateway's container reaches"
        ))
    };
    let left_out = plan
        .nodes
        .iter()
        .filter_map(|node| left_out(node, &lacks, lacks_limits));
    let colocated = plan.nodes.iter().filter(|node| node.colocated().is_some());
    let apart = colocated.map(|node| {
        let name = &node.name;
        format!("`colocate` is left out: `{name}` gets a container of its own, which the gateway calls over the network")
    });
    (external.filter_map(remark).chain(left_out).chain(apart)).collect()
}

/// Whether an address, or the name server that knows it, is on the machine itself.
fn is_local(at: &&Address) -> bool {
    let host = at.tcp().map(|it| it.host.as_str());
    let server = at.service().and_then(|it| it.name_server);
    host.is_some_and(|it| matches!(it, "localhost" | "::1") || it.starts_with("127."))
        || server.is_some_and(|it| it.ip().is_loopback())
}

/// The keys of the limits of sandboxes.
pub(crate) const LIMITS: [&str; 4] = ["memory", "cpus", "no_network", "read_only"];

/// Those that a sandbox has.
fn limits(sandbox: &Sandbox) -> impl Iterator<Item = &'static str> {
    let has = [
        sandbox.memory.is_some(),
        sandbox.cpus.is_some(),
        sandbox.no_network,
        sandbox.read_only,
    ];
    let keys = LIMITS.into_iter().zip(has);
    keys.filter(|(_, has)| *has).map(|(key, _)| key)
}

/// Options that `flow up` supports for the containers of a node, or for its processes, and an export does not.
fn left_out(
    node: &NodePlan,
    lacks: impl Fn(&NodePlan, &Container) -> Vec<String>,
    lacks_limits: &[&str],
) -> Option<String> {
    let Run::Local(run) = &node.run else {
        return None;
    };
    let mut keys = Vec::new();
    if matches!(run.uses, Uses::Image(_)) {
        keys = lacks(node, &run.container);
        if run.container.on_host_network {
            keys.push("force_network_mode".to_owned());
        }
    }
    let limits = run.sandbox.iter().flat_map(limits);
    let limits = limits.filter(|it| lacks_limits.contains(it));
    keys.extend(limits.map(|it| format!("sandbox.{it}")));
    let keys: Vec<String> = keys.into_iter().map(|key| format!("`{key}`")).collect();
    (!keys.is_empty()).then(|| {
        format!(
            "`{}` does not get its {} in the export: write them into its files",
            node.name,
            keys.join(", ")
        )
    })
}
