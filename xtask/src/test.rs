//! `cargo xtask test`: every test of the workspace, with all that the tests need.
//!
//! Tests find their surroundings in two variables: `FLOW_BIN` is the program `flow`, `FLOW_PEERS` the
//! folder of stock peers. A peer that could not be set up leaves its tests out, and is told of twice:
//! before the tests and after them.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::setup::{self, Missing};
use crate::shell;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Fail if a peer cannot be set up, instead of leaving its tests out.
    #[arg(long)]
    strict: bool,

    /// Passed on to `cargo test`.
    #[arg(last = true)]
    rest: Vec<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let missing = setup::for_tests()?;
    let skipped = skipped(&missing);
    eprint!("{skipped}");
    if args.strict && !missing.is_empty() {
        anyhow::bail!("{} of the peers could not be set up", missing.len());
    }
    // The selection that `cargo test` makes too: with another one cargo would unify features
    // differently and build the dependencies twice.
    shell::run(cargo().args(["build", "--workspace", "--bins", "--tests"]))?;
    let tested = shell::run(&mut cargo_test(args)?);
    eprint!("{skipped}");
    tested
}

fn cargo_test(args: &Args) -> anyhow::Result<Command> {
    let mut command = cargo();
    command.args(["test", "--workspace"]).args(&args.rest);
    command.env("FLOW_BIN", target()?.join("flow"));
    command.env("FLOW_PEERS", setup::folder());
    Ok(command)
}

/// Where cargo puts programs of the profile that tests have: this program is one of them.
fn target() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("cannot tell where xtask itself lies")?;
    Ok(own.parent().map(Path::to_path_buf).unwrap_or_default())
}

pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(crate::root());
    command
}

/// What is left out and why, for whoever reads the output.
fn skipped(missing: &[Missing]) -> String {
    let lines = missing.iter().map(|Missing { name, why }| {
        format!("SKIPPED: tests against `{name}`, which could not be set up: {why:#}\n")
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_skipped_is_told_with_its_reason() {
        let why = anyhow::anyhow!("there is no python3");
        let told = skipped(&[Missing {
            name: "jina-v1",
            why,
        }]);
        assert!(
            told.contains("SKIPPED") && told.contains("`jina-v1`"),
            "{told}"
        );
        assert!(told.contains("there is no python3"), "{told}");
        assert_eq!(skipped(&[]), "");
    }
}
