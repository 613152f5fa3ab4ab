//! `cargo xtask bench`: flow and comparable systems, measured in one run on one machine.
//!
//! One file holds one subject; each fills a [`report::Report`], which keeps raw numbers with the
//! summary and the description of the machine. What is measured, and why, is described in
//! `tests/load/README.md`. Systems take turns within each round, so that a machine that grows slow
//! is slow for all of them; figures are medians.

mod bar_chart;
mod cache;
mod chaos;
mod charts;
mod collector;
mod containers;
mod corpus;
mod encoder;
mod gateway;
mod h2load;
mod http;
mod http_gateway;
mod memory;
mod nodes;
mod ours;
mod participants;
mod process;
mod products;
mod proxies;
mod python;
mod python_encoder;
mod python_start;
mod python_tutorial;
mod report;
mod request;
mod reranker;
mod runs;
mod servers;
mod single;
mod start;
mod tutorial;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::ValueEnum;

use crate::bench::participants::{Bench, System};
pub(crate) use crate::bench::report::Report;
use crate::shell;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Benchmark to run.
    #[arg(value_enum)]
    subject: Subject,

    /// Number of rounds; results are medians over the rounds.
    #[arg(long, default_value = "5")]
    rounds: NonZeroUsize,

    /// Minutes of load on each configuration of `collector`; 0 runs one round.
    #[arg(long, default_value = "5")]
    minutes: u32,

    /// Systems to compare.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "bare,flow")]
    systems: Vec<System>,

    /// A program `flow` of an earlier version, which `gateway`, `single`, `start` and `memory` measure beside the new one.
    #[arg(long, value_name = "PROGRAM")]
    against: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Subject {
    /// Unary calls through a gateway to a no-op executor.
    Gateway,
    /// HTTP with JSON compared with gRPC, to a no-op executor and to the encoder.
    Http,
    /// HTTP/1.1 requests through a gateway to a no-op executor, and gRPC with TLS.
    HttpGateway,
    /// The tutorial's 10,000 documents, from `flow post` through the encoder and back.
    Tutorial,
    /// Cost of each further executor of a flow.
    Nodes,
    /// Texts per second of the encoder alone, compared with sentence-transformers and ONNX Runtime.
    Encoder,
    /// Pairs per second of cross-encoders, compared with sentence-transformers and ONNX Runtime.
    Reranker,
    /// Texts per second and latency of embedding servers over the network, compared with Infinity.
    Servers,
    /// Matrix products on one core, compared with libraries.
    Products,
    /// Latency of one short text, in the engine and through a flow.
    Single,
    /// Gain of the encoder's cache for repeated queries.
    Cache,
    /// Resident memory, idle and after load.
    Memory,
    /// Unary calls through a gateway to a no-op Python executor.
    Python,
    /// Texts per second of the Python package's encoder, compared with the engine, and growth of its process.
    PythonEncoder,
    /// Time of importing the Python package, and until a Python executor is ready.
    PythonStart,
    /// The tutorial's 10,000 documents through a Python executor with sentence-transformers.
    PythonTutorial,
    /// Time from `flow up` until the flow is ready.
    Start,
    /// Latency while processes are killed, replaced and scaled.
    Chaos,
    /// Cost of a container, compared with a process.
    Containers,
    /// Cost of metrics, traces, the access log and an unavailable collector.
    Collector,
    /// All benchmarks, one after another.
    All,
    /// Draw the charts in docs/src/charts from a recorded run, without measuring.
    Report,
}

type Measure = fn(&Bench, &mut Report) -> anyhow::Result<()>;

const MEASURES: &[(Subject, Measure)] = &[
    (Subject::Gateway, gateway::measure),
    (Subject::Http, http::measure),
    (Subject::HttpGateway, http_gateway::measure),
    (Subject::Tutorial, tutorial::measure),
    (Subject::Nodes, nodes::measure),
    (Subject::Encoder, encoder::measure),
    (Subject::Reranker, reranker::measure),
    (Subject::Servers, servers::measure),
    (Subject::Products, products::measure),
    (Subject::Single, single::measure),
    (Subject::Cache, cache::measure),
    (Subject::Memory, memory::measure),
    (Subject::Python, python::measure),
    (Subject::PythonEncoder, python_encoder::measure),
    (Subject::PythonStart, python_start::measure),
    (Subject::PythonTutorial, python_tutorial::measure),
    (Subject::Start, start::measure),
    (Subject::Chaos, chaos::measure),
    (Subject::Containers, containers::measure),
    (Subject::Collector, collector::measure),
];

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if args.subject == Subject::Report {
        return charts::draw_all();
    }
    let against = args.against.as_deref().map(absolute).transpose()?;
    build(&args.systems)?;
    let bench = Bench {
        rounds: args.rounds.get(),
        load: Duration::from_secs(60) * args.minutes,
        systems: args.systems.clone(),
        against,
    };
    let mut report = Report::open()?;
    for (subject, measure) in MEASURES {
        if args.subject == *subject || args.subject == Subject::All {
            measure(&bench, &mut report)?;
        }
    }
    eprintln!("results are in `{}`", report.folder().display());
    Ok(())
}

/// The path of a program from any folder: flows are started in the root of the repository.
fn absolute(program: &Path) -> anyhow::Result<PathBuf> {
    let found = program.canonicalize();
    found.with_context(|| format!("cannot find the program `{}`", program.display()))
}

fn build(systems: &[System]) -> anyhow::Result<()> {
    let mut command = shell::cargo();
    command.args(["build", "--release", "--package", "bare-tonic"]);
    if systems.contains(&System::Flow) {
        command.args(["--package", "flow-cli"]);
    }
    shell::run(&mut command)
}
