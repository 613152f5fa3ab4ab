//! `flow ps`: the processes of running flows.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use flow_launch::protocol::{FlowStatus, ProcessInfo};
use flow_launch::registry::RegistryEntry;
use serde_json::{Value, json};

use crate::cmd::flows::{control, running};
use crate::escape::escape_json;
use crate::exit::Exit;
use crate::output::{self, Painter};
use crate::shell::Shell;
use crate::table::Table;

const EXAMPLES: &str = "\
EXAMPLES:
  flow ps
  flow ps flows/encode.yml --json

Exit codes: 0 a flow is running, 1 none is running, 2 bad usage.";

/// Options of `flow ps`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Ps {
    /// List only the flows that were started from this file
    #[arg(value_name = "FLOW.yml")]
    file: Option<PathBuf>,
    /// Print a JSON array instead of tables
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(ps: &Ps, shell: &Shell) -> anyhow::Result<Exit> {
    let entries = running::find(ps.file.as_deref(), shell)?;
    let listings = entries.iter().map(|entry| (entry, control::listing(entry)));
    // A flow that has just ended does not answer.
    let found: Vec<(&RegistryEntry, FlowStatus)> = listings
        .filter_map(|(entry, listing)| Some((entry, listing.ok()?)))
        .collect();
    if ps.json {
        let all: Vec<Value> = found.iter().map(|(entry, it)| as_json(entry, it)).collect();
        output::line(&escape_json(&Value::Array(all).to_string()))?;
    } else {
        let columns = output::columns(std::io::stdout());
        for (entry, listing) in &found {
            output::line(&running::name(entry))?;
            output::line(&table(listing).text(Painter::stdout(shell), columns))?;
        }
    }
    if !found.is_empty() {
        return Ok(Exit::Fine);
    }
    if !ps.json {
        output::error_line("no flow is running");
    }
    Ok(Exit::Failed)
}

fn as_json(entry: &RegistryEntry, listing: &FlowStatus) -> Value {
    json!({
        "file": entry.file,
        "folder": entry.state_directory,
        "pid": entry.pid,
        "flow": listing.flow,
        "processes": listing.processes,
    })
}

fn table(listing: &FlowStatus) -> Table {
    let heads = [
        "Process", "Address", "Pid", "State", "Restarts", "Uptime", "Memory",
    ];
    Table {
        head: Some(heads.map(str::to_owned).to_vec()),
        rows: listing.processes.iter().map(row).collect(),
    }
}

fn row(process: &ProcessInfo) -> Vec<String> {
    let text = |it: Option<String>| it.unwrap_or_else(|| "–".to_owned());
    let state = serde_json::to_value(process.state).unwrap_or_default();
    vec![
        process.name.clone(),
        text(process.address.as_ref().map(|it| it.to_string())),
        text(process.pid.map(|it| it.to_string())),
        state.as_str().unwrap_or_default().to_owned(),
        process.restarts.to_string(),
        text(process.uptime_seconds.map(uptime)),
        text(process.memory_bytes.map(memory)),
    ]
}

fn uptime(seconds: f64) -> String {
    let whole = Duration::try_from_secs_f64(seconds.floor()).unwrap_or_default();
    humantime::format_duration(whole).to_string()
}

fn memory(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

#[cfg(test)]
mod tests {
    use flow_launch::protocol::ProcessState;

    use super::*;

    #[test]
    fn a_process_is_a_row() {
        let process = ProcessInfo {
            name: "a/rep-0".to_owned(),
            node: Some("a".to_owned()),
            pid: Some(7),
            state: ProcessState::Waiting,
            address: None,
            restarts: 2,
            uptime_seconds: Some(3_723.9),
            memory_bytes: Some(5 << 20),
        };
        let expected = ["a/rep-0", "–", "7", "waiting", "2", "1h 2m 3s", "5 MiB"];
        assert_eq!(row(&process), expected);
    }
}
