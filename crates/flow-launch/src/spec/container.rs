//! The container of an executor whose `uses` is an image: decided from the flow file, and from what the Docker engine
//! knows about the image. Pure; `docker/container.rs` starts it.
//!
//! There are two kinds of images. flow's own have a label, take the arguments of `flow executor`, and write a ready
//! line. All others are Jina's: their entrypoint is `jina executor --uses …`, and a health check finds out when they are
//! ready.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use flow_core::Secret;
use flow_docker::{
    ContainerConfig, ContainerInfo, GpuRequest, ImageInfo, Mount, Network, PublishedPort, labels,
};
use flow_spec::{Container, Env, Gpus, LocalRun, Workers};
use serde::Serialize;

use crate::spec::ports::Ports;

/// The port of executors in a container with its own network: the one that flow's images expose and that their
/// health check uses.
const CONTAINER_PORT: u16 = 54321;

/// The port of their metrics.
const CONTAINER_METRICS_PORT: u16 = 54322;

/// The path of the workspace in a container.
pub(crate) const WORKSPACE: &str = "/workspace";

/// All addresses of a container's own network.
pub(crate) const ALL_ADDRESSES: &str = "0.0.0.0";

/// Variables that switch off what a user has to ask for: Jina's log colors, surveys and telemetry.
const JINA_DEFAULTS: &[(&str, &str)] = &[
    ("JINA_LOG_NO_COLOR", "1"),
    ("JINA_HIDE_SURVEY", "1"),
    ("JINA_OPTOUT_TELEMETRY", "1"),
    ("PYTHONUNBUFFERED", "1"),
];

/// How an executor is started in a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ContainerInvocation {
    pub(crate) image: String,
    pub(crate) container: Container,
    /// The flow's name.
    pub(crate) flow: Option<String>,
    /// The folder of this machine where the executor keeps its files.
    pub(crate) workspace: Option<PathBuf>,
    /// The address of this machine that its ports are published on.
    host: IpAddr,
    /// The name that its metrics and spans have, if it has any.
    pub(crate) runtime_name: Option<String>,
    /// The arguments for its spans; empty if it exports none.
    pub(crate) telemetry: Vec<String>,
    /// Arguments for an executor of Jina's, which may contain secrets.
    jina_arguments: Secret<Vec<String>>,
    /// Options of the flow file that Jina's executors do not have.
    unknown_to_jina: Vec<&'static str>,
}

/// Why an image cannot be started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// It speaks another version of the protocol.
    #[error(
        "the executor in `{image}` uses version `{wire}` of the protocol, and this flow uses `{}` (use an image and a flow of the same release)",
        labels::WIRE
    )]
    Wire {
        /// The image.
        image: String,
        /// The version that its label names.
        wire: String,
    },
    /// It has no program to start.
    #[error(
        "`{image}` does not say which program it runs, so it is not an executor's image (set the program with `entrypoint`)"
    )]
    NoEntrypoint {
        /// The image.
        image: String,
    },
    /// It holds one of Jina's executors, which lack an option of the flow file.
    #[error("the executor in `{image}` is one of Jina's, which do not support {what}")]
    UnknownToJina {
        /// The image.
        image: String,
        /// The option.
        what: &'static str,
    },
}

/// The kind of an image, which decides how its executor is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ImageKind {
    Flow,
    Jina,
}

/// What only the start of a container defines.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StartArguments<'s> {
    /// The process's name in the flow.
    pub(crate) name: &'s str,
    /// Of this machine.
    pub(crate) ports: Ports,
    /// The user that it runs as; `None` for the image's.
    pub(crate) user: Option<&'s str>,
}

impl ContainerInvocation {
    pub(crate) fn new(image: &str, run: &LocalRun, flow: Option<&str>) -> Self {
        let written = run.host.as_deref().and_then(|host| host.parse().ok());
        let workspace = run.workspace.clone();
        Self {
            image: image.to_owned(),
            container: run.container.clone(),
            flow: flow.map(str::to_owned),
            workspace: workspace.filter(|_| !run.container.without_workspace),
            host: written.unwrap_or(Ipv4Addr::LOCALHOST.into()),
            runtime_name: None,
            telemetry: Vec::new(),
            jina_arguments: Secret::default(),
            unknown_to_jina: Vec::new(),
        }
    }

    /// The host that the executor listens on, inside of the container.
    pub(crate) fn listen_host(&self) -> String {
        match self.container.on_host_network {
            true => self.host.to_string(),
            false => ALL_ADDRESSES.to_owned(),
        }
    }

    /// The path of the workspace inside of the container.
    pub(crate) fn workspace_path(&self) -> Option<&Path> {
        self.workspace.as_ref().map(|_| Path::new(WORKSPACE))
    }

    /// Sets the arguments that an executor of Jina's gets from the flow file.
    pub(crate) fn set_jina_arguments(&mut self, run: &LocalRun) {
        let with = run.with.reveal();
        self.add_json("--uses-with", with, with.is_empty());
        self.add_json("--uses-metas", &run.metas, run.metas.is_empty());
        self.add_json("--uses-requests", &run.requests, run.requests.is_empty());
        let batching = &run.batching;
        self.add_json("--uses-dynamic-batching", batching, batching.is_empty());
        if !run.exit_on_exceptions.is_empty() {
            let key = "--exit-on-exceptions".to_owned();
            let names = run.exit_on_exceptions.iter().cloned();
            self.add_jina_arguments(std::iter::once(key).chain(names));
        }
        if run.workers != Workers::default() {
            self.unknown_to_jina.push("`workers` (write `replicas`)");
        }
    }

    /// Sets the number of the shard for an executor of Jina's.
    pub(crate) fn set_jina_shard(&mut self, shard: u16) {
        self.add_jina_arguments(["--shard-id".to_owned(), shard.to_string()]);
    }

    fn add_jina_arguments(&mut self, more: impl IntoIterator<Item = String>) {
        let mut arguments = std::mem::take(&mut self.jina_arguments).into_revealed();
        arguments.extend(more);
        self.jina_arguments = Secret::new(arguments);
    }

    fn add_json(&mut self, key: &str, value: &impl Serialize, is_empty: bool) {
        if !is_empty {
            let text = serde_json::to_string(value).expect("a map with text keys is always JSON");
            self.add_jina_arguments([key.to_owned(), text]);
        }
    }

    /// The kind of the image.
    ///
    /// # Errors
    /// If it holds no executor that flow can start.
    pub(crate) fn kind(&self, image: &ImageInfo) -> Result<ImageKind, ImageError> {
        let named = || self.image.clone();
        if let Some(wire) = image.labels.get(labels::IMAGE_WIRE) {
            return match wire == labels::WIRE {
                true => Ok(ImageKind::Flow),
                false => Err(ImageError::Wire {
                    image: named(),
                    wire: wire.clone(),
                }),
            };
        }
        let entrypoint = self.container.entrypoint.as_ref();
        let entrypoint = entrypoint.unwrap_or(&image.entrypoint);
        if entrypoint.is_empty() {
            return Err(ImageError::NoEntrypoint { image: named() });
        }
        match self.unknown_to_jina.first() {
            None => Ok(ImageKind::Jina),
            Some(what) => Err(ImageError::UnknownToJina {
                image: named(),
                what,
            }),
        }
    }

    /// The container to create. `arguments` and `env` are those that a process would get.
    pub(crate) fn config(
        &self,
        kind: ImageKind,
        arguments: &[String],
        env: &Env,
        at: StartArguments<'_>,
    ) -> ContainerConfig {
        let ports = self.container_ports(at.ports);
        let defaults = match kind {
            ImageKind::Jina => JINA_DEFAULTS,
            ImageKind::Flow => &[],
        };
        let unset = defaults.iter().filter(|(name, _)| !env.contains_key(*name));
        let unset = unset.map(|(name, value)| format!("{name}={value}"));
        let written = env
            .revealed()
            .map(|(name, value)| format!("{name}={value}"));
        ContainerConfig {
            image: self.image.clone(),
            platform: self.container.platform.clone(),
            entrypoint: self.container.entrypoint.clone(),
            arguments: Secret::new(match kind {
                ImageKind::Flow => flow_command_line(arguments, at.name, ports),
                ImageKind::Jina => self.jina_command_line(at.name, ports),
            }),
            env: Secret::new(unset.chain(written).collect()),
            user: at.user.map(str::to_owned),
            mounts: self.mounts(),
            network: self.network(at.ports),
            gpus: self.container.gpus.as_ref().map(gpu_request),
            options: self.container.options.clone(),
            ..ContainerConfig::default()
        }
    }

    /// The address of a running container for this machine; `None` if its ready line names the address.
    pub(crate) fn address(&self, info: &ContainerInfo, ports: Ports) -> Option<SocketAddr> {
        self.published_address(info, ports.serving, CONTAINER_PORT)
    }

    /// The address of its metrics for this machine, if it serves any.
    pub(crate) fn metrics_address(&self, info: &ContainerInfo, ports: Ports) -> Option<SocketAddr> {
        self.published_address(info, ports.metrics?, CONTAINER_METRICS_PORT)
    }

    fn published_address(
        &self,
        info: &ContainerInfo,
        port: u16,
        inside: u16,
    ) -> Option<SocketAddr> {
        match self.container.on_host_network {
            true => (port > 0).then(|| SocketAddr::new(self.host, port)),
            false => info.address(inside),
        }
    }

    fn container_ports(&self, machine_ports: Ports) -> Ports {
        match self.container.on_host_network {
            true => machine_ports,
            false => Ports {
                serving: CONTAINER_PORT,
                metrics: machine_ports.metrics.map(|_| CONTAINER_METRICS_PORT),
            },
        }
    }

    fn network(&self, ports: Ports) -> Network {
        if self.container.on_host_network {
            return Network::Host;
        }
        let serving = (ports.serving, CONTAINER_PORT);
        let metrics = ports.metrics.map(|port| (port, CONTAINER_METRICS_PORT));
        let all = std::iter::once(serving).chain(metrics);
        Network::Published {
            ip: self.host,
            ports: all
                .map(|(port, container_port)| PublishedPort {
                    port,
                    container_port,
                })
                .collect(),
        }
    }

    fn jina_command_line(&self, name: &str, ports: Ports) -> Vec<String> {
        let port = ports.serving.to_string();
        let host = self.listen_host();
        // The metrics of Jina's executors have the name of the executor.
        let name = self.runtime_name.as_deref().unwrap_or(name);
        let first = ["--native", "--name", name, "--host", &host, "--port", &port];
        let mut all: Vec<String> = first.map(str::to_owned).to_vec();
        if let Some(port) = ports.metrics {
            let port = port.to_string();
            all.extend(["--monitoring", "--port-monitoring", &port].map(str::to_owned));
        }
        all.extend(self.telemetry.iter().cloned());
        if let Some(folder) = self.workspace_path() {
            let folder = folder.to_string_lossy().into_owned();
            all.extend(["--workspace".to_owned(), folder]);
        }
        all.extend_from_slice(self.jina_arguments.reveal());
        all
    }

    /// The folder of the workspace, unless another volume is mounted in its place.
    pub(crate) fn mounted_workspace(&self) -> Option<&Path> {
        let mut volumes = self.container.volumes.iter();
        let is_taken = volumes.any(|volume| volume.inside.trim_end_matches('/') == WORKSPACE);
        self.workspace.as_deref().filter(|_| !is_taken)
    }

    /// Folders of this machine and volumes of the engine, with the workspace last.
    fn mounts(&self) -> Vec<Mount> {
        let volumes = self.container.volumes.iter().map(|volume| Mount {
            source: volume.host.clone(),
            target: volume.inside.clone(),
            read_only: volume.read_only,
        });
        let workspace = self.mounted_workspace().into_iter();
        let workspace = workspace.map(|folder| Mount {
            source: folder.display().to_string(),
            target: WORKSPACE.to_owned(),
            read_only: false,
        });
        volumes.chain(workspace).collect()
    }
}

fn flow_command_line(arguments: &[String], name: &str, ports: Ports) -> Vec<String> {
    let port = ports.serving.to_string();
    let last = ["--port", &port, "--name", name, "--to-launcher"];
    let last = last.map(str::to_owned);
    let metrics = ports.metrics.map(|port| port.to_string());
    let metrics = metrics.map(|port| ["--port-monitoring".to_owned(), port]);
    let all = arguments.iter().cloned().chain(last);
    all.chain(metrics.into_iter().flatten()).collect()
}

/// The GPUs that the flow file assigns, as a request to the engine.
fn gpu_request(gpus: &Gpus) -> GpuRequest {
    GpuRequest {
        count: gpus.count,
        devices: gpus.devices.clone(),
        driver: gpus.driver.clone(),
        capabilities: gpus.capabilities.clone(),
        options: gpus.options.clone().into_iter().collect(),
    }
}

#[cfg(test)]
mod tests;
