//! `flow hub`: what Jina's users know under this name.

use clap::Subcommand;

use crate::cmd::new;
use crate::exit::Exit;
use crate::shell::Shell;

/// The commands below `flow hub`.
#[derive(Debug, Subcommand)]
pub(crate) enum Hub {
    /// The same as `flow new executor`.
    New(new::NewExecutor),
}

pub(crate) fn run(hub: Hub, shell: &Shell) -> anyhow::Result<Exit> {
    match hub {
        Hub::New(executor) => new::run(new::New::Executor(executor), shell),
    }
}
