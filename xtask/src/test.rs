//! `cargo xtask test`: every test of the workspace, with all that the tests need.
//!
//! Tests find their surroundings in two variables: `FLOW_BIN` is the program `flow`, `FLOW_PEERS` the
//! folder of stock peers. The tests of a peer that could not be set up are skipped, which is reported twice:
//! before the tests and after them.

use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Instant;

use anyhow::Context;

use crate::docker_leftovers::Before;
use crate::setup::{self, SetupFailure};
use crate::shell;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Fail if third-party software cannot be installed, instead of skipping its tests.
    #[arg(long)]
    strict: bool,

    /// Arguments for `cargo test`.
    #[arg(last = true)]
    rest: Vec<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let missing = step(
        1,
        "building the tests, and installing their peers into .peers/",
        build_and_set_up,
    )?;
    let skipped = skipped(&missing);
    eprint!("{skipped}");
    if args.strict && !missing.is_empty() {
        anyhow::bail!("{} of the peers could not be set up", missing.len());
    }
    let before = Before::look()?;
    let tested = step(2, "running the tests", || {
        shell::run(&mut cargo_test(&args.rest)?)
    });
    eprint!("{skipped}");
    tested.and(before.check())
}

/// Compiles while packages are downloaded.
fn build_and_set_up() -> anyhow::Result<Vec<SetupFailure>> {
    thread::scope(|scope| {
        let set_up = scope.spawn(setup::for_tests);
        let built = shell::run(
            shell::cargo()
                .arg("build")
                .args(PACKAGES)
                .args(["--bins", "--tests", "--lib"]),
        );
        let missing = set_up.join().unwrap_or_else(|panic| resume_unwind(panic));
        built?;
        let missing = missing?;
        if missing.iter().all(|it| it.name != "python") {
            setup::install_package()?;
        }
        Ok(missing)
    })
}

/// Steps of [`run`].
const STEPS: usize = 2;

/// What is built and tested: all that has tests. Building and testing name the same packages, for with other
/// ones cargo would unify features differently and build the dependencies twice.
pub(crate) const PACKAGES: [&str; 5] = [
    "--workspace",
    "--exclude",
    "xtask-codegen",
    "--exclude",
    "bare-tonic",
];

/// Says what begins, does it, and says how long it took.
fn step<T>(
    number: usize,
    what: &str,
    run: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let started = Instant::now();
    eprintln!("[{number}/{STEPS}] {what}");
    let done = run();
    let outcome = if done.is_ok() { "done" } else { "failed" };
    let took = started.elapsed().as_secs();
    eprintln!("[{number}/{STEPS}] {what}: {outcome} after {took} s");
    done
}

/// `cargo test` with these arguments, on all packages that have tests.
pub(crate) fn cargo_test(rest: &[String]) -> anyhow::Result<Command> {
    let mut command = shell::cargo();
    // A test that fails hides no other.
    command.arg("test").args(PACKAGES).arg("--no-fail-fast");
    command.args(rest);
    command.env("FLOW_BIN", target()?.join("flow"));
    command.env("FLOW_PEERS", setup::folder());
    Ok(command)
}

/// Where cargo puts programs of the profile that tests have: this program is one of them.
fn target() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find the path of xtask itself")?;
    Ok(own.parent().map(Path::to_path_buf).unwrap_or_default())
}

/// The skipped parts and the reasons, as they are printed.
fn skipped(missing: &[SetupFailure]) -> String {
    let lines = missing.iter().map(|SetupFailure { name, why }| {
        format!("SKIPPED: tests against `{name}`, which could not be set up: {why:#}\n")
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipped_steps_are_reported_with_their_reason() {
        let why = anyhow::anyhow!("there is no python3");
        let output = skipped(&[SetupFailure {
            name: "jina-v1",
            why,
        }]);
        assert!(
            output.contains("SKIPPED") && output.contains("`jina-v1`"),
            "{output}"
        );
        assert!(output.contains("there is no python3"), "{output}");
        assert_eq!(skipped(&[]), "");
    }
}
