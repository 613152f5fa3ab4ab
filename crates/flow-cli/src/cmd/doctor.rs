//! `flow doctor`: examines this machine, and optionally a flow, and suggests a remedy for each finding.
//!
//! ```text
//! finding.rs      what was found, and the report       pure
//! machine.rs      limits, memory, processor, GPUs, clock
//! folders.rs      state and model caches
//! services.rs     Docker, Python, the hub
//! flow_file.rs    a flow: its file, ports, executors, models
//! certificate.rs  when a certificate expires           pure
//! ```

mod certificate;
mod finding;
mod flow_file;
mod folders;
mod machine;
mod services;

use std::io;
use std::path::PathBuf;

use clap::Args;

use self::finding::{Finding, Level, summary, table, to_json};
use self::flow_file::Needs;
use crate::escape::escape_json;
use crate::exit::Exit;
use crate::output::{self, Painter};
use crate::shell::Shell;

const EXAMPLES: &str = "\
EXAMPLES:
  flow doctor
  flow doctor flows/encode.yml
  flow doctor flows/encode.yml --online --json

A problem keeps flows, or the given flow, from running; a warning may slow them down or stop them later.
Nothing is changed, and nothing is fetched.

Exit codes: 0 no problems, 1 problems, 2 bad usage.";

/// Options of `flow doctor`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Doctor {
    /// Flow to examine besides the machine
    #[arg(value_name = "FLOW.yml")]
    file: Option<PathBuf>,
    /// Also try to reach the hub from which models come
    #[arg(long)]
    online: bool,
    /// Print a JSON object instead of a table
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(doctor: Doctor, shell: &Shell) -> anyhow::Result<Exit> {
    let (of_flow, needs) = match &doctor.file {
        Some(file) => flow_file::examine(file, shell),
        None => (Vec::new(), Needs::default()),
    };
    let mut findings = machine::examine(&needs);
    findings.extend(folders::examine(shell));
    findings.extend(services::examine(&needs, doctor.online, shell).await);
    findings.extend(of_flow);
    report(&findings, doctor.json, shell)?;
    let has_problem = findings.iter().any(|it| it.level == Level::Problem);
    Ok(match has_problem {
        true => Exit::Failed,
        false => Exit::Fine,
    })
}

fn report(findings: &[Finding], as_json: bool, shell: &Shell) -> anyhow::Result<()> {
    if as_json {
        return Ok(output::line(&escape_json(&to_json(findings).to_string()))?);
    }
    let painter = Painter::stdout(shell);
    let columns = output::columns(io::stdout());
    output::line(&table(findings).text(painter, columns))?;
    Ok(output::line(&summary(findings))?)
}
