//! `flow hub`: shares executors as images in a registry.
//!
//! ```text
//! push   folder ──► tar ──► image with labels ──► registry   push.rs, archive.rs, ignore.rs, labels.rs, python.rs
//! list, info   registry ──► descriptions of executors        show.rs
//! pull         registry ──► this machine                     pull.rs
//! ```
//!
//! `location.rs` finds the registry and the credentials.

mod archive;
mod ignore;
mod labels;
mod location;
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

A flow uses such an executor with `uses: hub://my-executor:v1`. Credentials come from `docker login`.";

/// The commands below `flow hub`.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Hub {
    /// Build an executor's image and push it to the registry, or push an existing image
    Push(push::Push),
    /// List the executors in the registry
    List(show::List),
    /// Show details of an executor in the registry
    Info(show::Info),
    /// Pull an executor's image from the registry
    Pull(pull::Pull),
    /// Create the project of a new executor; same as `flow new executor`
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

/// Runs a command on the current thread: it does one thing at a time.
fn block_on(command: impl Future<Output = anyhow::Result<Exit>>) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(command)
}
