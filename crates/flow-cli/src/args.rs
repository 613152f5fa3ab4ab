//! What can be typed: the program's own options and its commands.
//!
//! Each command's options stand in its own file under `cmd/`.

use clap::{Parser, Subcommand};

use crate::cmd::{
    announce, bench, change, check, completions, devices, executor, export, gateway, hub, logs,
    model, new, ping, plot, post, ps, up,
};
use crate::log::LogArgs;

/// Serves pipelines of executors from one YAML file.
#[derive(Debug, Parser)]
#[command(name = "flow", version, propagate_version = true, max_term_width = 100)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) log: LogArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
EXAMPLES:
  flow up flows/encode.yml
  flow post grpc://127.0.0.1:54321 --on /encode --text \"hello world\"
  flow post grpc://127.0.0.1:54321 --on /encode --input docs.jsonl --output out.jsonl

Exit codes: 0 fine, 1 failed, 2 bad usage or file.";

/// The commands, in the order in which most people meet them.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start everything that a flow file names, and serve until Ctrl-C.
    Up(up::Up),
    /// List the processes of running flows.
    Ps(ps::Ps),
    /// Show what a flow's processes wrote.
    Logs(logs::Logs),
    /// Replace the processes of an executor by new ones, without losing a request.
    Restart(change::Restart),
    /// Change how many replicas an executor of a running flow has.
    Scale(change::Scale),
    /// Make a running flow follow its changed file; only what differs is restarted.
    Reload(change::Reload),
    /// End a running flow in order.
    Down(change::Down),
    /// Check flow files without starting anything.
    Check(check::Check),
    /// Draw a flow, without starting anything.
    Plot(plot::Plot),
    /// Send documents to a flow and get them back.
    Post(post::Post),
    /// Ask whether a flow or an executor is ready.
    Ping(ping::Ping),
    /// Start only the gateway, for executors that run elsewhere.
    Gateway(gateway::Gateway),
    /// Start one executor: a built-in one, or a folder's.
    Executor(executor::Executor),
    /// Write an executor or a flow to begin with.
    #[command(subcommand)]
    New(new::New),
    /// What Jina's users know under this name.
    #[command(subcommand)]
    Hub(hub::Hub),
    /// Fetch, list and find models.
    #[command(subcommand)]
    Model(model::Model),
    /// List what this machine can compute on.
    Devices(devices::Devices),
    /// Write what other programs want to know of flows.
    #[command(subcommand)]
    Export(export::Export),
    /// Measure how fast this machine is.
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Print a script that teaches a shell to complete flow's commands.
    Completions(completions::Completions),
    /// Say that another process is ready.
    #[command(hide = true)]
    Announce(announce::Announce),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn clap_finds_nothing_wrong_with_the_options() {
        Args::command().debug_assert();
    }
}
