//! `flow check`: reports the problems of flow files without starting anything.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::error_report;
use crate::exit::Exit;
use crate::flow_file;
use crate::output::{self, Colour, Painter};
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
}

/// Checks every file, even after one with problems. Prints problems on stderr.
pub(crate) fn run(check: &Check, shell: &Shell) -> anyhow::Result<Exit> {
    let mut worst = Exit::Fine;
    for file in &check.files {
        match flow_file::load_to_start(file, shell, &|_| {}) {
            Ok(checked) => {
                flow_file::warn(file, &checked, shell);
                print_fine(file, shell)?;
            }
            Err(error) => worst = error_report::report(&error),
        }
    }
    Ok(worst)
}

fn print_fine(file: &Path, shell: &Shell) -> anyhow::Result<()> {
    let fine = Painter::stdout(shell).paint(Colour::Green, "fine");
    Ok(output::line(&format!("{}: {fine}", file.display()))?)
}
