//! Where a gateway in a container finds its executors.

use flow_spec::{Address, Container, NodePlan, Placement, Places, Plan, Run, Uses};

use crate::render::parts::{NodeUnits, Unit, Units};

/// The plan with every node external, at the addresses of its containers: the gateway need not know what
/// runs there, and so no option or variable of an executor stands in its configuration.
pub(crate) fn placement(
    plan: &Plan,
    units: &Units,
    addresses: impl Fn(&Unit) -> Vec<Address>,
) -> Placement {
    let mut plan = plan.clone();
    plan.gateway.env.clear();
    plan.workspace = None;
    plan.reload = false;
    let nodes = plan.nodes.iter_mut().zip(&units.nodes);
    let places = nodes
        .map(|(node, units)| places(node, units.as_ref(), &addresses))
        .collect();
    Placement { plan, places }
}

fn places(
    node: &mut NodePlan,
    units: Option<&NodeUnits>,
    addresses: impl Fn(&Unit) -> Vec<Address>,
) -> Places {
    let one = |unit: &Unit| addresses(unit).into_iter().next();
    let places = match (units, &node.run) {
        (Some(units), _) => Places {
            shards: units.shards.iter().map(&addresses).collect(),
            before: units.before.as_ref().and_then(one),
            after: units.after.as_ref().and_then(one),
        },
        (None, Run::External { addresses }) => Places::replicas(addresses.clone()),
        (None, Run::Local(_)) => Places::default(),
    };
    node.run = Run::External {
        addresses: places.shards.iter().flatten().cloned().collect(),
    };
    places
}

/// What is to be known of external nodes: an address of the machine itself is another one in a container.
/// And what a target has no words for: `lacks` names what a container asks for in vain.
pub(crate) fn remarks(plan: &Plan, lacks: fn(&Container) -> Vec<&'static str>) -> Vec<String> {
    let external = plan.nodes.iter().filter_map(|node| match &node.run {
        Run::External { addresses } => Some((&node.name, addresses)),
        Run::Local(_) => None,
    });
    let is_local = |at: &&Address| {
        matches!(at.host.as_str(), "localhost" | "::1") || at.host.starts_with("127.")
    };
    let remark = |(name, addresses): (_, &Vec<Address>)| {
        let at = addresses.iter().find(is_local)?;
        Some(format!(
            "`{name}` is external at `{at}`, which in a container is the container itself: give it an address that the gateway's container reaches"
        ))
    };
    let left_out = plan.nodes.iter().filter_map(|node| left_out(node, lacks));
    external.filter_map(remark).chain(left_out).collect()
}

/// What `flow up` gives a node's containers, and an export does not.
fn left_out(node: &NodePlan, lacks: fn(&Container) -> Vec<&'static str>) -> Option<String> {
    let run = match &node.run {
        Run::Local(run) if matches!(run.uses, Uses::Image(_)) => run,
        Run::Local(_) | Run::External { .. } => return None,
    };
    let mut keys = lacks(&run.container);
    if !run.container.engine.is_empty() {
        keys.push("docker_kwargs");
    }
    if run.container.on_host_network {
        keys.push("force_network_mode");
    }
    let keys: Vec<String> = keys.into_iter().map(|key| format!("`{key}`")).collect();
    (!keys.is_empty()).then(|| {
        format!(
            "`{}` does not get its {} in the export: write them into its files",
            node.name,
            keys.join(", ")
        )
    })
}
