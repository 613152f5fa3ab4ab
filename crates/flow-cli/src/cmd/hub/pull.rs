//! `flow hub pull`: pulls an executor's image, so that the next flow with it starts at once.

use clap::Args;

use super::location::{self, LocationOptions};
use super::progress::Layers;
use crate::docker_config;
use crate::exit::Exit;
use crate::output;
use crate::shell::Shell;

const EXAMPLES: &str = "\
EXAMPLES:
  flow hub pull TransformerTorchEncoder:gpu
  flow hub pull my-executor --hub registry.example.com/team

Exit codes: 0 success, 1 failure, 2 bad usage.";

/// Options of `flow hub pull`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Pull {
    /// Name of the executor, optionally with a tag
    #[arg(value_name = "NAME[:TAG]")]
    name: String,
    #[command(flatten)]
    location: LocationOptions,
}

pub(super) async fn run(pull: Pull, shell: &Shell) -> anyhow::Result<Exit> {
    let location = pull.location.resolve(shell)?;
    let image = location::parse_name(&pull.name)?.image(&location.hub);
    let engine = location::engine(shell).await?;
    let credentials = docker_config::credentials(&location.host, shell)?;
    let mut layers = Layers::new(&format!("pulling {image}"));
    let shown = |step| layers.show(step);
    engine.pull(&image, None, credentials, shown).await?;
    drop(layers);
    output::line(&format!("{image} is on this machine"))?;
    Ok(Exit::Fine)
}
