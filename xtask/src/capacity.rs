//! `cargo xtask capacity`: what clusters can do, from a simulation that is compared with this machine first.
//!
//! The program `capacity` of the tests (`tests/src/bin/capacity/`) measures and simulates. This file builds it, runs it, makes
//! tables of what it wrote, and fails if the simulation differs from what was measured.

use std::fmt::Write;
use std::fs;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::bench::Report;
use crate::repository::{programs, root};
use crate::setup;
use crate::shell;

/// How far simulated throughputs and median times may be from measured ones, as a part of these.
const TOLERATED: f64 = 0.15;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Seconds for which each load is measured.
    #[arg(long, default_value = "8")]
    seconds: NonZeroU32,

    /// Folder for the results; by default a new one in tests/load/runs/.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// A load that was measured and simulated.
#[derive(Debug, PartialEq)]
struct Comparison<'a> {
    setting: &'a str,
    load: &'a str,
    /// Measured and simulated: requests per second, and the median and the 99th percentile of their times in ms.
    per_s: [f64; 2],
    p50_ms: [f64; 2],
    p99_ms: [f64; 2],
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    setup::model()?;
    build()?;
    let Some(folder) = &args.out else {
        let report = Report::open()?;
        let (text, missed) = measure(args.seconds, &report.folder().join("capacity"))?;
        report.write_section("capacity", &text)?;
        return verdict(&missed);
    };
    let (text, missed) = measure(args.seconds, folder)?;
    fs::write(folder.join("capacity.md"), text)?;
    verdict(&missed)
}

/// Builds the programs of a release, and those of the tests that need them.
pub(crate) fn build() -> anyhow::Result<()> {
    let programs = ["--bin", "flow", "--bin", "capacity", "--bin", "timed"];
    let packages = ["--package", "flow-cli", "--package", "flow-tests"];
    let build = ["build", "--release"];
    shell::run(shell::cargo().args(build).args(packages).args(programs))
}

/// Runs the program; its tables, and what the simulation got wrong.
fn measure(seconds: NonZeroU32, folder: &Path) -> anyhow::Result<(String, Vec<String>)> {
    fs::create_dir_all(folder)?;
    let folder = folder.canonicalize()?;
    let target = programs("release");
    let mut command = Command::new(target.join("capacity"));
    command
        .current_dir(root())
        .env("FLOW_BIN", target.join("flow"))
        .arg(seconds.to_string())
        .arg(&folder);
    shell::run(&mut command)?;
    let read = |name: &str| {
        let path = folder.join(name);
        fs::read_to_string(&path).with_context(|| format!("cannot read `{}`", path.display()))
    };
    let validation = read("validation.csv")?;
    let comparisons = comparisons(&validation)?;
    let text = format!(
        "{}\n{}\n{}",
        cost_table(&read("costs.csv")?)?,
        comparison_table(&comparisons),
        projection_table(&read("projection.csv")?)?
    );
    println!("{text}");
    let missed = comparisons.iter().flat_map(Comparison::missed);
    Ok((text, missed.collect()))
}

fn verdict(missed: &[String]) -> anyhow::Result<()> {
    anyhow::ensure!(
        missed.is_empty(),
        "the simulation differs by more than {:.0} % from what was measured: {}",
        TOLERATED * 100.0,
        missed.join("; ")
    );
    Ok(())
}

impl Comparison<'_> {
    /// What differs by more than is tolerated. The slowest hundredth of the requests depends on what else the machine does, so it
    /// is shown and not judged.
    fn missed(&self) -> Vec<String> {
        let figures = [("requests/s", self.per_s), ("p50", self.p50_ms)];
        // A figure that is not a number is wrong, too.
        let is_right = |it: [f64; 2]| difference(it).abs() <= TOLERATED;
        let wrong = figures.into_iter().filter(|(_, it)| !is_right(*it));
        let text = wrong.map(|(name, it)| {
            let percent = difference(it) * 100.0;
            format!("{}, {}: {name} {percent:+.0} %", self.setting, self.load)
        });
        text.collect()
    }
}

/// How much larger the simulated value is, as a part of the measured one.
fn difference([measured, simulated]: [f64; 2]) -> f64 {
    simulated / measured - 1.0
}

/// Lines whose first field is quoted, because it may have commas; without the head.
fn quoted(text: &str) -> impl Iterator<Item = anyhow::Result<(&str, Vec<&str>)>> {
    text.lines().skip(1).map(|line| {
        let parts = line.strip_prefix('"').and_then(|it| it.split_once("\","));
        let (name, rest) = parts.with_context(|| format!("cannot read the line `{line}`"))?;
        Ok((name, rest.split(',').collect()))
    })
}

fn comparisons(text: &str) -> anyhow::Result<Vec<Comparison<'_>>> {
    let comparisons = quoted(text).map(|line| {
        let (setting, fields) = line?;
        let number = |at: usize| -> anyhow::Result<f64> {
            let field = fields.get(at).context("a line has too few fields")?;
            field
                .parse()
                .with_context(|| format!("`{field}` is not a number"))
        };
        Ok(Comparison {
            setting,
            load: fields.first().context("a line has no load")?,
            per_s: [number(1)?, number(2)?],
            p50_ms: [number(3)?, number(4)?],
            p99_ms: [number(5)?, number(6)?],
        })
    });
    let comparisons: Vec<_> = comparisons.collect::<anyhow::Result<_>>()?;
    anyhow::ensure!(!comparisons.is_empty(), "nothing was compared");
    Ok(comparisons)
}

fn cost_table(text: &str) -> anyhow::Result<String> {
    let mut table = "| setting | call, µs | for each document | for each further request | after a pause | gateway, µs | for each document | rest of a request, µs |\n\
                     |---|---|---|---|---|---|---|---|\n"
        .to_owned();
    for line in quoted(text) {
        let (setting, fields) = line?;
        writeln!(table, "| {setting} | {} |", fields.join(" | ")).expect(TO_STRING);
    }
    Ok(table)
}

fn comparison_table(comparisons: &[Comparison<'_>]) -> String {
    let mut table = "| setting | load | requests/s, measured | simulated | p50 ms, measured | simulated | p99 ms, measured | simulated |\n\
                     |---|---|---|---|---|---|---|---|\n"
        .to_owned();
    for it in comparisons {
        write!(table, "| {} | {} |", it.setting, it.load).expect(TO_STRING);
        let [measured, _] = it.per_s;
        let percent = difference(it.per_s) * 100.0;
        write!(table, " {measured:.0} | {percent:+.1} % |").expect(TO_STRING);
        for figures in [it.p50_ms, it.p99_ms] {
            let percent = difference(figures) * 100.0;
            write!(table, " {:.2} | {percent:+.1} % |", figures[0]).expect(TO_STRING);
        }
        table.push('\n');
    }
    table
}

fn projection_table(text: &str) -> anyhow::Result<String> {
    let mut table = "| documents of a request | gateways | their network | documents/s | limit | p50 ms at 70 % | p99 ms at 70 % | choice of a replica, µs | node-hours for a million documents |\n\
                     |---|---|---|---|---|---|---|---|---|\n"
        .to_owned();
    for line in text.lines().skip(1) {
        let parts: Vec<&str> = line.split(',').collect();
        let [
            documents,
            gateways,
            network,
            speed,
            limit,
            _,
            _,
            _,
            p50,
            p99,
            choice,
            hours,
        ] = parts[..]
        else {
            anyhow::bail!("cannot read the line `{line}`");
        };
        writeln!(
            table,
            "| {documents} | {gateways} | {network} | {speed} | {limit} | {p50} | {p99} | {choice} | {hours} |"
        )
        .expect(TO_STRING);
    }
    Ok(table)
}

const TO_STRING: &str = "writing to a String cannot fail";

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "\"8 executors, 1 gateway\",32 callers,1000.0,1100.0,10.000,8.000,20.0,30.0";

    #[test]
    fn a_line_is_read_though_its_setting_has_a_comma() {
        let text = format!("a head\n{LINE}\n");
        let read = comparisons(&text).unwrap();
        let expected = Comparison {
            setting: "8 executors, 1 gateway",
            load: "32 callers",
            per_s: [1000.0, 1100.0],
            p50_ms: [10.0, 8.0],
            p99_ms: [20.0, 30.0],
        };
        assert_eq!(read, [expected]);
    }

    #[test]
    fn a_median_that_is_a_fifth_too_small_is_missed_and_a_tenth_of_the_throughput_is_not() {
        let text = format!("a head\n{LINE}\n");
        let comparisons = comparisons(&text).unwrap();
        let missed = comparisons[0].missed();
        assert_eq!(missed, ["8 executors, 1 gateway, 32 callers: p50 -20 %"]);
        let table = comparison_table(&comparisons);
        let row = "| 8 executors, 1 gateway | 32 callers | 1000 | +10.0 % | 10.00 | -20.0 % | 20.00 | +50.0 % |";
        assert!(table.ends_with(&format!("{row}\n")), "{table}");
    }

    #[test]
    fn no_figure_and_no_comparison_are_not_taken_for_success() {
        let text = "a head\n\"a\",1 caller,NaN,5.0,1.0,1.0,1.0,1.0\n";
        assert_eq!(comparisons(text).unwrap()[0].missed().len(), 1);
        for bad in [
            "a head\n",
            "a head\n\"a\",1 caller,1.0\n",
            "a head\nno quotes\n",
        ] {
            comparisons(bad).unwrap_err();
        }
    }
}
