//! What is started where an executor is an image: decided from the flow file, and from what the engine
//! knows of the image. Pure; `contained.rs` starts what is decided here.
//!
//! Two kinds of images are told apart. Ours take the arguments of `flow executor` and say in JSON that they
//! are ready; their label says so. All others are Jina's: their entrypoint is `jina executor --uses …`, and
//! they are asked for their health.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use flow_docker::{Alive, DeviceRequest, Image, Network, PublishedPort, Wanted, labels};
use flow_spec::{Container, Env, Gpus, LocalRun, Workers};
use serde::Serialize;

use crate::command::Ports;

/// Where executors listen in a container that has a network of its own: the port that our images expose,
/// and look for their own health at.
const PORT_INSIDE: u16 = 54321;

/// The same for whoever reads their metrics.
const METRICS_INSIDE: u16 = 54322;

/// Where the workspace is in a container.
pub(crate) const WORKSPACE: &str = "/workspace";

/// All addresses of a container's own network.
pub(crate) const EVERYWHERE: &str = "0.0.0.0";

/// What Jina should not do unless the user asks for it: colours in our log, surveys, and calls to its makers.
const QUIET: &[(&str, &str)] = &[
    ("JINA_LOG_NO_COLOR", "1"),
    ("JINA_HIDE_SURVEY", "1"),
    ("JINA_OPTOUT_TELEMETRY", "1"),
    ("PYTHONUNBUFFERED", "1"),
];

/// An executor in a container, as the flow file says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Contained {
    pub(crate) image: String,
    pub(crate) container: Container,
    /// The flow's own name.
    pub(crate) flow: Option<String>,
    /// Folder of the machine that the executor may keep its files in.
    pub(crate) workspace: Option<PathBuf>,
    /// Address of the machine at which it is reached.
    host: IpAddr,
    /// What it counts under, if it is monitored.
    pub(crate) runtime_name: Option<String>,
    /// What an executor of Jina's is told, in its own words.
    for_jina: Vec<String>,
    /// What of the flow file Jina has no word for.
    beyond_jina: Vec<&'static str>,
}

/// Why an image is not started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadImage {
    /// Its maker speaks of something that we do not know.
    #[error(
        "the executor in `{image}` speaks wire `{wire}`, and this flow speaks `{}` (take an image and a \
         flow that were made for each other)",
        labels::WIRE
    )]
    Wire {
        /// The image.
        image: String,
        /// What it speaks.
        wire: String,
    },
    /// There is nothing in it that could be started.
    #[error(
        "`{image}` says nothing of what runs in it, so it is no executor's (name it with `entrypoint`)"
    )]
    NoEntrypoint {
        /// The image.
        image: String,
    },
    /// Its executor is Python, which does not have everything that ours do.
    #[error("the executor in `{image}` is one of Jina's, and those know no {what}")]
    BeyondJina {
        /// The image.
        image: String,
        /// What was asked.
        what: &'static str,
    },
}

/// Who made an image, and so what its executor is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Maker {
    Flow,
    Jina,
}

/// What is known only at the start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AtStart<'s> {
    /// The process's name in the flow.
    pub(crate) name: &'s str,
    /// Of the machine.
    pub(crate) ports: Ports,
    /// Whom it runs as; none: as the image says.
    pub(crate) user: Option<&'s str>,
}

impl Contained {
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
            for_jina: Vec::new(),
            beyond_jina: Vec::new(),
        }
    }

    /// The address at which the executor listens, as it sees it.
    pub(crate) fn listens_at(&self) -> String {
        match self.container.on_host_network {
            true => self.host.to_string(),
            false => EVERYWHERE.to_owned(),
        }
    }

    /// The workspace as the executor sees it.
    pub(crate) fn workspace_inside(&self) -> Option<&Path> {
        self.workspace.as_ref().map(|_| Path::new(WORKSPACE))
    }

    /// Says to an executor of Jina's what the flow file says of it.
    pub(crate) fn tell_jina(&mut self, run: &LocalRun) {
        self.say_json("--uses-with", &run.with, run.with.is_empty());
        self.say_json("--uses-metas", &run.metas, run.metas.is_empty());
        self.say_json("--uses-requests", &run.requests, run.requests.is_empty());
        let batching = &run.batching;
        self.say_json("--uses-dynamic-batching", batching, batching.is_empty());
        if !run.exit_on_exceptions.is_empty() {
            self.for_jina.push("--exit-on-exceptions".to_owned());
            self.for_jina.extend(run.exit_on_exceptions.clone());
        }
        if run.workers != Workers::default() {
            self.beyond_jina.push("`workers` (write `replicas`)");
        }
    }

    /// Which of its node's shards it is.
    pub(crate) fn tell_jina_shard(&mut self, shard: u16) {
        self.for_jina
            .extend(["--shard-id".to_owned(), shard.to_string()]);
    }

    fn say_json(&mut self, key: &str, value: &impl Serialize, is_empty: bool) {
        if !is_empty {
            let text = serde_json::to_string(value).expect("a map with text keys is always JSON");
            self.for_jina.extend([key.to_owned(), text]);
        }
    }

    /// Who made the image.
    ///
    /// # Errors
    /// If it is nobody whose executors we can start.
    pub(crate) fn maker(&self, image: &Image) -> Result<Maker, BadImage> {
        let named = || self.image.clone();
        if let Some(wire) = image.labels.get(labels::IMAGE_WIRE) {
            return match wire == labels::WIRE {
                true => Ok(Maker::Flow),
                false => Err(BadImage::Wire {
                    image: named(),
                    wire: wire.clone(),
                }),
            };
        }
        let entrypoint = self.container.entrypoint.as_ref();
        let entrypoint = entrypoint.unwrap_or(&image.entrypoint);
        if entrypoint.is_empty() {
            return Err(BadImage::NoEntrypoint { image: named() });
        }
        match self.beyond_jina.first() {
            None => Ok(Maker::Jina),
            Some(what) => Err(BadImage::BeyondJina {
                image: named(),
                what,
            }),
        }
    }

    /// The container to be made. `arguments` and `env` are those that a process would get.
    pub(crate) fn wanted(
        &self,
        maker: Maker,
        arguments: &[String],
        env: &Env,
        at: AtStart<'_>,
    ) -> Wanted {
        let ports = self.ports_inside(at.ports);
        let quiet = match maker {
            Maker::Jina => QUIET,
            Maker::Flow => &[],
        };
        let unset = quiet.iter().filter(|(name, _)| !env.contains_key(*name));
        let unset = unset.map(|(name, value)| format!("{name}={value}"));
        let written = env.iter().map(|(name, value)| format!("{name}={value}"));
        Wanted {
            image: self.image.clone(),
            platform: self.container.platform.clone(),
            entrypoint: self.container.entrypoint.clone(),
            arguments: match maker {
                Maker::Flow => for_flow(arguments, at.name, ports),
                Maker::Jina => self.all_for_jina(at.name, ports),
            },
            env: unset.chain(written).collect(),
            user: at.user.map(str::to_owned),
            binds: self.binds(),
            network: self.network(at.ports),
            gpus: self.container.gpus.as_ref().map(device_request),
            engine: self.container.engine.clone(),
            ..Wanted::default()
        }
    }

    /// Where it is reached once it lives; none: where it says.
    pub(crate) fn reached_at(&self, alive: &Alive, ports: Ports) -> Option<SocketAddr> {
        self.seen_at(alive, ports.serving, PORT_INSIDE)
    }

    /// The same for whoever reads its metrics, if it shows any.
    pub(crate) fn metrics_at(&self, alive: &Alive, ports: Ports) -> Option<SocketAddr> {
        self.seen_at(alive, ports.metrics?, METRICS_INSIDE)
    }

    fn seen_at(&self, alive: &Alive, port: u16, inside: u16) -> Option<SocketAddr> {
        match self.container.on_host_network {
            true => (port > 0).then(|| SocketAddr::new(self.host, port)),
            false => alive.address(inside),
        }
    }

    fn ports_inside(&self, of_the_machine: Ports) -> Ports {
        match self.container.on_host_network {
            true => of_the_machine,
            false => Ports {
                serving: PORT_INSIDE,
                metrics: of_the_machine.metrics.map(|_| METRICS_INSIDE),
            },
        }
    }

    fn network(&self, ports: Ports) -> Network {
        if self.container.on_host_network {
            return Network::Host;
        }
        let serving = (ports.serving, PORT_INSIDE);
        let metrics = ports.metrics.map(|port| (port, METRICS_INSIDE));
        let all = std::iter::once(serving).chain(metrics);
        Network::Published {
            ip: self.host,
            ports: all
                .map(|(port, inside)| PublishedPort { port, inside })
                .collect(),
        }
    }

    fn all_for_jina(&self, name: &str, ports: Ports) -> Vec<String> {
        let port = ports.serving.to_string();
        let host = self.listens_at();
        // Jina's executors count under the name that they are given.
        let name = self.runtime_name.as_deref().unwrap_or(name);
        let first = ["--native", "--name", name, "--host", &host, "--port", &port];
        let mut all: Vec<String> = first.map(str::to_owned).to_vec();
        if let Some(port) = ports.metrics {
            let port = port.to_string();
            all.extend(["--monitoring", "--port-monitoring", &port].map(str::to_owned));
        }
        if let Some(folder) = self.workspace_inside() {
            let folder = folder.to_string_lossy().into_owned();
            all.extend(["--workspace".to_owned(), folder]);
        }
        all.extend(self.for_jina.clone());
        all
    }

    /// The workspace's folder of the machine, unless something else is mounted in its place.
    pub(crate) fn mounted_workspace(&self) -> Option<&Path> {
        let mut volumes = self.container.volumes.iter();
        let is_taken = volumes.any(|volume| volume.inside.trim_end_matches('/') == WORKSPACE);
        self.workspace.as_deref().filter(|_| !is_taken)
    }

    /// Folders of the machine and volumes of the engine, as the engine takes them.
    fn binds(&self) -> Vec<String> {
        let volumes = self.container.volumes.iter().map(|volume| {
            let mode = if volume.read_only { ":ro" } else { "" };
            format!("{}:{}{mode}", volume.host, volume.inside)
        });
        let workspace = self.mounted_workspace().into_iter();
        let workspace = workspace.map(|folder| format!("{}:{WORKSPACE}", folder.display()));
        volumes.chain(workspace).collect()
    }
}

fn for_flow(arguments: &[String], name: &str, ports: Ports) -> Vec<String> {
    let port = ports.serving.to_string();
    let last = ["--port", &port, "--name", name, "--to-launcher"];
    let last = last.map(str::to_owned);
    let metrics = ports.metrics.map(|port| port.to_string());
    let metrics = metrics.map(|port| ["--port-monitoring".to_owned(), port]);
    let all = arguments.iter().cloned().chain(last);
    all.chain(metrics.into_iter().flatten()).collect()
}

/// GPUs as the engine is asked for them.
fn device_request(gpus: &Gpus) -> DeviceRequest {
    let capabilities = gpus.capabilities.iter().cloned();
    let capabilities = capabilities.chain(["gpu".to_owned()]).collect();
    DeviceRequest {
        driver: gpus.driver.clone(),
        count: gpus.count,
        device_ids: Some(gpus.devices.clone()).filter(|it| !it.is_empty()),
        capabilities: Some(vec![capabilities]),
        options: Some(gpus.options.clone().into_iter().collect()),
    }
}

#[cfg(test)]
mod tests;
