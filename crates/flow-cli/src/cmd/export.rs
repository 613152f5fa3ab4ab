//! `flow export`: flows as files for Docker Compose, Docker Swarm and Kubernetes, and a schema of flow files for editors.

#[cfg(feature = "launch")]
mod containers;

use anyhow::Context;
use clap::Subcommand;

use crate::exit::Exit;
use crate::output;
use crate::shell::Shell;

const SCHEMA_EXAMPLES: &str = "\
EXAMPLES:
  flow export schema > flow.schema.json

Editors that use the YAML language server find the schema by the first line of a flow file:
  # yaml-language-server: $schema=flow.schema.json

Exit codes: 0 success, 1 failure, 2 bad usage.";

/// What can be exported.
#[derive(Debug, Subcommand)]
pub(crate) enum Export {
    #[cfg(feature = "launch")]
    #[command(flatten)]
    Containers(containers::Containers),
    /// Print the JSON Schema of flow files, with which editors complete and check them
    #[command(after_help = SCHEMA_EXAMPLES)]
    Schema,
}

#[cfg_attr(
    not(feature = "launch"),
    allow(unused_variables, reason = "a schema needs no shell")
)]
pub(crate) fn run(export: &Export, shell: &Shell) -> anyhow::Result<Exit> {
    match export {
        #[cfg(feature = "launch")]
        Export::Containers(containers) => containers::run(containers, shell),
        Export::Schema => print_schema(),
    }
}

fn print_schema() -> anyhow::Result<Exit> {
    let schema = flow_spec::json_schema();
    let text = serde_json::to_string_pretty(&schema).context("cannot write the schema")?;
    output::line(&text)?;
    Ok(Exit::Fine)
}
