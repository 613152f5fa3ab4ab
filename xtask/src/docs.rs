//! `cargo xtask docs`: checks the documents, and builds the book as HTML.
//!
//! The checks are those of `cargo xtask tidy`, so CI makes them without compiling mdBook. mdBook is installed on first use
//! below `target/tools`, with its search and without its web server.

use std::path::{Path, PathBuf};

use crate::repository::root;
use crate::{shell, tidy};

/// The version of mdBook that builds the book.
const MDBOOK: &str = "0.5.4";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only check links, names and the table of contents.
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    tidy::documents()?;
    if args.check {
        return Ok(());
    }
    let mdbook = install()?;
    let mut command = std::process::Command::new(mdbook);
    shell::run(command.arg("build").arg(root().join("docs")))?;
    eprintln!(
        "the book is in {}",
        root().join("target/book/index.html").display()
    );
    Ok(())
}

/// The program `mdbook` of the pinned version.
fn install() -> anyhow::Result<PathBuf> {
    let tools = root().join("target/tools");
    let program = tools.join("bin/mdbook");
    if is_current(&program) {
        return Ok(program);
    }
    let mut command = shell::cargo();
    // Without optimisation: compiling mdBook takes far longer than running it.
    command.args(["install", "--locked", "--debug", "--quiet", "--force"]);
    command.args(["--no-default-features", "--features", "search"]);
    command
        .arg("--root")
        .arg(&tools)
        .arg("--target-dir")
        .arg(tools.join("build"));
    shell::run(command.args(["--version", MDBOOK, "mdbook"]))?;
    Ok(program)
}

fn is_current(program: &Path) -> bool {
    let version = shell::output(std::process::Command::new(program).arg("--version"));
    version.is_ok_and(|text| text.trim().trim_start_matches("mdbook v") == MDBOOK)
}
