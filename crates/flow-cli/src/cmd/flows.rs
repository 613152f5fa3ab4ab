//! The commands that start and operate flows on this machine.

mod change;
mod control;
mod json_line;
mod log_level;
mod logs;
mod ps;
pub(crate) mod running;
#[cfg(feature = "top")]
mod top;
mod up;

pub(crate) use logs::log_names;

use clap::Subcommand;

use crate::exit::Exit;
use crate::runtime::block_on;
use crate::shell::Shell;

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Flows {
    /// Start a flow and serve it until Ctrl-C
    Up(up::Up),
    /// List running flows and their processes
    Ps(ps::Ps),
    /// Watch rates, latencies and resources of running flows
    #[cfg(feature = "top")]
    Top(top::Top),
    /// Show the logs of a flow's processes, merged by time
    Logs(logs::Logs),
    /// Change which events a running flow logs
    LogLevel(log_level::LogLevel),
    /// Replace an executor's processes without losing requests
    Restart(change::Restart),
    /// Change how many replicas an executor has
    Scale(change::Scale),
    /// Apply the changes in a flow file to the running flow
    Reload(change::Reload),
    /// Stop a running flow after its requests in progress have finished
    Down(change::Down),
}

pub(crate) fn run(command: Flows, shell: &Shell) -> anyhow::Result<Exit> {
    match command {
        Flows::Up(up) => block_on(up::run(up, shell)),
        Flows::Ps(ps) => ps::run(&ps, shell),
        #[cfg(feature = "top")]
        Flows::Top(top) => block_on(top::run(top, shell)),
        Flows::Logs(logs) => logs::run(&logs, shell),
        Flows::LogLevel(log_level) => log_level::run(log_level, shell),
        Flows::Restart(restart) => change::restart(restart, shell),
        Flows::Scale(scale) => change::scale(scale, shell),
        Flows::Reload(reload) => change::reload(&reload, shell),
        Flows::Down(down) => change::down(&down, shell),
    }
}
