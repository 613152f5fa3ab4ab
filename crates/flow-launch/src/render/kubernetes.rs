//! A flow for Kubernetes, 1.30 or newer: one file for each kind of container, one for the network, and one for the
//! namespace.
//!
//! Executors have headless Services, whose names resolve to every ready pod, and the gateway balances requests itself. A
//! gRPC connection through the address of a Service would stay with one pod.

mod config;
mod container_volume;
mod custom_resource;
mod docker_options;
mod helm;
mod manifest;
mod monitor;
mod namespace;
mod network;
mod objects;
mod pod;
mod probe;
mod route;
mod route_ports;
mod scaled_object;
mod secret;
mod variables;
mod volume;
mod workload;

use std::path::Path;

use flow_spec::{Address, Container, Gateway, NodePlan, Plan, Protocol, Run};
use serde::Serialize;
use serde_json::Value;

use self::docker_options::PodOptions;
use self::manifest::{Manifest, ManifestSet};
use self::namespace::NAMESPACE_FILE;
use self::network::{H2C, HTTP};
use self::objects::{EXECUTOR, Flow, GATEWAY, NAME, PART_OF, key, role};
use self::route_ports::RoutePorts;
use self::secret::GatewaySecrets;
use crate::render::devices::AssignedDevices;
use crate::render::export::{ExportError, ExportOptions, Rendered};
use crate::render::gateway_health::GatewayHealth;
use crate::render::parts::{NodeUnits, Units, Workload, check_names, host_name};
use crate::render::placement::{self, placement};
use crate::render::yaml;

pub use self::objects::{Autoscale, Cache, Kubernetes, Resources, ScaleTarget, SecretVariable};
pub use self::route_ports::HostRoute;
pub use self::secret::SecretEntry;

/// The flow as files for `kubectl apply -R -f`.
///
/// # Errors
/// If a node has no image, an option names an unknown node, or no Secret holds a file of the gateway.
pub fn kubernetes(
    plan: &Plan,
    target: &ExportOptions,
    wanted: &Kubernetes,
) -> Result<Rendered, ExportError> {
    let exported = export(plan, target, wanted)?;
    let files = exported.manifests.iter();
    Ok(Rendered {
        files: files
            .map(|it| it.render(&target.source, "kubernetes"))
            .collect(),
        remarks: exported.remarks,
    })
}

/// The flow as a chart for Helm, with the objects of the Kubernetes export.
///
/// # Errors
/// If a node has no image, an option names an unknown node, or no Secret holds a file of the gateway.
pub fn helm(
    plan: &Plan,
    target: &ExportOptions,
    wanted: &Kubernetes,
) -> Result<Rendered, ExportError> {
    let wanted = Kubernetes {
        namespace: helm::NAMESPACE.to_owned(),
        has_namespace: true,
        ..wanted.clone()
    };
    let exported = export(plan, target, &wanted)?;
    Ok(helm::chart(exported, target))
}

fn export(
    plan: &Plan,
    target: &ExportOptions,
    wanted: &Kubernetes,
) -> Result<ManifestSet, ExportError> {
    check_gpus(plan)?;
    let mut units = Units::of(plan, target)?;
    check(wanted, &units)?;
    let assigned = config::assigned_secrets(wanted, &units);
    let secret_remarks = config::secret_remarks(&assigned);
    let wanted = &Kubernetes {
        secrets: [wanted.secrets.clone(), assigned].concat(),
        ..wanted.clone()
    };
    units.gateway.replicas = wanted.gateways.get();
    for unit in units.all_mut() {
        let own = key(unit);
        let is_secret = |name: &String| wanted.secrets_of(&own).any(|it| it.variable == *name);
        unit.env.retain(|name, _| !is_secret(name));
    }
    let secrets = GatewaySecrets::of(&plan.gateway, &wanted.gateway_secrets)?;
    let has_routes = !wanted.routes.is_empty();
    let route_ports = has_routes.then(|| RoutePorts::of(&plan.gateway, &units.gateway));
    let placement = placement(plan, &units, &secrets.files(), |unit| {
        let host = format!("{}.{}.svc", unit.name, wanted.namespace);
        vec![Address::new(host, unit.port)]
    });
    let flow = Flow {
        label: label(&target.flow),
        wanted,
        secrets,
        health: GatewayHealth::of(&plan.gateway),
        app_protocol: app_protocol(&plan.gateway),
        route_ports: route_ports.transpose()?,
    };
    let mut remarks = flow.remarks(plan, &units);
    remarks.extend(secret_remarks);
    Ok(ManifestSet {
        manifests: flow.manifests(&units, &placement),
        remarks,
        label: flow.label,
    })
}

/// The protocol of the gateway's first port, for meshes and gateways of the cluster, which would treat it as plain TCP.
fn app_protocol(gateway: &Gateway) -> &'static str {
    let has_grpc = !gateway.only_protocols || gateway.protocols.contains(&Protocol::Grpc);
    match (&gateway.tls, has_grpc) {
        (Some(_), _) => "https",
        (None, true) => H2C,
        (None, false) => HTTP,
    }
}

/// Refuses a number of GPUs that depends on the machine.
fn check_gpus(plan: &Plan) -> Result<(), ExportError> {
    let has_all = |node: &&NodePlan| {
        let Run::Local(run) = &node.run else {
            return false;
        };
        let gpus = run
            .container
            .gpus
            .as_ref()
            .and_then(AssignedDevices::asked_for);
        gpus.is_some_and(|gpus| gpus.count().is_none())
    };
    match plan.nodes.iter().find(has_all) {
        None => Ok(()),
        Some(node) => Err(ExportError::Unsupported {
            name: node.name.to_string(),
            key: "gpus: all",
            why: "and a cluster counts the GPUs of its nodes: set how many each replica needs, such as `gpus: 1`",
        }),
    }
}

fn check(wanted: &Kubernetes, units: &Units) -> Result<(), ExportError> {
    if host_name(&wanted.namespace) != wanted.namespace
        || label(&wanted.namespace) != wanted.namespace
    {
        return Err(ExportError::BadNamespace(wanted.namespace.clone()));
    }
    let nodes = units.executors().map(key);
    let mut known: Vec<String> = nodes.collect();
    check_names(wanted.as_root.iter(), "--as-root", &known)?;
    check_names(wanted.host_folders.iter(), "--host-folders", &known)?;
    known.push(key(&units.gateway));
    let secrets = wanted.secrets.iter().map(|(name, _)| name);
    check_names(secrets, "--env-from-secret", &known)?;
    check_names(wanted.autoscale.keys(), "--autoscale", &known)?;
    check_names(wanted.resources.keys(), "--resources", &known)?;
    check_autoscale(wanted, units)
}

/// Checks that an autoscaler has a CPU request or a metric to follow, and that one option sets the number of gateways.
fn check_autoscale(wanted: &Kubernetes, units: &Units) -> Result<(), ExportError> {
    let has_cpu = |name: &String| {
        let resources = wanted.resources.get(name);
        resources.is_some_and(|it| it.cpu.is_some())
    };
    let is_monitored = |name: &String| {
        let mut all = units.executors().chain([&units.gateway]);
        all.all(|unit| key(unit) != *name || unit.metrics.is_some())
    };
    for (name, scaled) in &wanted.autoscale {
        match scaled.target {
            ScaleTarget::CpuPercent(_) if !has_cpu(name) => {
                return Err(ExportError::NoCpu(name.clone()));
            }
            ScaleTarget::Requests(_) if !is_monitored(name) => {
                return Err(ExportError::NotMonitored(name.clone()));
            }
            ScaleTarget::CpuPercent(_) | ScaleTarget::Requests(_) => {}
        }
    }
    match wanted.gateways.get() {
        several @ 2.. if wanted.autoscale.contains_key(&key(&units.gateway)) => {
            Err(ExportError::TwoGatewayCounts(several))
        }
        _ => Ok(()),
    }
}

/// Makes text a valid value of a label, which must not be empty or too long.
fn label(text: &str) -> String {
    let is_allowed = |it: char| it.is_ascii_alphanumeric() || it == '-';
    let kept: String = text
        .chars()
        .map(|it| if is_allowed(it) { it } else { '-' })
        .take(63)
        .collect();
    match host_name(&kept) {
        empty if empty.is_empty() => "flow".to_owned(),
        label => label,
    }
}

fn devices_remark(unit: &Workload) -> Option<String> {
    // Only their number matters.
    if !matches!(
        unit.devices,
        AssignedDevices::InTurn(_) | AssignedDevices::Named(_)
    ) {
        return None;
    }
    let count = unit.devices.count()?;
    Some(format!(
        "each pod of `{}` asks for {count} GPU{}; the cluster chooses which",
        unit.name,
        if count == 1 { "" } else { "s" }
    ))
}

impl Flow<'_> {
    fn manifests(&self, units: &Units, placement: &impl Serialize) -> Vec<Manifest> {
        let one = |name: &str, object| Manifest::new(name, vec![object]);
        let namespace = self.namespace();
        let namespace = namespace.map(|it| one(NAMESPACE_FILE, yaml::value(&it)));
        let mut all: Vec<_> = namespace.into_iter().collect();
        all.push(self.gateway(&units.gateway, placement));
        for node in units.nodes.iter().flatten() {
            all.extend(self.node(node));
        }
        if units.executors().next().is_some() {
            all.push(one("network-policy.yml", yaml::value(&self.policy(units))));
        }
        let cache = self.shared_cache(units);
        all.extend(cache.map(|it| one("cache.yml", yaml::value(&it))));
        let route = self.route(&units.gateway);
        all.extend(route.map(|it| one("http-route.yml", yaml::value(&it))));
        let scaled = units.executors().chain([&units.gateway]);
        let scaled = scaled.filter_map(|unit| self.scaled_object(unit));
        let scaled: Vec<_> = scaled.map(|it| yaml::value(&it)).collect();
        if !scaled.is_empty() {
            all.push(Manifest::new("scaled-objects.yml", scaled));
        }
        let monitor = self.monitor(units);
        all.extend(monitor.map(|it| one("service-monitor.yml", yaml::value(&it))));
        all
    }

    /// Options of a container that its pods do not have.
    fn lacks(&self, node: &NodePlan, container: &Container) -> Vec<String> {
        let has_folders = self.wanted.host_folders.contains(node.name.as_str());
        let mut volumes = container.volumes.iter();
        let lacks_volumes = volumes.any(|it| it.is_named || !has_folders);
        let volumes = lacks_volumes.then(|| "volumes".to_owned());
        let options = PodOptions::of(&container.options).left_out.into_iter();
        let options = options.map(|name| format!("docker_kwargs.{name}"));
        volumes.into_iter().chain(options).collect()
    }

    /// Remarks for the reader of the files.
    fn remarks(&self, plan: &Plan, units: &Units) -> Vec<String> {
        // Its network is a policy of the cluster.
        let lacks_limits = ["no_network"];
        let lacks = |node: &NodePlan, container: &Container| self.lacks(node, container);
        let mut remarks = placement::remarks(plan, lacks, &lacks_limits);
        for unit in units.executors() {
            remarks.extend(devices_remark(unit));
            remarks.extend(self.memory_remark(unit));
            remarks.extend(self.cache_remark(unit));
            remarks.extend(self.download_remark(unit, &units.gateway.image));
        }
        remarks
    }

    /// Remarks that a pod without a memory request may be scheduled on a node with too little.
    fn memory_remark(&self, unit: &Workload) -> Option<String> {
        let key = key(unit);
        let asked = self.wanted.resources.get(&key);
        let is_asked = asked.is_some_and(|it| it.memory.is_some());
        (unit.is_flow && unit.needs.memory.is_none() && !is_asked).then(|| {
            format!(
                "`{}` requests no memory, because its need is not known: set it with `--resources {key}=memory:SIZE`",
                unit.name
            )
        })
    }

    fn gateway(&self, unit: &Workload, placement: &impl Serialize) -> Manifest {
        let placement =
            serde_json::to_string_pretty(placement).expect("a placement is always JSON");
        let placement = placement + "\n";
        let mut objects = vec![yaml::value(&self.placement(unit, &placement))];
        objects.extend(self.unit(unit, &placement));
        Manifest::new("gateway/gateway.yml", objects)
    }

    fn node(&self, node: &NodeUnits) -> Vec<Manifest> {
        let folder = node.shards.first().and_then(|unit| unit.node.as_ref());
        let folder = folder
            .map(|name| host_name(name.as_str()))
            .unwrap_or_default();
        let file = |unit: &Workload| {
            let path = Path::new(&folder).join(format!("{}.yml", unit.name));
            Manifest::new(path, self.unit(unit, ""))
        };
        node.all().map(file).collect()
    }

    /// All objects of a unit. `config` is what its pods read at their start besides the environment.
    fn unit(&self, unit: &Workload, config: &str) -> Vec<Value> {
        let mut objects = Vec::new();
        objects.extend(self.env(unit).map(|it| yaml::value(&it)));
        objects.push(yaml::value(&self.service(unit)));
        let pod = self.pod(unit, config);
        objects.push(if self.is_stateful(unit) {
            yaml::value(&self.stateful_set(unit, pod))
        } else {
            yaml::value(&self.deployment(unit, pod))
        });
        objects.extend(self.autoscaler(unit).map(|it| yaml::value(&it)));
        objects.extend(self.disruption_budget(unit).map(|it| yaml::value(&it)));
        objects
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_becomes_the_value_of_a_label() {
        let check = |text: &str, expected: &str| assert_eq!(label(text), expected);
        check("encode", "encode");
        check("My flow, v2.1", "my-flow--v2-1");
        check("---", "flow");
        check("", "flow");
        assert_eq!(label(&"x".repeat(99)).len(), 63);
    }
}
