//! `cargo xtask fuzz`: coverage-guided fuzzing of every parser of untrusted input.
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
const TARGETS: &[&str] = &[
    "yaml",
    "query",
    "envelope",
    "documents",
    "connection",
    "http_body",
    "access_paths",
    "json",
    "index_log",
    "merge",
    "hub",
];

/// Last lines of a fuzzer that are shown: its statistics, or its report of a failure.
const STATISTICS: usize = 6;
const FAILURE: usize = 60;

/// Longest input; longer ones find the same faults more slowly.
const INPUT_MAX: usize = 4096;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Targets to fuzz; by default all, one on each core.
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(TARGETS))]
    target: Vec<String>,

    /// Seconds for each target.
    #[arg(long, default_value_t = 300)]
    seconds: u32,

    /// Where the fuzzers' random numbers begin; by default elsewhere in each run.
    #[arg(long, default_value_t = 0)]
    seed: u32,

    /// Build the fuzzers without running them.
    #[arg(long)]
    build_only: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    install()?;
    let is_chosen = |name: &&str| args.target.is_empty() || args.target.iter().any(|it| it == name);
    let chosen: Vec<&'static str> = TARGETS.iter().copied().filter(is_chosen).collect();
    let mut build = cargo_fuzz("build");
    // cargo-fuzz builds one target, or all of them.
    if let [only] = chosen[..] {
        build.arg(only);
    }
    shell::run(&mut build)?;
    if args.build_only {
        return Ok(());
    }
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let fuzzed = chosen
        .chunks(cores)
        .flat_map(|at_once| fuzz_at_once(at_once, args));
    let failures: Vec<String> = fuzzed.filter_map(Result::err).collect();
    anyhow::ensure!(failures.is_empty(), "{}", failures.join("; "));
    Ok(())
}

/// Fuzzes these targets at the same time. An error names its target.
fn fuzz_at_once(targets: &[&'static str], args: &Args) -> Vec<Result<(), String>> {
    thread::scope(|scope| {
        let start = |target: &'static str| (target, scope.spawn(move || fuzz(target, args)));
        let running: Vec<_> = targets.iter().copied().map(start).collect();
        let end = |(target, fuzzing): (&str, ScopedJoinHandle<'_, anyhow::Result<()>>)| {
            let fuzzed = fuzzing.join().unwrap_or_else(|panic| resume_unwind(panic));
            fuzzed.map_err(|error| format!("`{target}`: {error:#}"))
        };
        running.into_iter().map(end).collect()
    })
}

/// Fuzzes a target. The fuzzer's output goes into a file, because others run at the same time; its last lines are printed.
fn fuzz(target: &str, args: &Args) -> anyhow::Result<()> {
    let corpus = root().join("target/fuzz/corpus").join(target);
    fs::create_dir_all(&corpus).with_context(|| format!("cannot make `{}`", corpus.display()))?;
    let seeds = root().join("tests/fuzz/seeds").join(target);
    let said = root().join(format!("target/fuzz/{target}.log"));
    let file = File::create(&said).with_context(|| format!("cannot write `{}`", said.display()))?;
    let mut command = cargo_fuzz("run");
    command.args([OsStr::new(target), corpus.as_os_str(), seeds.as_os_str()]);
    command.args(["--", &format!("-max_total_time={}", args.seconds)]);
    command.args([
        &format!("-max_len={INPUT_MAX}"),
        &format!("-seed={}", args.seed),
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
    fuzz.arg("--target-dir")
        .arg(root().join("target/fuzz/build"));
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
