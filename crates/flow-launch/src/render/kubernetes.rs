//! A flow for Kubernetes, 1.30 or newer: one file for each kind of container, one for the network, and one for the
//! namespace.
//!
//! Executors stand behind headless Services: their names lead to every pod that is ready, and the gateway
//! itself shares the requests out. One gRPC connection through a Service's own address would stick to one
//! pod.

mod config;
mod monitor;
mod namespace;
mod network;
mod pod;
mod volume;
mod workload;

use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::path::Path;

use flow_spec::{Address, Plan};
use indexmap::{IndexMap, IndexSet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use serde::Serialize;

use self::namespace::NAMESPACE_FILE;
use crate::render::devices::Devices;
use crate::render::parts::{NodeUnits, Unit, Units, check_names, host_name};
use crate::render::placement::{self, placement};
use crate::render::{BadExport, Rendered, RenderedFile, Target, yaml};

/// What is asked of the cluster. Names are those of nodes, or `gateway`.
#[derive(Debug, Clone)]
pub struct Kubernetes {
    /// Where everything is made.
    pub namespace: String,
    /// The namespace exists already, so the export does not create it.
    pub has_namespace: bool,
    /// Gateways that share the work.
    pub gateways: NonZeroU16,
    /// Who is scaled by load.
    pub autoscale: IndexMap<String, Autoscale>,
    /// What each pod of a node is sure to get.
    pub resources: IndexMap<String, Resources>,
    /// Size of each volume of a workspace, such as `10Gi`.
    pub storage: String,
    /// The class of all volumes; none: the cluster's default.
    pub storage_class: Option<String>,
    /// Where executors keep the models that they download.
    pub cache: Cache,
    /// Size of each volume of such a cache, such as `5Gi`.
    pub cache_size: String,
    /// Secrets that images are pulled with.
    pub pull_secrets: Vec<String>,
    /// Variables whose values are kept in Secrets of the cluster.
    pub secrets: Vec<(String, SecretVariable)>,
    /// Nodes whose images need root and a disk that can be written.
    pub as_root: IndexSet<String>,
    /// Labels by which a Prometheus of the cluster finds what it is to scrape.
    pub monitor_labels: IndexMap<String, String>,
}

/// Where executors keep the models that they download.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Cache {
    /// In a volume of each pod, which a pod that takes its place gets again. Any storage class has such volumes, but
    /// the pods are those of a StatefulSet: a new one starts only when the old one has gone.
    #[default]
    PerPod,
    /// In one volume for all pods of the flow, which needs a storage class with `ReadWriteMany`.
    Shared,
    /// In the pod: each new pod downloads them.
    None,
}

/// Bounds of a node's replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Autoscale {
    /// Fewest.
    pub min: u16,
    /// Most.
    pub max: u16,
    /// CPU time that pods should use, in percent of what they ask for.
    pub cpu_percent: u16,
}

/// What a pod is sure to get, in Kubernetes' own notation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resources {
    /// Such as `500m` or `2`; it may use more where there is more.
    pub cpu: Option<String>,
    /// Such as `4Gi`; it never gets more.
    pub memory: Option<String>,
}

/// A variable, and where its value is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretVariable {
    /// The variable's name.
    pub variable: String,
    /// The Secret's name.
    pub secret: String,
    /// Which of the Secret's values.
    pub key: String,
}

/// The flow as files for `kubectl apply -R -f`.
///
/// # Errors
/// If a node has no image, or an option names what is not there.
pub fn kubernetes(
    plan: &Plan,
    target: &Target,
    wanted: &Kubernetes,
) -> Result<Rendered, BadExport> {
    let mut units = Units::of(plan, target)?;
    check(wanted, &units)?;
    units.gateway.replicas = wanted.gateways.get();
    for unit in units.all_mut() {
        let own = key(unit);
        let is_secret = |name: &String| wanted.secrets_of(&own).any(|it| it.variable == *name);
        unit.env.retain(|name, _| !is_secret(name));
    }
    let placement = placement(plan, &units, |unit| {
        let host = format!("{}.{}.svc", unit.name, wanted.namespace);
        vec![Address::new(host, unit.port)]
    });
    let flow = Flow {
        label: label(&target.flow),
        source: &target.source,
        wanted,
    };
    Ok(Rendered {
        files: flow.files(&units, &placement),
        remarks: flow.remarks(plan, &units),
    })
}

/// Folders are of one machine, and a pod may run on any.
fn lacks(container: &flow_spec::Container) -> Vec<&'static str> {
    let gpus = container.gpus.as_ref().and_then(Devices::asked_for);
    let has_all = gpus.is_some_and(|gpus| gpus.count().is_none());
    let keys = [
        ("gpus: all", has_all),
        ("volumes", !container.volumes.is_empty()),
    ];
    keys.into_iter()
        .filter_map(|(key, is_said)| is_said.then_some(key))
        .collect()
}

fn check(wanted: &Kubernetes, units: &Units) -> Result<(), BadExport> {
    if host_name(&wanted.namespace) != wanted.namespace
        || label(&wanted.namespace) != wanted.namespace
    {
        return Err(BadExport::BadNamespace(wanted.namespace.clone()));
    }
    let nodes = units.executors().map(key);
    let mut known: Vec<String> = nodes.collect();
    check_names(wanted.as_root.iter(), "--as-root", &known)?;
    known.push(key(&units.gateway));
    let secrets = wanted.secrets.iter().map(|(name, _)| name);
    check_names(secrets, "--env-from-secret", &known)?;
    check_names(wanted.autoscale.keys(), "--autoscale", &known)?;
    check_names(wanted.resources.keys(), "--resources", &known)?;
    check_autoscale(wanted, &key(&units.gateway))
}

/// An autoscaler needs to know what CPU time is compared with, and there is one answer to how many gateways there are.
fn check_autoscale(wanted: &Kubernetes, gateway: &str) -> Result<(), BadExport> {
    let has_cpu = |name: &String| {
        let resources = wanted.resources.get(name);
        resources.is_some_and(|it| it.cpu.is_some())
    };
    if let Some(name) = wanted.autoscale.keys().find(|name| !has_cpu(name)) {
        return Err(BadExport::NoCpu(name.clone()));
    }
    match wanted.gateways.get() {
        several @ 2.. if wanted.autoscale.contains_key(gateway) => {
            Err(BadExport::TwoGatewayCounts(several))
        }
        _ => Ok(()),
    }
}

impl Kubernetes {
    /// What is kept secret of the units that options call so.
    fn secrets_of(&self, key: &str) -> impl Iterator<Item = &SecretVariable> {
        let own = self.secrets.iter().filter(move |(name, _)| name == key);
        own.map(|(_, secret)| secret)
    }
}

/// What options call a unit.
fn key(unit: &Unit) -> String {
    unit.node
        .as_ref()
        .map_or_else(|| unit.name.clone(), ToString::to_string)
}

/// A text as the value of a label, which must not be empty or too long.
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

fn devices_remark(unit: &Unit) -> Option<String> {
    // Whoever counts them does not mind which.
    if !matches!(unit.devices, Devices::InTurn(_) | Devices::Named(_)) {
        return None;
    }
    let count = unit.devices.count()?;
    Some(format!(
        "each pod of `{}` asks for {count} GPU{}; which, the cluster decides",
        unit.name,
        if count == 1 { "" } else { "s" }
    ))
}

/// What all objects of a flow have in common.
struct Flow<'f> {
    label: String,
    source: &'f str,
    wanted: &'f Kubernetes,
}

impl Flow<'_> {
    fn files(&self, units: &Units, placement: &impl Serialize) -> Vec<RenderedFile> {
        let file = |name, document| self.file(name, &[document]);
        let namespace = self.namespace();
        let namespace = namespace.map(|it| file(NAMESPACE_FILE, yaml::document(&it)));
        let mut files: Vec<_> = namespace.into_iter().collect();
        files.push(self.gateway(&units.gateway, placement));
        for node in units.nodes.iter().flatten() {
            files.extend(self.node(node));
        }
        if units.executors().next().is_some() {
            let policy = yaml::document(&self.policy(units));
            files.push(file("network-policy.yml", policy));
        }
        let cache = self.shared_cache(units);
        files.extend(cache.map(|it| file("cache.yml", yaml::document(&it))));
        let monitor = self.monitor(units);
        files.extend(monitor.map(|it| file("service-monitor.yml", yaml::document(&it))));
        files
    }

    /// What the reader of the files should know.
    fn remarks(&self, plan: &Plan, units: &Units) -> Vec<String> {
        let mut remarks = placement::remarks(plan, lacks);
        let all = units.executors().chain([&units.gateway]);
        remarks.extend(all.flat_map(config::remarks));
        for unit in units.executors() {
            remarks.extend(devices_remark(unit));
            remarks.extend(self.memory_remark(unit));
            remarks.extend(self.cache_remark(unit));
        }
        remarks
    }

    /// A pod without a request for memory may land on a node that has too little.
    fn memory_remark(&self, unit: &Unit) -> Option<String> {
        let key = key(unit);
        let asked = self.wanted.resources.get(&key);
        let is_asked = asked.is_some_and(|it| it.memory.is_some());
        (unit.is_flow && unit.needs.memory.is_none() && !is_asked).then(|| {
            format!(
                "`{}` requests no memory, because how much it needs is not known: say it with `--resources {key}=memory:SIZE`",
                unit.name
            )
        })
    }

    fn gateway(&self, unit: &Unit, placement: &impl Serialize) -> RenderedFile {
        let placement =
            serde_json::to_string_pretty(placement).expect("a placement is always JSON");
        let placement = placement + "\n";
        let mut documents = vec![yaml::document(&self.placement(unit, &placement))];
        documents.extend(self.unit(unit, &placement));
        self.file("gateway/gateway.yml", &documents)
    }

    fn node(&self, node: &NodeUnits) -> Vec<RenderedFile> {
        let folder = node.shards.first().and_then(|unit| unit.node.as_ref());
        let folder = folder
            .map(|name| host_name(name.as_str()))
            .unwrap_or_default();
        let file = |unit: &Unit| {
            let path = Path::new(&folder).join(format!("{}.yml", unit.name));
            self.file(path, &self.unit(unit, ""))
        };
        node.all().map(file).collect()
    }

    /// All objects of a unit. `config` is what its pods read at their start, beside the environment.
    fn unit(&self, unit: &Unit, config: &str) -> Vec<String> {
        let mut documents = Vec::new();
        documents.extend(self.env(unit).map(|it| yaml::document(&it)));
        documents.push(yaml::document(&self.service(unit)));
        let pod = self.pod(unit, config);
        documents.push(if self.is_stateful(unit) {
            yaml::document(&self.stateful_set(unit, pod))
        } else {
            yaml::document(&self.deployment(unit, pod))
        });
        documents.extend(self.autoscaler(unit).map(|it| yaml::document(&it)));
        documents.extend(self.disruption_budget(unit).map(|it| yaml::document(&it)));
        documents
    }

    fn file(&self, path: impl AsRef<Path>, documents: &[String]) -> RenderedFile {
        let header = format!("# Made from {} by `flow export kubernetes`.\n", self.source);
        RenderedFile {
            path: path.as_ref().to_owned(),
            text: header + &documents.join("---\n"),
        }
    }

    fn meta(&self, unit: &Unit, name: &str) -> ObjectMeta {
        ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(self.wanted.namespace.clone()),
            labels: Some(self.labels(unit)),
            ..ObjectMeta::default()
        }
    }

    fn labels(&self, unit: &Unit) -> BTreeMap<String, String> {
        let mut labels = self.selected(role(unit));
        labels.insert(NAME.to_owned(), unit.name.clone());
        labels.insert("app.kubernetes.io/managed-by".to_owned(), "flow".to_owned());
        labels
    }

    /// The labels of all pods of the flow that have this role.
    fn selected(&self, role: &str) -> BTreeMap<String, String> {
        BTreeMap::from([
            (PART_OF.to_owned(), self.label.clone()),
            (COMPONENT.to_owned(), role.to_owned()),
        ])
    }

    /// The unit's own pods.
    fn selector(&self, unit: &Unit) -> LabelSelector {
        let mut labels = self.selected(role(unit));
        labels.insert(NAME.to_owned(), unit.name.clone());
        LabelSelector {
            match_labels: Some(labels),
            ..LabelSelector::default()
        }
    }

    fn autoscale(&self, unit: &Unit) -> Option<Autoscale> {
        self.wanted.autoscale.get(&key(unit)).copied()
    }
}

const NAME: &str = "app.kubernetes.io/name";
const PART_OF: &str = "app.kubernetes.io/part-of";
const COMPONENT: &str = "app.kubernetes.io/component";
const GATEWAY: &str = "gateway";
const EXECUTOR: &str = "executor";

fn role(unit: &Unit) -> &'static str {
    if unit.node.is_some() {
        EXECUTOR
    } else {
        GATEWAY
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
