//! `cargo xtask fuzz`: coverage-guided fuzzing of everything that reads what strangers wrote.
//!
//! libFuzzer through cargo-fuzz, without a sanitizer: our code has no `unsafe` on these paths, and sanitizers
//! need a nightly compiler. What it learned is kept below `target/fuzz`, so a second run begins where the
//! first ended.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::process::Command;
use std::thread::{self, ScopedJoinHandle};

use anyhow::Context;

use crate::repository::root;
use crate::shell;

/// Each fuzzes for as long as is asked; `tests/fuzz/targets` says what each proves.
const TARGETS: &[&str] = &["yaml", "query", "envelope", "documents", "connection"];

/// Last lines of a fuzzer that are shown: its statistics, or its report of a failure.
const STATISTICS: usize = 6;
const FAILURE: usize = 60;

/// Longest input; longer ones find the same faults more slowly.
const INPUT_MAX: usize = 4096;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to fuzz; none: all, as many at once as there are cores.
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(TARGETS))]
    target: Vec<String>,

    /// Seconds for each.
    #[arg(long, default_value_t = 300)]
    seconds: u32,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    install()?;
    let is_chosen = |name: &&str| args.target.is_empty() || args.target.iter().any(|it| it == name);
    let chosen: Vec<&'static str> = TARGETS.iter().copied().filter(is_chosen).collect();
    shell::run(cargo_fuzz("build").args(&chosen[..usize::from(chosen.len() == 1)]))?;
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    for at_once in chosen.chunks(cores) {
        fuzz_at_once(at_once, args.seconds)?;
    }
    Ok(())
}

/// Fuzzes these targets side by side.
fn fuzz_at_once(targets: &[&'static str], seconds: u32) -> anyhow::Result<()> {
    thread::scope(|scope| {
        let fuzz = |target: &'static str| scope.spawn(move || fuzz(target, seconds));
        let running: Vec<_> = targets.iter().copied().map(fuzz).collect();
        let mut ended = running.into_iter().map(ScopedJoinHandle::join);
        ended.try_for_each(|it| it.unwrap_or_else(|panic| resume_unwind(panic)))
    })
}

/// Fuzzes a target. What the fuzzer says goes into a file, because others run beside it; its last lines are printed.
fn fuzz(target: &str, seconds: u32) -> anyhow::Result<()> {
    let corpus = root().join("target/fuzz/corpus").join(target);
    fs::create_dir_all(&corpus).with_context(|| format!("cannot make `{}`", corpus.display()))?;
    let seeds = root().join("tests/fuzz/seeds").join(target);
    let said = root().join(format!("target/fuzz/{target}.log"));
    let file = File::create(&said).with_context(|| format!("cannot write `{}`", said.display()))?;
    let mut command = cargo_fuzz("run");
    command.args([OsStr::new(target), corpus.as_os_str(), seeds.as_os_str()]);
    command.args(["--", &format!("-max_total_time={seconds}")]);
    command.args([
        &format!("-max_len={INPUT_MAX}"),
        "-timeout=10",
        "-print_final_stats=1",
    ]);
    let fuzzed = shell::run(command.stderr(file));
    let text = fs::read_to_string(&said).unwrap_or_default();
    let shown = if fuzzed.is_ok() { STATISTICS } else { FAILURE };
    let skipped = text.lines().count().saturating_sub(shown);
    for line in text.lines().skip(skipped) {
        eprintln!("{target}: {line}");
    }
    fuzzed
}

/// A command of cargo-fuzz, without a sanitizer.
fn cargo_fuzz(command: &str) -> Command {
    let mut fuzz = Command::new(tools().join("bin/cargo-fuzz"));
    fuzz.current_dir(root().join("tests/fuzz"));
    fuzz.args(["fuzz", command, "--fuzz-dir", ".", "--sanitizer", "none"]);
    fuzz
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
