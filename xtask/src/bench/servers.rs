//! Benchmark: embedding servers over the network: flow in each precision, over gRPC and over HTTP, beside Infinity with each of its
//! engines.
//!
//! All run the same model, are up at the same time and get the same texts; in each round one after another is under load. Before
//! that, their vectors are compared with those of ours in 32-bit floats, because a server that pools differently would do other work.

mod infinity;
mod load;
mod names;
mod requests;
mod vectors;
mod verdict;

use std::path::PathBuf;

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::bench::encoder::write_texts;
use crate::bench::ours;
use crate::bench::participants::Bench;
use crate::bench::report::{Report, Table};
use crate::bench::servers::infinity::{Engine, Infinity};
use crate::bench::servers::load::{BULK, Figures, LOADS, Load, SECONDS, WARM_UP_SECONDS};
use crate::bench::servers::names::{
    CORPORA, INFINITY_ONNX, INFINITY_TORCH, P50, P99, PRECISIONS, RATE, flow_grpc, flow_http, row,
};
use crate::bench::servers::requests::Protocol;
use crate::bench::servers::vectors::{Vector, lowest_cosine};
use crate::setup;

/// Texts of the corpus `mixed` whose vectors are compared, in requests of `BULK`.
const COMPARED: usize = 64;

/// A server with 32-bit floats below this runs another model.
const COSINE_MIN: f64 = 0.999;

/// A server under load over one protocol.
struct Target {
    name: String,
    protocol: Protocol,
    port: u16,
    /// Whether it computes with 32-bit floats.
    is_exact: bool,
}

/// Texts of a corpus.
struct Corpus {
    name: &'static str,
    texts: Vec<String>,
}

pub(super) fn measure(bench: &Bench, report: &mut Report) -> anyhow::Result<()> {
    let corpora = corpora(report)?;
    let (targets, _servers) = start(report)?;
    let closeness = compare(&targets, &corpora[CORPORA.len() - 1], report)?;
    for target in &targets {
        run(target, &corpora[0], &BULK, WARM_UP_SECONDS, report)?;
    }
    let names = targets.iter().map(|target| target.name.as_str());
    let mut table = Table::new(names, "see each row");
    for round in 0..bench.rounds {
        for corpus in &corpora {
            for load in LOADS {
                for target in in_turn(&targets, round) {
                    let figures = run(target, corpus, load, SECONDS, report)?;
                    add(&mut table, (corpus.name, load, &target.name), &figures);
                }
                eprintln!(
                    "servers · {} · {} · round {round} done",
                    corpus.name, load.name
                );
            }
        }
    }
    let verdict = verdict::verdict(&table) + &closeness;
    report.write("servers", &table, &verdict)
}

fn run(
    target: &Target,
    corpus: &Corpus,
    load: &Load,
    seconds: u32,
    report: &Report,
) -> anyhow::Result<Figures> {
    let bodies = load.write((corpus.name, &corpus.texts), target.protocol, report)?;
    let figures = load.run(target.protocol, target.port, &bodies, seconds);
    figures.with_context(|| format!("{} under the load `{}`", target.name, load.name))
}

fn add(table: &mut Table, (corpus, load, system): (&str, &Load, &str), figures: &Figures) {
    table.add(&row(corpus, load, RATE), system, figures.texts_per_s);
    table.add(&row(corpus, load, P50), system, figures.p50);
    table.add(&row(corpus, load, P99), system, figures.p99);
}

/// All targets; every second round begins with the last one.
fn in_turn(targets: &[Target], round: usize) -> Vec<&Target> {
    match round % 2 {
        0 => targets.iter().collect(),
        _ => targets.iter().rev().collect(),
    }
}

fn corpora(report: &Report) -> anyhow::Result<Vec<Corpus>> {
    let corpus = |name: &'static str| {
        let path = report.scratch(&format!("servers-{name}.jsonl"));
        write_texts(name, &path, load::TEXTS)?;
        let lines = std::fs::read_to_string(&path)?;
        let texts = lines.lines().map(|line| {
            let line: Value = serde_json::from_str(line)?;
            let text = line["text"].as_str().context("a line without a text")?;
            anyhow::Ok(text.to_owned())
        });
        let texts = texts.collect::<anyhow::Result<_>>()?;
        Ok(Corpus { name, texts })
    };
    CORPORA.into_iter().map(corpus).collect()
}

/// Starts every server, and gives the targets that they are.
fn start(report: &Report) -> anyhow::Result<(Vec<Target>, Vec<ours::Flow>)> {
    let (mut targets, mut servers) = (Vec::new(), Vec::new());
    for precision in PRECISIONS {
        let flow = ours::up(&flow_file(precision, report)?.to_string_lossy())?;
        let target = |name, protocol| Target {
            name,
            protocol,
            port: flow.port,
            is_exact: precision == "f32",
        };
        targets.push(target(flow_grpc(precision), Protocol::Grpc));
        targets.push(target(flow_http(precision), Protocol::Http));
        servers.push(flow);
    }
    if let Some(infinity) = Infinity::find(report)? {
        let engines = [
            (INFINITY_ONNX, Engine::Onnx),
            (INFINITY_TORCH, Engine::Torch),
        ];
        for (name, engine) in engines {
            let server = infinity.start(engine)?;
            targets.push(Target {
                name: name.to_owned(),
                protocol: Protocol::Http,
                port: server.port,
                is_exact: true,
            });
            servers.push(server);
        }
    }
    Ok((targets, servers))
}

/// A flow of the encoder in this precision.
fn flow_file(precision: &str, report: &Report) -> anyhow::Result<PathBuf> {
    let path = report.scratch(&format!("servers-{precision}.yml"));
    let model = setup::model()?;
    let yaml = format!(
        "jtype: Flow\nexecutors:\n  - name: encoder\n    uses: sentence-encoder\n    \
         uses_with: {{model: {model:?}, precision: {precision}}}\n"
    );
    std::fs::write(&path, yaml)?;
    Ok(path)
}

/// How close the vectors of each server are to those of the first one, which has 32-bit floats.
fn compare(targets: &[Target], corpus: &Corpus, report: &Report) -> anyhow::Result<String> {
    let mut lines = String::new();
    let mut reference = None;
    for target in targets {
        let vectors = vectors(target, corpus, report);
        let vectors = vectors.with_context(|| format!("the vectors of {}", target.name))?;
        let reference = reference.get_or_insert_with(|| vectors.clone());
        let cosine = lowest_cosine(&vectors, reference)
            .with_context(|| format!("the vectors of {}", target.name))?;
        ensure!(
            !target.is_exact || COSINE_MIN <= cosine,
            "{} does not run the same model: the lowest cosine is {cosine:.6}",
            target.name
        );
        lines += &format!(
            "- the lowest cosine of {} with flow f32 is {cosine:.6}, of {COMPARED} texts of {}\n",
            target.name, corpus.name
        );
    }
    Ok(lines)
}

fn vectors(target: &Target, corpus: &Corpus, report: &Report) -> anyhow::Result<Vec<Vector>> {
    let texts = &corpus.texts[..COMPARED];
    let bodies = BULK.write(("compared", texts), target.protocol, report)?;
    let replies = load::ask(target.protocol, target.port, &bodies, report)?;
    let mut all = Vec::new();
    for reply in replies {
        all.extend(vectors::of_reply(target.protocol, &reply)?);
    }
    ensure!(
        all.len() == COMPARED,
        "{} vectors for {COMPARED} texts",
        all.len()
    );
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_second_round_begins_with_the_last_server() {
        let target = |name: &str| Target {
            name: name.to_owned(),
            protocol: Protocol::Http,
            port: 0,
            is_exact: true,
        };
        let targets = [target("one"), target("two")];
        let names = |round| -> Vec<&str> {
            let turns = in_turn(&targets, round).into_iter();
            turns.map(|it| it.name.as_str()).collect()
        };
        assert_eq!(names(0), ["one", "two"]);
        assert_eq!(names(1), ["two", "one"]);
    }
}
