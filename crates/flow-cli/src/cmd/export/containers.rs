//! Exports of flows to containers: Docker Compose, Docker Swarm, Kubernetes and Helm.

mod compose;
#[cfg(feature = "kubernetes")]
mod earlier;
mod files;
#[cfg(feature = "kubernetes")]
mod helm;
mod images;
#[cfg(feature = "kubernetes")]
mod kubernetes;
mod needs;
#[cfg(feature = "kubernetes")]
mod objects;
mod swarm;
mod value;

use clap::Subcommand;

use crate::exit::Exit;
use crate::shell::Shell;

/// The formats.
#[derive(Debug, Subcommand)]
pub(crate) enum Containers {
    /// Write a Docker Compose file that runs a flow
    DockerCompose(compose::Compose),
    /// Write a stack for Docker Swarm that runs a flow
    Swarm(Box<swarm::Swarm>),
    /// Write Kubernetes manifests that run a flow, for Kubernetes 1.30 or newer
    #[cfg(feature = "kubernetes")]
    Kubernetes(Box<kubernetes::Kubernetes>),
    /// Write a chart for Helm that runs a flow
    #[cfg(feature = "kubernetes")]
    Helm(Box<helm::Helm>),
}

pub(super) fn run(containers: &Containers, shell: &Shell) -> anyhow::Result<Exit> {
    match containers {
        Containers::DockerCompose(compose) => compose::run(compose, shell),
        Containers::Swarm(swarm) => swarm::run(swarm, shell),
        #[cfg(feature = "kubernetes")]
        Containers::Kubernetes(kubernetes) => kubernetes::run(kubernetes, shell),
        #[cfg(feature = "kubernetes")]
        Containers::Helm(helm) => helm::run(helm, shell),
    }
}
