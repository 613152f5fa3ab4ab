//! The project's own tools: `cargo xtask <command>`.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it is a command-line program"
)]

mod attacks;
mod bench;
mod cuda;
mod dist;
mod docker_leftovers;
mod docs;
mod faults;
mod fuzz;
mod repository;
mod setup;
mod shell;
mod soak;
mod statistics;
mod swarm;
mod test;
mod tidy;
mod wheel;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "xtask", about = "The project's own tools")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Sets up in .peers/ what tests and benchmarks need: the model, stock Jina, sentence-transformers.
    Setup(setup::Args),

    /// Sets up what the tests need, builds, and runs every test of the workspace.
    Test(test::Args),

    /// Reports what breaks the project's rules: crate edges, purity, sizes, words, dead links.
    Tidy(tidy::Args),

    /// Checks the documents' links, and builds the book in target/book; the first time it installs mdBook.
    Docs(docs::Args),

    /// Remakes the code generated from proto/; with --check only says whether it is fresh.
    Codegen {
        #[arg(long)]
        check: bool,
    },

    /// Builds the Python package `flow-serve` as a wheel, with the program `flow` in it.
    Wheel(wheel::Args),

    /// Makes the files of a release for one target: archive, Debian package, bill of materials, checksums.
    Dist(dist::Args),

    /// Fuzzes what reads flow files, queries, requests and documents.
    Fuzz(fuzz::Args),

    /// Fetches NVIDIA's compiler of kernels into target/cuda-toolkit, from PyPI's wheels.
    CudaToolkit,

    /// Attacks a flow as hostile clients do, and shows what each attack costs.
    Attacks(attacks::Args),

    /// Compiles the GPU's kernels, and builds the program with them inside.
    BuildCuda(cuda::BuildArgs),

    /// Packs what a machine with a GPU needs to check and measure us, without compiler and network.
    GpuBundle(cuda::BundleArgs),

    /// Loads a flow on three Docker engines while one is killed and one is cut off, and tells what clients saw.
    Swarm(swarm::Args),

    /// Measures us and our peers in one run; results go to tests/load/runs/.
    Bench(bench::Args),

    /// Makes networks, machines and resources fail under a flow one after another, and tells what clients saw.
    Faults(faults::Args),

    /// Runs a flow under load while faults happen at random, and fails if it does not keep its promises.
    Soak(soak::Args),
}

fn main() -> ExitCode {
    match run(Args::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Setup(args) => setup::run(&args),
        Command::Test(args) => test::run(&args),
        Command::Tidy(args) => tidy::run(&args),
        Command::Docs(args) => docs::run(&args),
        Command::Codegen { check } => generate(check),
        Command::Wheel(args) => wheel::run(&args),
        Command::Dist(args) => dist::run(&args),
        Command::Fuzz(args) => fuzz::run(&args),
        Command::Attacks(args) => attacks::run(&args),
        Command::CudaToolkit => cuda::set_up(),
        Command::BuildCuda(args) => cuda::build(&args),
        Command::GpuBundle(args) => cuda::pack(&args),
        Command::Swarm(args) => swarm::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Faults(args) => faults::run(&args),
        Command::Soak(args) => soak::run(&args),
    }
}

fn generate(check: bool) -> anyhow::Result<()> {
    let mut command = shell::cargo();
    command.args(["run", "--package", "xtask-codegen", "--"]);
    shell::run(command.args(check.then_some("--check")))
}
