//! `flow export`: flows as files for Docker Compose and Kubernetes, and a schema of flow files for editors.

mod containers;
mod earlier;
mod options;

use anyhow::Context;
use clap::Subcommand;

use crate::exit::Exit;
use crate::output;
use crate::shell::Shell;

const SCHEMA_EXAMPLES: &str = "\
EXAMPLES:
  flow export schema > flow.schema.json

Editors that use the YAML language server find the schema by the first line of a flow file:
  # yaml-language-server: $schema=flow.schema.json";

/// What can be exported.
#[derive(Debug, Subcommand)]
pub(crate) enum Export {
    /// Write a Docker Compose file that runs a flow
    #[command(after_help = containers::COMPOSE_EXAMPLES)]
    DockerCompose(containers::Compose),
    /// Write Kubernetes manifests that run a flow, for Kubernetes 1.30 or newer
    #[command(after_help = containers::KUBERNETES_EXAMPLES)]
    Kubernetes(Box<containers::Kubernetes>),
    /// Print the JSON Schema of flow files, with which editors complete and check them
    #[command(after_help = SCHEMA_EXAMPLES)]
    Schema,
}

pub(crate) fn run(export: &Export, shell: &Shell) -> anyhow::Result<Exit> {
    match export {
        Export::DockerCompose(compose) => containers::compose(compose, shell),
        Export::Kubernetes(kubernetes) => containers::kubernetes(kubernetes, shell),
        Export::Schema => schema(),
    }
}

fn schema() -> anyhow::Result<Exit> {
    let schema = flow_spec::json_schema();
    let text = serde_json::to_string_pretty(&schema).context("cannot write the schema")?;
    output::line(&text)?;
    Ok(Exit::Fine)
}
