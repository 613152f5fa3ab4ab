//! `flow log-level`: changes which events the processes of a running flow log.

use clap::Args;
use flow_launch::protocol::ControlCommand;
use flow_launch::registry::RegistryEntry;
use flow_process::LogFilter;

use crate::cmd::flows::{control, running};
use crate::exit::{BadUsage, Exit};
use crate::shell::Shell;

/// The level that each process started with.
const OWN: &str = "default";

const EXAMPLES: &str = "\
EXAMPLES:
  flow log-level encode debug
  flow log-level encode gateway debug
  flow log-level flows/encode.yml encoder/rep-1 warn,flow_net=debug
  flow log-level encode default   # what each process started with

The level lasts until the flow ends, also for a process that is restarted. Executors of Jina, other
programs, and containers keep the level that they start with.

Exit codes: 0 success, 1 failure, 2 bad usage.";

/// Options of `flow log-level`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_missing_positional = true)]
pub(crate) struct LogLevel {
    /// Running flow: its name, the name of its file, or the file
    #[arg(value_name = "FLOW")]
    flow: String,
    /// Executor, or one of its processes such as `encoder/rep-1`, or `gateway` [default: all]
    #[arg(value_name = "PROCESS")]
    process: Option<String>,
    /// Lowest level to log: error, warn, info, debug or trace; a filter such as `warn,flow_net=debug`; or
    /// `default`
    #[arg(value_name = "LEVEL", required = true)]
    level: String,
}

pub(crate) fn run(log_level: LogLevel, shell: &Shell) -> anyhow::Result<Exit> {
    let filter = match log_level.level.as_str() {
        OWN => None,
        level => Some(filter(level)?),
    };
    let entry = find(&log_level.flow, shell)?;
    let command = ControlCommand::LogLevel {
        name: log_level.process,
        filter,
    };
    control::ask(&entry, command)?;
    Ok(Exit::Fine)
}

/// A wrong filter is reported before the flow is looked for.
fn filter(level: &str) -> Result<String, BadUsage> {
    let parsed: Result<LogFilter, _> = level.parse();
    let parsed = parsed.map_err(|error| BadUsage(error.to_string()))?;
    Ok(parsed.to_string())
}

/// The running flow of this name.
fn find(flow: &str, shell: &Shell) -> anyhow::Result<RegistryEntry> {
    let mut found = running::find(None, shell)?;
    found.retain(|entry| {
        let own = || control::listing(entry).ok().and_then(|it| it.flow);
        running::is_called(entry, flow, own)
    });
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => anyhow::bail!("no flow `{flow}` is running; `flow ps` lists those that are"),
        _ => {
            let files: Vec<String> = found.iter().map(running::name).collect();
            anyhow::bail!(BadUsage(format!(
                "several flows `{flow}` are running; give the path of one: {}",
                files.join(", ")
            )))
        }
    }
}
