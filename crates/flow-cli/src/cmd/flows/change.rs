//! `flow restart`, `flow scale`, `flow reload` and `flow down`: send commands to a running flow, and print its progress.

use std::num::NonZeroU16;
use std::path::{Path, PathBuf};

use clap::Args;
use flow_launch::protocol::ControlCommand;

use crate::cmd::flows::{control, running};
use crate::exit::Exit;
use crate::output;
use crate::shell::Shell;

/// Options of `flow restart`.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  flow restart encoder
  flow restart encoder/rep-1 --flow flows/encode.yml

Processes are replaced one after another. An old process ends when the new one is ready and its own
requests have finished. One that keeps state in its workspace, such as an index, ends before the new one
starts.

Exit codes: 0 success, 1 the change failed, or no flow is running, 2 bad usage.")]
pub(crate) struct Restart {
    /// Executor to restart, or one of its processes such as `encoder/rep-1`
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    which: FlowOption,
}

/// Options of `flow scale`.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  flow scale encoder=3
  flow scale encoder=1 --flow flows/encode.yml

The number is kept until the flow is reloaded or started again. That of an executor with state, such as an
index, does not change: a new replica would be empty.

Exit codes: 0 success, 1 the change failed, or no flow is running, 2 bad usage.")]
pub(crate) struct Scale {
    /// Executor and its new number of replicas, for each of its shards
    #[arg(value_name = "NAME=N", value_parser = name_and_number)]
    to: (String, NonZeroU16),
    #[command(flatten)]
    which: FlowOption,
}

/// Options of `flow reload`.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  flow reload
  flow reload flows/encode.yml

Only executors whose settings differ are restarted. With `reload: true` in the file, a flow reloads
whenever its file changes.

Exit codes: 0 success, 1 the change failed, or no flow is running, 2 bad usage or a bad flow file.")]
pub(crate) struct Reload {
    /// Flow to reload; needed if several flows are running
    #[arg(value_name = "FLOW.yml")]
    file: Option<PathBuf>,
}

/// Options of `flow down`.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  flow down
  flow down flows/encode.yml
  flow down --all

Exit codes: 0 success, 1 failure, or no flow is running, 2 bad usage.")]
pub(crate) struct Down {
    /// Flow to stop; needed if several flows are running
    #[arg(value_name = "FLOW.yml")]
    file: Option<PathBuf>,
    /// Stop all running flows, or all that were started from the given file
    #[arg(long)]
    all: bool,
}

/// The option that selects a running flow.
#[derive(Debug, Args)]
struct FlowOption {
    /// Flow to change; needed if several flows are running
    #[arg(long, value_name = "FLOW.yml")]
    flow: Option<PathBuf>,
}

fn name_and_number(text: &str) -> Result<(String, NonZeroU16), String> {
    let (name, number) = text
        .split_once('=')
        .ok_or("needs the form `NAME=N`, such as `encoder=3`")?;
    let number = number
        .parse()
        .map_err(|_| format!("`{number}` is not a number of replicas, which is at least 1"))?;
    Ok((name.to_owned(), number))
}

pub(crate) fn restart(restart: Restart, shell: &Shell) -> anyhow::Result<Exit> {
    let ask = ControlCommand::Restart { name: restart.name };
    change(restart.which.flow.as_deref(), ask, shell)
}

pub(crate) fn scale(scale: Scale, shell: &Shell) -> anyhow::Result<Exit> {
    let (name, replicas) = scale.to;
    let ask = ControlCommand::Scale { name, replicas };
    change(scale.which.flow.as_deref(), ask, shell)
}

pub(crate) fn reload(reload: &Reload, shell: &Shell) -> anyhow::Result<Exit> {
    change(reload.file.as_deref(), ControlCommand::Reload, shell)
}

fn change(file: Option<&Path>, ask: ControlCommand, shell: &Shell) -> anyhow::Result<Exit> {
    let entry = running::find_one(file, shell)?;
    control::ask(&entry, ask)?;
    Ok(Exit::Fine)
}

pub(crate) fn down(down: &Down, shell: &Shell) -> anyhow::Result<Exit> {
    let file = down.file.as_deref();
    let entries = if down.all {
        running::find(file, shell)?
    } else {
        vec![running::find_one(file, shell)?]
    };
    for entry in &entries {
        control::down(entry)?;
        output::line(&format!("{} is down", running::name(entry)))?;
    }
    Ok(Exit::Fine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_replicas_follows_the_name() {
        let check = |text: &str, expected: Result<(&str, u16), &str>| {
            let found = name_and_number(text);
            let found = found.as_ref().map(|(name, n)| (name.as_str(), n.get()));
            assert_eq!(found, expected.map_err(str::to_owned).as_ref().copied());
        };
        check("a=3", Ok(("a", 3)));
        check("a", Err("needs the form `NAME=N`, such as `encoder=3`"));
        check(
            "a=0",
            Err("`0` is not a number of replicas, which is at least 1"),
        );
        check(
            "a=x",
            Err("`x` is not a number of replicas, which is at least 1"),
        );
    }
}
