//! `flow hub pull`: fetches an executor's image, so that the next flow with it starts at once.

use clap::Args;

use super::place::{self, Where};
use super::progress::Layers;
use crate::exit::Exit;
use crate::login;
use crate::output;
use crate::shell::Shell;

/// Options of `flow hub pull`.
#[derive(Debug, Args)]
pub(crate) struct Pull {
    /// Name of the executor, optionally with a tag
    #[arg(value_name = "NAME[:TAG]")]
    name: String,
    #[command(flatten)]
    place: Where,
}

pub(super) async fn run(pull: Pull, shell: &Shell) -> anyhow::Result<Exit> {
    let place = pull.place.place(shell)?;
    let image = place::name(&pull.name)?.image(&place.hub);
    let engine = place::engine(shell).await?;
    let credentials = login::credentials(&place.host, shell)?;
    let mut layers = Layers::new(&format!("fetching {image}"));
    let shown = |step| layers.show(step);
    engine.pull(&image, None, credentials, shown).await?;
    drop(layers);
    output::line(&format!("{image} is here"))?;
    Ok(Exit::Fine)
}
