//! Development tools of this repository: `cargo xtask <command>`.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it is a command-line program"
)]

mod advisories;
mod attacks;
mod bench;
mod capacity;
mod cuda;
mod dist;
mod docker_leftovers;
mod docs;
mod faults;
mod fuzz;
mod repository;
mod rustc;
mod setup;
mod shell;
mod soak;
mod statistics;
mod swarm;
mod test;
mod tidy;
mod timeline;
mod wheel;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "xtask", about = "Development tools of this repository")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Install the model and the third-party software that tests and benchmarks use, in .peers/.
    Setup(setup::Args),

    /// Install what the tests need, build the workspace, and run all of its tests.
    Test(test::Args),

    /// Check the project's own rules: crate dependencies, pure modules, sizes, wording, links.
    Tidy(tidy::Args),

    /// Check the links of the documentation and build the book in target/book. Installs mdBook on first use.
    Docs(docs::Args),

    /// Generate the Rust code of the files in proto/.
    Codegen {
        /// Check that the generated code is up to date, without writing it.
        #[arg(long)]
        check: bool,
    },

    /// Build the Python package `flow-serve` as a wheel, which contains the program `flow`.
    Wheel(wheel::Args),

    /// Build the files of a release for one target: archive, Debian package, bill of materials, checksums.
    Dist(dist::Args),

    /// Fuzz the parsers of flow files, queries, requests and documents.
    Fuzz(fuzz::Args),

    /// Check dependencies for known vulnerabilities, with RustSec's database or the copy of it in this repository.
    Advisories(advisories::Args),

    /// Download NVIDIA's CUDA compiler from PyPI into target/cuda-toolkit.
    CudaToolkit,

    /// Attack a flow as hostile clients do, and report what each attack costs.
    Attacks(attacks::Args),

    /// Compile the CUDA kernels and build the program with them.
    BuildCuda(cuda::BuildArgs),

    /// Bundle the tests and benchmarks for a machine with a GPU that has neither a compiler nor a network.
    GpuBundle(cuda::BundleArgs),

    /// Load a flow on three Docker engines while one fails and one is disconnected, and report what clients saw.
    Swarm(swarm::Args),

    /// Benchmark flow and comparable systems in one run, with results in tests/load/runs/.
    Bench(bench::Args),

    /// Simulate clusters with the costs of this machine, and compare the simulation with flows that run here.
    Capacity(capacity::Args),

    /// Inject faults of networks, machines and resources into a flow, and report what clients saw.
    Faults(faults::Args),

    /// Run a flow under load with random faults, and fail if it misses a limit.
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
        Command::Advisories(args) => advisories::run(&args),
        Command::Attacks(args) => attacks::run(&args),
        Command::CudaToolkit => cuda::set_up(),
        Command::BuildCuda(args) => cuda::build(&args),
        Command::GpuBundle(args) => cuda::pack(&args),
        Command::Swarm(args) => swarm::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Capacity(args) => capacity::run(&args),
        Command::Faults(args) => faults::run(&args),
        Command::Soak(args) => soak::run(&args),
    }
}

fn generate(check: bool) -> anyhow::Result<()> {
    let mut command = shell::cargo();
    command.args(["run", "--package", "xtask-codegen", "--"]);
    shell::run(command.args(check.then_some("--check")))
}
