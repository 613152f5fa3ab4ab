//! `flow man`: manual pages, made from the same descriptions as the help.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;

use crate::exit::Exit;

const EXAMPLES: &str = "\
EXAMPLES:
  flow man ~/.local/share/man/man1

Exit codes: 0 success, 1 failure, 2 bad usage.";

/// Options of `flow man`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Man {
    /// Folder for the pages, one for each command; created if it is missing
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// `command` describes the command line.
pub(crate) fn run(man: &Man, command: clap::Command) -> anyhow::Result<Exit> {
    let folder = man.folder.display();
    fs::create_dir_all(&man.folder).with_context(|| format!("cannot create folder `{folder}`"))?;
    // The long version would be one wrapped paragraph of each page.
    let command = command.long_version(None);
    clap_mangen::generate_to(command, &man.folder)
        .with_context(|| format!("cannot write manual pages into `{folder}`"))?;
    Ok(Exit::Fine)
}
