//! `cargo xtask fuzz`: coverage-guided fuzzing of every parser of untrusted input.
//!
//! libFuzzer without a sanitizer: our code has no `unsafe` on these paths, and sanitizers need a nightly
//! compiler. What it learned is kept below `target/fuzz`, so a second run begins where the first ended.
//!
//! The fuzzers are built with the flags that cargo-fuzz would give rustc. cargo-fuzz itself would have to be built
//! first, and always asks for debug information.

use std::fs::{self, File};
use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::{self, ScopedJoinHandle};

use anyhow::Context;

use crate::repository::{root, target};
use crate::{rustc, shell};

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

/// What makes rustc count, for libFuzzer, which branches ran and what was compared.
const COVERAGE: &[&str] = &[
    "--cfg",
    "fuzzing",
    "-Cdebug-assertions",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];

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
    let is_chosen = |name: &&str| args.target.is_empty() || args.target.iter().any(|it| it == name);
    let chosen: Vec<&'static str> = TARGETS.iter().copied().filter(is_chosen).collect();
    let programs = build(&chosen)?;
    if args.build_only {
        return Ok(());
    }
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let fuzzed = chosen
        .chunks(cores)
        .flat_map(|at_once| fuzz_at_once(at_once, &programs, args));
    let failures: Vec<String> = fuzzed.filter_map(Result::err).collect();
    anyhow::ensure!(failures.is_empty(), "{}", failures.join("; "));
    Ok(())
}

/// Fuzzes these targets at the same time. An error names its target.
fn fuzz_at_once(targets: &[&'static str], programs: &Path, args: &Args) -> Vec<Result<(), String>> {
    thread::scope(|scope| {
        let start = |name: &'static str| (name, scope.spawn(|| fuzz(name, programs, args)));
        let running: Vec<_> = targets.iter().copied().map(start).collect();
        let end = |(name, fuzzing): (&str, ScopedJoinHandle<'_, anyhow::Result<()>>)| {
            let fuzzed = fuzzing.join().unwrap_or_else(|panic| resume_unwind(panic));
            fuzzed.map_err(|error| format!("`{name}`: {error:#}"))
        };
        running.into_iter().map(end).collect()
    })
}

/// Fuzzes a target. The fuzzer's output goes into a file, because others run at the same time; its last lines are printed.
fn fuzz(name: &str, programs: &Path, args: &Args) -> anyhow::Result<()> {
    let corpus = folder(&format!("corpus/{name}"))?;
    let artifacts = folder(&format!("artifacts/{name}"))?;
    let said = target(&format!("fuzz/{name}.log"));
    let file = File::create(&said).with_context(|| format!("cannot write `{}`", said.display()))?;
    let mut command = Command::new(programs.join(name));
    command.arg(corpus);
    command.arg(root().join("tests/fuzz/seeds").join(name));
    command.args([
        // Inputs that failed are kept in this folder.
        &format!("-artifact_prefix={}/", artifacts.display()),
        &format!("-max_total_time={}", args.seconds),
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
        eprintln!("{name}: {line}");
    }
    fuzzed
}

/// A folder below `target/fuzz`, which is made if it is not there.
fn folder(name: &str) -> anyhow::Result<PathBuf> {
    let folder = target("fuzz").join(name);
    fs::create_dir_all(&folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
    Ok(folder)
}

/// Builds the fuzzers of these targets, and says in which folder they are.
fn build(targets: &[&str]) -> anyhow::Result<PathBuf> {
    let host = rustc::host()?;
    let build = target("fuzz/build");
    let mut command = shell::cargo();
    command.args(["build", "--release", "--manifest-path"]);
    command.arg(root().join("tests/fuzz/Cargo.toml"));
    command.arg("--target-dir").arg(&build);
    // With a target that is named, build scripts and procedural macros are built without the flags.
    command.args(["--target", &host]);
    command.args(targets.iter().flat_map(|name| ["--bin", name]));
    command.env("CARGO_ENCODED_RUSTFLAGS", COVERAGE.join("\x1f"));
    shell::run(&mut command)?;
    Ok(build.join(host).join("release"))
}
