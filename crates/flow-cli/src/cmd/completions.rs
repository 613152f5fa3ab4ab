//! `flow completions`: scripts that complete commands in shells.

use clap::Args;
use clap_complete::{Shell, generate};

use crate::exit::Exit;
use crate::output;

const EXAMPLES: &str = "\
EXAMPLES:
  source <(flow completions bash)
  flow completions fish > ~/.config/fish/completions/flow.fish
  flow completions zsh > \"${fpath[1]}/_flow\"

Exit codes: 0 success, 1 failure, 2 bad usage.";

/// Options of `flow completions`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Completions {
    /// Shell to generate the script for
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

/// `command` describes the command line.
pub(crate) fn run(completions: &Completions, mut command: clap::Command) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    generate(completions.shell, &mut command, "flow", &mut script);
    output::bytes(&script)?;
    Ok(Exit::Fine)
}
