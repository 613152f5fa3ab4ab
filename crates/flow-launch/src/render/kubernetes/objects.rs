//! What the objects of all kinds share: the options of the export, names and labels.

use std::collections::BTreeMap;
use std::num::NonZeroU16;

use indexmap::{IndexMap, IndexSet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};

use super::route_ports::{HostRoute, RoutePorts};
use super::secret::{GatewaySecrets, SecretEntry};
use crate::render::gateway_health::GatewayHealth;
use crate::render::parts::Workload;

/// Options of the export. Names are those of nodes, or `gateway`.
#[derive(Debug, Clone)]
pub struct Kubernetes {
    /// The namespace of all objects.
    pub namespace: String,
    /// The namespace exists already, so the export does not create it.
    pub has_namespace: bool,
    /// Number of gateways.
    pub gateways: NonZeroU16,
    /// Nodes that are scaled by load.
    pub autoscale: IndexMap<String, Autoscale>,
    /// Where autoscalers read the metrics of the flow: the URL of a Prometheus.
    pub prometheus: String,
    /// Resources for each pod of a node.
    pub resources: IndexMap<String, Resources>,
    /// Size of each volume of a workspace, such as `10Gi`.
    pub storage: String,
    /// The storage class of all volumes; `None` for the cluster's default.
    pub storage_class: Option<String>,
    /// Where executors keep the models that they download.
    pub cache: Cache,
    /// Size of each volume of such a cache, such as `5Gi`.
    pub cache_size: String,
    /// Secrets that images are pulled with.
    pub pull_secrets: Vec<String>,
    /// Variables whose values come from Secrets of the cluster.
    pub secrets: Vec<(String, SecretVariable)>,
    /// Secrets with files of the gateway, by the key of the flow file: `ssl_certfile`, `ssl_keyfile`, `ssl_ca_certs` and
    /// `api_keys`.
    pub gateway_secrets: IndexMap<String, SecretEntry>,
    /// Host names that lead to the gateways.
    pub routes: Vec<HostRoute>,
    /// Nodes that see folders of the machines where their pods run.
    pub host_folders: IndexSet<String>,
    /// Nodes whose images need root and a writable file system.
    pub as_root: IndexSet<String>,
    /// Labels by which the cluster's Prometheus finds the ServiceMonitor.
    pub monitor_labels: IndexMap<String, String>,
}

/// Where executors keep the models that they download.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Cache {
    /// In a volume per pod, which its successor gets again. Any storage class has such volumes, but the pods belong to a
    /// StatefulSet: a new one starts only after the old one has ended.
    #[default]
    PerPod,
    /// In one volume for all pods of the flow. This needs a storage class with `ReadWriteMany`.
    Shared,
    /// In the pod: each new pod downloads them.
    None,
}

/// Bounds of a node's replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Autoscale {
    /// Minimum.
    pub min: u16,
    /// Maximum.
    pub max: u16,
    /// What the number of replicas follows.
    pub target: ScaleTarget,
}

/// What the number of replicas follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScaleTarget {
    /// The CPU time of pods, in percent of their request.
    CpuPercent(u16),
    /// Requests that each pod has in progress or waiting, on average.
    Requests(NonZeroU16),
}

/// Resources of a pod, in Kubernetes' notation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resources {
    /// A request such as `500m` or `2`; the pod may use more.
    pub cpu: Option<String>,
    /// A request and limit such as `4Gi`.
    pub memory: Option<String>,
}

/// A variable whose value is in a Secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretVariable {
    /// The variable's name.
    pub variable: String,
    /// The Secret's name.
    pub secret: String,
    /// The key in the Secret.
    pub key: String,
}

impl Kubernetes {
    /// The secret variables of units, by the name in options.
    pub(super) fn secrets_of(&self, key: &str) -> impl Iterator<Item = &SecretVariable> {
        let own = self.secrets.iter().filter(move |(name, _)| name == key);
        own.map(|(_, secret)| secret)
    }
}

/// The name of a unit in options.
pub(super) fn key(unit: &Workload) -> String {
    unit.option_name()
}

/// The metadata that all objects of a flow share.
pub(super) struct Flow<'f> {
    pub(super) label: String,
    pub(super) wanted: &'f Kubernetes,
    pub(super) secrets: GatewaySecrets,
    pub(super) health: GatewayHealth,
    /// The protocol of the gateway's first port.
    pub(super) app_protocol: &'static str,
    /// `None` without a route.
    pub(super) route_ports: Option<RoutePorts>,
}

impl Flow<'_> {
    pub(super) fn meta(&self, unit: &Workload, name: &str) -> ObjectMeta {
        ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(self.wanted.namespace.clone()),
            labels: Some(self.labels(unit)),
            ..ObjectMeta::default()
        }
    }

    pub(super) fn labels(&self, unit: &Workload) -> BTreeMap<String, String> {
        let mut labels = self.selected(role(unit));
        labels.insert(NAME.to_owned(), unit.name.clone());
        labels.insert("app.kubernetes.io/managed-by".to_owned(), "flow".to_owned());
        labels
    }

    /// The labels of all pods of the flow with this role.
    pub(super) fn selected(&self, role: &str) -> BTreeMap<String, String> {
        BTreeMap::from([
            (PART_OF.to_owned(), self.label.clone()),
            (COMPONENT.to_owned(), role.to_owned()),
        ])
    }

    /// The unit's own pods.
    pub(super) fn selector(&self, unit: &Workload) -> LabelSelector {
        let mut labels = self.selected(role(unit));
        labels.insert(NAME.to_owned(), unit.name.clone());
        LabelSelector {
            match_labels: Some(labels),
            ..LabelSelector::default()
        }
    }

    pub(super) fn autoscale(&self, unit: &Workload) -> Option<Autoscale> {
        self.wanted.autoscale.get(&key(unit)).copied()
    }
}

pub(super) const NAME: &str = "app.kubernetes.io/name";
pub(super) const PART_OF: &str = "app.kubernetes.io/part-of";
pub(super) const COMPONENT: &str = "app.kubernetes.io/component";
pub(super) const GATEWAY: &str = "gateway";
pub(super) const EXECUTOR: &str = "executor";

pub(super) fn role(unit: &Workload) -> &'static str {
    if unit.node.is_some() {
        EXECUTOR
    } else {
        GATEWAY
    }
}
