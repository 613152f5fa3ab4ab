//! Our matrix products compared with those of libraries, on one core.
//!
//! `tests/load/products` is a program of its own, so that what it is compared with is no part of the product.
//! oneDNN takes part where its headers and a C++ compiler are.

use std::path::Path;
use std::process::Command;

use anyhow::Context;

use crate::bench::participants::Bench;
use crate::bench::report::{Report, Table};
use crate::repository::root;
use crate::shell;
use crate::statistics::median;

/// What the core can do without memory: the row, and a column for each set of instructions.
const CEILING: &str = "in registers";

/// A peer this much faster would be used instead.
const BAR: f64 = 1.15;

/// One figure: shape, system, billions of operations in a second.
type Line = (String, String, f64);

pub(super) fn measure(bench: &Bench, report: &mut Report) -> anyhow::Result<()> {
    let folder = root().join("target/products");
    build(&folder)?;
    let onednn = build_onednn(report);
    if let Err(error) = &onednn {
        eprintln!("products · without oneDNN (Debian: apt-get install libdnnl-dev): {error:#}");
    }
    let mut lines = Vec::new();
    for round in 0..bench.rounds {
        lines.extend(run(&mut Command::new(
            folder.join("release/matrix-products"),
        ))?);
        if onednn.is_ok() {
            let mut program = Command::new(report.scratch("onednn"));
            lines.extend(run(program.env("OMP_NUM_THREADS", "1"))?);
        }
        eprintln!("products · round {round} done");
    }
    let table = table(&lines);
    report.write("products", &table, &verdict(&lines))
}

fn build(folder: &Path) -> anyhow::Result<()> {
    let mut command = shell::cargo();
    command.args(["build", "--release", "--manifest-path"]);
    command.arg(root().join("tests/load/products/Cargo.toml"));
    shell::run(command.arg("--target-dir").arg(folder))
}

fn build_onednn(report: &Report) -> anyhow::Result<()> {
    let mut command = Command::new("g++");
    command
        .arg("-O2")
        .arg(root().join("tests/load/products/onednn.cpp"));
    command.arg("-o").arg(report.scratch("onednn"));
    shell::output(command.arg("-ldnnl")).map(drop)
}

fn run(program: &mut Command) -> anyhow::Result<Vec<Line>> {
    shell::output(program)?.lines().map(parse).collect()
}

fn parse(line: &str) -> anyhow::Result<Line> {
    let fields: Vec<&str> = line.split(';').collect();
    let [shape, system, rate] = fields[..] else {
        anyhow::bail!("`{line}` is not `shape;system;rate`");
    };
    let rate = rate
        .parse()
        .with_context(|| format!("`{rate}` is not a number"))?;
    Ok((shape.to_owned(), system.to_owned(), rate))
}

fn table(lines: &[Line]) -> Table {
    let mut systems: Vec<&str> = Vec::new();
    for (_, system, _) in lines {
        if !systems.contains(&system.as_str()) {
            systems.push(system);
        }
    }
    let mut table = Table::new(systems, "GFLOP/s");
    for (shape, system, rate) in lines {
        table.add(shape, system, *rate);
    }
    table
}

fn verdict(lines: &[Line]) -> String {
    let table = table(lines);
    let is_half = |system: &str| system.ends_with("bf16");
    let mut text = String::new();
    for (format, wants_half) in [("f32", false), ("bf16", true)] {
        let of_format = lines.iter().filter(|it| it.0 != CEILING);
        let of_format = of_format.filter(|it| is_half(&it.1) == wants_half);
        let lines: Vec<&Line> = of_format.collect();
        text += &compare(format, &table, &lines);
    }
    text
}

/// The rate of the best of ours relative to the best of the others, over all shapes.
fn compare(format: &str, table: &Table, lines: &[&Line]) -> String {
    let best = |shape: &str, ours: bool| {
        let systems = lines
            .iter()
            .filter(|it| it.0 == shape && it.1.starts_with("flow ") == ours);
        let rates = systems.filter_map(|it| table.values(shape, &it.1).map(median));
        rates.fold(f64::NAN, f64::max)
    };
    let mut shapes: Vec<&str> = lines.iter().map(|it| it.0.as_str()).collect();
    shapes.dedup();
    shapes.sort_unstable();
    shapes.dedup();
    let ratios = shapes
        .iter()
        .map(|shape| best(shape, true) / best(shape, false));
    let ratios: Vec<f64> = ratios.filter(|ratio| ratio.is_finite()).collect();
    if ratios.is_empty() {
        return String::new();
    }
    let mean = ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64;
    let behind = ratios.iter().filter(|ratio| **ratio * BAR < 1.0).count();
    format!(
        "{format}: ours are {:.2} × the best library of each shape in the geometric mean ({} shapes), and more \
         than 15 % behind it on {behind}.\n",
        mean.exp(),
        ratios.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(shape: &str, system: &str, rate: f64) -> Line {
        (shape.to_owned(), system.to_owned(), rate)
    }

    #[test]
    fn a_line_is_a_shape_a_system_and_a_rate() {
        let read = parse("14 × 384 × 384;gemm 0.19;62.5").expect("a line");
        assert_eq!(read, line("14 × 384 × 384", "gemm 0.19", 62.5));
        assert!(parse("14;gemm").is_err());
        assert!(parse("14;gemm;fast").is_err());
    }

    #[test]
    fn ours_are_compared_with_the_best_library_of_each_shape() {
        let lines = [
            line(CEILING, "AVX2 f32", 110.0),
            line("a", "flow avx2 f32", 80.0),
            line("a", "gemm", 40.0),
            line("a", "faer", 100.0),
            line("b", "flow avx2 f32", 80.0),
            line("b", "gemm", 64.0),
            line("b", "oneDNN bf16", 300.0),
        ];
        assert_eq!(
            verdict(&lines),
            "f32: ours are 1.00 × the best library of each shape in the geometric mean (2 shapes), and more than \
             15 % behind it on 1.\n"
        );
    }
}
