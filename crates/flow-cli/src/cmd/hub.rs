//! `flow hub`: executors as images in a registry of one's own, by their names.
//!
//! ```text
//! push   folder ──► tar ──► image with labels ──► registry   push.rs, archive.rs, ignore.rs, labels.rs, python.rs
//! list, info   registry ──► what is said of executors        show.rs
//! pull         registry ──► this machine                     pull.rs
//! ```
//!
//! Which registry, and who we are there, is decided in `place.rs`.

mod archive;
mod ignore;
mod labels;
mod place;
mod progress;
mod pull;
mod push;
mod python;
mod show;

use anyhow::Context;
use clap::Subcommand;

use crate::cmd::new;
use crate::exit::Exit;
use crate::shell::Shell;

const EXAMPLES: &str = "\
EXAMPLES:
  export FLOW_HUB=registry.example.com/team   # or `--hub`, or `hub:` under `with:` in a flow file
  flow hub push ./my-executor -t v1 -t latest
  flow hub push --image sentence-encoder --name TransformerTorchEncoder -t gpu
  flow hub list
  flow hub info TransformerTorchEncoder:gpu

A flow uses it as `uses: hub://my-executor:v1`. Passwords are those of `docker login`.";

/// The commands below `flow hub`.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Hub {
    /// Build an executor's image and send it to the hub, or send an image that is there.
    Push(push::Push),
    /// Show the executors in the hub.
    List(show::List),
    /// Show what is known of one of them.
    Info(show::Info),
    /// Fetch the image of one of them.
    Pull(pull::Pull),
    /// The same as `flow new executor`.
    New(new::NewExecutor),
}

pub(crate) fn run(hub: Hub, shell: &Shell) -> anyhow::Result<Exit> {
    match hub {
        Hub::Push(push) => block_on(push::run(push, shell)),
        Hub::List(list) => show::list(&list, shell),
        Hub::Info(info) => show::info(&info, shell),
        Hub::Pull(pull) => block_on(pull::run(pull, shell)),
        Hub::New(executor) => new::run(new::New::Executor(executor), shell),
    }
}

/// An engine is talked to over one connection, and nothing else goes on meanwhile.
fn block_on(command: impl Future<Output = anyhow::Result<Exit>>) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(command)
}
