//! `cargo xtask fuzz`: coverage-guided fuzzing of everything that reads what strangers wrote.
//!
//! libFuzzer through cargo-fuzz, without a sanitizer: our code has no `unsafe` on these paths, and sanitizers
//! need a nightly compiler. What it learned is kept below `target/fuzz`, so a second run begins where the
//! first ended.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;

use crate::repository::root;
use crate::shell;

/// Each fuzzes for as long as is asked; `tests/fuzz/targets` says what each proves.
const TARGETS: &[&str] = &["yaml", "query", "envelope", "documents", "connection"];

/// Longest input; longer ones find the same faults more slowly.
const INPUT_MAX: usize = 4096;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to fuzz; none: all, one after another.
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(TARGETS))]
    target: Vec<String>,

    /// Seconds for each.
    #[arg(long, default_value_t = 300)]
    seconds: u32,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    install()?;
    let chosen = |name: &&&str| args.target.is_empty() || args.target.iter().any(|it| it == **name);
    for target in TARGETS.iter().filter(chosen) {
        fuzz(target, args.seconds)?;
    }
    Ok(())
}

fn fuzz(target: &str, seconds: u32) -> anyhow::Result<()> {
    let corpus = root().join("target/fuzz/corpus").join(target);
    std::fs::create_dir_all(&corpus)
        .with_context(|| format!("cannot make `{}`", corpus.display()))?;
    let seeds = root().join("tests/fuzz/seeds").join(target);
    let mut command = Command::new(tools().join("bin/cargo-fuzz"));
    command.current_dir(root().join("tests/fuzz"));
    command.args([
        "fuzz",
        "run",
        "--fuzz-dir",
        ".",
        "--sanitizer",
        "none",
        target,
    ]);
    command.arg(&corpus).arg(&seeds);
    command.args(["--", &format!("-max_total_time={seconds}")]);
    command.args([
        &format!("-max_len={INPUT_MAX}"),
        "-timeout=10",
        "-print_final_stats=1",
    ]);
    shell::run(&mut command)
}

fn install() -> anyhow::Result<()> {
    if tools().join("bin/cargo-fuzz").exists() {
        return Ok(());
    }
    let mut command = shell::cargo();
    command.args([
        "install",
        "--locked",
        "--debug",
        "--quiet",
        "cargo-fuzz",
        "--root",
    ]);
    shell::run(command.arg(tools()))
}

/// Where `.ci/run` keeps its tools too.
fn tools() -> PathBuf {
    root().join("target/tools")
}
