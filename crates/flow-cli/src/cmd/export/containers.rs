//! Exports of flows to containers: Docker Compose and Kubernetes.

mod compose;
mod files;
mod images;
#[cfg(feature = "kubernetes")]
mod kubernetes;
mod needs;
mod value;

use clap::Subcommand;

use crate::exit::Exit;
use crate::shell::Shell;

/// The formats.
#[derive(Debug, Subcommand)]
pub(crate) enum Containers {
    /// Write a Docker Compose file that runs a flow
    DockerCompose(compose::Compose),
    /// Write Kubernetes manifests that run a flow, for Kubernetes 1.30 or newer
    #[cfg(feature = "kubernetes")]
    Kubernetes(Box<kubernetes::Kubernetes>),
}

pub(super) fn run(containers: &Containers, shell: &Shell) -> anyhow::Result<Exit> {
    match containers {
        Containers::DockerCompose(compose) => compose::run(compose, shell),
        #[cfg(feature = "kubernetes")]
        Containers::Kubernetes(kubernetes) => kubernetes::run(kubernetes, shell),
    }
}
