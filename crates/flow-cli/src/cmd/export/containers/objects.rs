//! Options about the objects of an export, which `flow export kubernetes` and `flow export helm` share.

mod options;

use std::num::NonZeroU16;

use clap::Args;
use flow_launch::render::{self, ExportOptions, HostRoute, SecretEntry};
use flow_spec::Plan;

use self::options::{CacheKind, FromSecret, Scaled, Sized, label, route, secret_entry};
use super::images::Images;
use super::value::node_value;
use crate::count::count;
use crate::resolve::resolve_folders;
use crate::shell::Shell;

/// The namespace that every cluster has.
pub(super) const DEFAULT_NAMESPACE: &str = "default";

/// Headings of the options.
pub(super) const CLUSTER: &str = "Cluster";
const SCALING: &str = "Scaling";
const STORAGE: &str = "Storage";
const SECURITY: &str = "Security";

/// Options about objects.
#[derive(Debug, Args)]
pub(super) struct Objects {
    /// Route a host name to the gateways: writes an HTTPRoute for gRPC and HTTP at a Gateway of the cluster (Gateway API)
    #[arg(long, value_name = "HOST=[NAMESPACE/]GATEWAY", value_parser = route, help_heading = CLUSTER)]
    route: Vec<HostRoute>,
    /// Number of gateways
    #[arg(long, value_name = "N", value_parser = count::<NonZeroU16>, default_value = "1", help_heading = SCALING)]
    gateways: NonZeroU16,
    /// Scale an executor, or `gateway`, between MIN and MAX replicas: so that it uses PERCENT of the CPU time
    /// that it requests [default percent: 80]; or, with KEDA, by the requests that each replica has in progress or waiting
    #[arg(long, value_name = "NODE=MIN..MAX[@PERCENT|@requests:N]", value_parser = node_value::<Scaled>, help_heading = SCALING)]
    autoscale: Vec<(String, Scaled)>,
    /// Prometheus of the cluster, which KEDA asks for the requests of executors
    #[arg(long, value_name = "URL", default_value = "http://prometheus-operated.monitoring.svc:9090", help_heading = SCALING)]
    prometheus: String,
    /// CPU and memory that each pod of an executor, or of `gateway`, requests; the memory is also its limit
    /// [default: 250m of CPU, and the memory that a built-in executor is known to need]
    #[arg(long, value_name = "NODE=cpu:N,memory:SIZE", value_parser = node_value::<Sized>, help_heading = SCALING)]
    resources: Vec<(String, Sized)>,
    /// Size of the volume of each workspace
    #[arg(long, value_name = "SIZE", default_value = "10Gi", help_heading = STORAGE)]
    storage: String,
    /// Where executors keep the models that they download
    #[arg(long, value_enum, value_name = "KIND", default_value_t, help_heading = STORAGE)]
    cache: CacheKind,
    /// Size of each volume for downloaded models
    #[arg(long, value_name = "SIZE", default_value = "5Gi", help_heading = STORAGE)]
    cache_size: String,
    /// Storage class of the volumes [default: the cluster's own]
    #[arg(long, value_name = "NAME", help_heading = STORAGE)]
    storage_class: Option<String>,
    /// Secret with the credentials to pull images; can be given several times
    #[arg(long, value_name = "SECRET", help_heading = SECURITY)]
    pull_secret: Vec<String>,
    /// Set an environment variable of an executor, or of `gateway`, from a key of a Secret
    #[arg(long, value_name = "NODE=VARIABLE:SECRET:KEY", value_parser = node_value::<FromSecret>, help_heading = SECURITY)]
    env_from_secret: Vec<(String, FromSecret)>,
    /// Secret with the file that the gateway needs for `ssl_certfile`, `ssl_keyfile`, `ssl_ca_certs` or `api_keys`, and
    /// the entry there [default entry: tls.crt, tls.key, ca.crt, and for API keys the name of their file; the private
    /// key is in the Secret of the certificate]
    #[arg(long, value_name = "KEY=SECRET[:ENTRY]", value_parser = secret_entry, help_heading = SECURITY)]
    secret: Vec<(String, SecretEntry)>,
    /// Let an executor run as root and write to its root filesystem, if its image needs that
    #[arg(long, value_name = "NODE", help_heading = SECURITY)]
    as_root: Vec<String>,
    /// Mount the folders of an executor's `volumes` from the machine where each of its pods runs (hostPath), which has to
    /// have them
    #[arg(long, value_name = "NODE", help_heading = STORAGE)]
    host_folders: Vec<String>,
    /// Label of the ServiceMonitor, by which the cluster's Prometheus selects what it scrapes
    #[arg(long, value_name = "LABEL=VALUE", value_parser = label, help_heading = CLUSTER)]
    monitor_label: Vec<(String, String)>,
}

impl Objects {
    /// Reads the flow file, whose folders are those of the machines of the cluster.
    pub(super) fn read(
        &self,
        images: &Images,
        shell: &Shell,
    ) -> anyhow::Result<(Plan, ExportOptions)> {
        let (mut plan, target) = images.read(None, shell)?;
        if !self.host_folders.is_empty() {
            resolve_folders(&mut plan, &images.file, shell)?;
        }
        Ok((plan, target))
    }

    /// The options, for the default namespace.
    pub(super) fn settings(&self) -> render::Kubernetes {
        let autoscale = self.autoscale.iter().cloned();
        let resources = self.resources.iter().cloned();
        let secrets = self.env_from_secret.iter().cloned();
        render::Kubernetes {
            namespace: DEFAULT_NAMESPACE.to_owned(),
            has_namespace: false,
            gateways: self.gateways,
            prometheus: self.prometheus.clone(),
            autoscale: autoscale.map(|(node, it)| (node, it.0)).collect(),
            resources: resources.map(|(node, it)| (node, it.0)).collect(),
            storage: self.storage.clone(),
            storage_class: self.storage_class.clone(),
            cache: self.cache.into(),
            cache_size: self.cache_size.clone(),
            pull_secrets: self.pull_secret.clone(),
            secrets: secrets.map(|(node, it)| (node, it.0)).collect(),
            gateway_secrets: self.secret.iter().cloned().collect(),
            routes: self.route.clone(),
            host_folders: self.host_folders.iter().cloned().collect(),
            as_root: self.as_root.iter().cloned().collect(),
            monitor_labels: self.monitor_label.iter().cloned().collect(),
        }
    }
}
