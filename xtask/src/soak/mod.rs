//! `cargo xtask soak`: a flow under load while faults happen at random, and whether it kept its promises.
//!
//! The program `soak` of the tests (`tests/src/bin/soak/`) makes load and faults, and writes what came of them.
//! [`bars`] judges it, [`plot`] draws it, and this file builds, runs and writes the summary.

mod bars;
pub(crate) mod plot;
mod records;

use std::fs;
use std::io;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use clap::ValueEnum;

use crate::bench::Report;
use crate::repository::{programs, root};
use crate::shell;
use crate::soak::bars::Bar;
pub(crate) use crate::soak::records::Records;
use crate::test::PACKAGES;

/// The files that a run writes.
const RESULTS: [&str; 7] = [
    "outcome.json",
    "samples.csv",
    "timeline.csv",
    "timeline.svg",
    "faults.csv",
    "failures.csv",
    "summary.md",
];

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Minutes of load.
    #[arg(long, default_value = "60")]
    minutes: NonZeroU32,

    /// Seed of the random faults; the same seed gives the same faults at the same times.
    #[arg(long, default_value = "1")]
    seed: u64,

    /// Build of `flow` to test.
    #[arg(long, value_enum, default_value = "debug")]
    program: Build,

    /// Do not fail because of latency or memory, for machines that are busy with other work.
    #[arg(long)]
    correctness_only: bool,

    /// Folder for the results; by default a new one in tests/load/runs/.
    #[arg(long)]
    out: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Build {
    /// The profile of the tests, whose computing dependencies are optimised.
    Debug,
    /// The profile of releases.
    Release,
}

impl Build {
    fn name(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Release => "release",
        }
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    build(args.program)?;
    match &args.out {
        Some(folder) => {
            let (summary, bars) = soak(args, folder)?;
            fs::write(folder.join("summary.md"), format!("# Soak\n\n{summary}"))?;
            verdict(&bars)
        }
        None => {
            let report = Report::open()?;
            let (summary, bars) = soak(args, &report.folder().join("soak"))?;
            report.write_section("soak", &summary)?;
            verdict(&bars)
        }
    }
}

fn build(program: Build) -> anyhow::Result<()> {
    shell::run(
        shell::cargo()
            .arg("build")
            .args(PACKAGES)
            .args(["--bins", "--tests", "--lib"]),
    )?;
    if program == Build::Release {
        shell::run(shell::cargo().args(["build", "--release", "--package", "flow-cli"]))?;
    }
    Ok(())
}

/// Removes the results of an earlier run, so that they are not taken for those of a run that ends early.
fn remove_results(folder: &Path) -> anyhow::Result<()> {
    for name in RESULTS {
        let file = folder.join(name);
        match fs::remove_file(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot remove `{}`", file.display()));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Runs the load and the faults, and returns a summary of them and what is to be judged.
fn soak(args: &Args, folder: &Path) -> anyhow::Result<(String, Vec<Bar>)> {
    remove_results(folder)?;
    fs::create_dir_all(folder)?;
    let seconds = args.minutes.get() * 60;
    let mut command = Command::new(programs("debug").join("soak"));
    command
        .current_dir(root())
        .env("FLOW_BIN", programs(args.program.name()).join("flow"))
        .args([seconds.to_string(), args.seed.to_string()])
        .arg(std::path::absolute(folder)?);
    shell::run(&mut command)?;
    let records = Records::read(folder)?;
    let mut bars = bars::judge(&records);
    if args.correctness_only {
        bars.iter_mut().for_each(Bar::only_report_times_and_memory);
    }
    fs::write(folder.join("timeline.svg"), plot::draw(&records))?;
    let summary = summary(args, &records, &bars);
    eprintln!("\n{summary}\nresults are in `{}`", folder.display());
    Ok((summary, bars))
}

fn summary(args: &Args, records: &Records, bars: &[Bar]) -> String {
    let head = format!(
        "{} minutes, seed {}, {} build: 200 requests a second over gRPC and HTTP, 25 bulk requests a second of 64 \
         documents, {} faults. Repeat it with `cargo xtask soak --minutes {} --seed {} --program {}`. \
         `timeline.svg` shows it; `faults.csv` lists the faults.\n\n",
        args.minutes,
        args.seed,
        args.program.name(),
        records.number("/faults"),
        args.minutes,
        args.seed,
        args.program.name(),
    );
    head + &records.requests_table() + "\n" + &bars::table(bars)
}

/// Fails if a bar is missed.
fn verdict(bars: &[Bar]) -> anyhow::Result<()> {
    let missed: Vec<&str> = bars
        .iter()
        .filter(|it| it.is_missed())
        .map(|it| it.what.as_str())
        .collect();
    anyhow::ensure!(
        missed.is_empty(),
        "bars that are missed: {}",
        missed.join("; ")
    );
    Ok(())
}
