//! `flow export`: what other programs want to know of flows, as files of theirs.

use anyhow::Context;
use clap::Subcommand;

use crate::exit::Exit;
use crate::output;

const SCHEMA_EXAMPLES: &str = "\
EXAMPLES:
  flow export schema > flow.schema.json

An editor with the YAML language server takes it from the first line of a flow file:
  # yaml-language-server: $schema=flow.schema.json";

/// What can be exported.
#[derive(Debug, Subcommand)]
pub(crate) enum Export {
    /// Print a JSON Schema of flow files, with which editors complete and check them.
    #[command(after_help = SCHEMA_EXAMPLES)]
    Schema,
}

pub(crate) fn run(export: &Export) -> anyhow::Result<Exit> {
    match export {
        Export::Schema => schema(),
    }
}

fn schema() -> anyhow::Result<Exit> {
    let schema = flow_spec::json_schema();
    let text = serde_json::to_string_pretty(&schema).context("cannot write the schema")?;
    output::line(&text)?;
    Ok(Exit::Fine)
}
