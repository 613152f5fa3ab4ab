//! `flow check`: reports the problems of flow files without starting anything.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use flow_spec::Plan;

use crate::credentials;
use crate::error_report;
use crate::exit::{BadUsage, Exit};
use crate::flow_file::{self, ReadOptions};
use crate::output::{self, Colour, Painter};
use crate::resolve::resolve_folders;
use crate::shell::Shell;

const EXAMPLES: &str = "\
EXAMPLES:
  flow check flows/encode.yml
  flow check flows/*.yml && flow up flows/encode.yml

Exit codes: 0 no problems, 2 problems or bad usage.";

/// Options of `flow check`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Check {
    /// Flow files to check
    #[arg(value_name = "FLOW.yml", required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    options: ReadOptions,
}

/// Checks every file, even after one with problems. Prints problems on stderr.
pub(crate) fn run(check: &Check, shell: &Shell) -> anyhow::Result<Exit> {
    let mut worst = Exit::Fine;
    for file in &check.files {
        match check_file(file, check.options, shell) {
            Ok(()) => print_fine(file, shell)?,
            Err(error) => worst = error_report::report(&error),
        }
    }
    Ok(worst)
}

fn check_file(file: &Path, options: ReadOptions, shell: &Shell) -> anyhow::Result<()> {
    let checked = flow_file::load_to_start(file, options, shell, &|_| {})?;
    flow_file::warn(file, &checked, shell);
    let mut plan = Plan::from(checked.flow);
    resolve_folders(&mut plan, file, shell)?;
    credentials::check(&plan).with_context(|| BadUsage(format!("`{}`", file.display())))
}

fn print_fine(file: &Path, shell: &Shell) -> anyhow::Result<()> {
    let fine = Painter::stdout(shell).paint(Colour::Green, "fine");
    Ok(output::line(&format!("{}: {fine}", file.display()))?)
}
