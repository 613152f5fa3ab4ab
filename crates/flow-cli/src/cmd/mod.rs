//! The commands. Each file defines the options of a command and runs it.

mod announce;
mod bench;
mod check;
mod completions;
mod devices;
#[cfg(feature = "launch")]
mod doctor;
mod executor;
mod export;
#[cfg(feature = "launch")]
mod flows;
mod gateway;
#[cfg(feature = "hub")]
mod hub;
mod key;
mod man;
mod model;
mod new;
mod ping;
mod plot;
mod post;
mod python;
#[cfg(feature = "launch")]
mod sandbox;
mod trace;
#[cfg(feature = "launch")]
mod tune;
mod verify;

use std::process::ExitCode;

use clap::Subcommand;

use crate::runtime::{block_on, block_on_one_thread};
use crate::shell::Shell;

/// The commands. A new one also has a place in the groups of `args.rs`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[cfg(feature = "launch")]
    #[command(flatten)]
    Flows(flows::Flows),
    /// Check flow files without starting anything
    Check(check::Check),
    /// Draw a flow as an SVG or Mermaid picture
    Plot(plot::Plot),
    /// Send documents to a flow, and print or save the replies
    Post(post::Post),
    /// Send one request, and show where its time goes
    Trace(trace::Trace),
    /// Compare the vectors of a flow with stored ones or another flow's
    Verify(verify::Verify),
    /// Check whether a flow or an executor is ready
    Ping(ping::Ping),
    /// Run only the gateway of a flow, for executors that run elsewhere
    Gateway(gateway::Gateway),
    /// Create, list and revoke the API keys of a gateway
    #[command(subcommand)]
    Key(key::Key),
    /// Run a single executor
    Executor(executor::Executor),
    /// Create the project of a new executor or flow
    #[command(subcommand)]
    New(new::New),
    /// Share executors as images in a registry of your own
    #[cfg(feature = "hub")]
    #[command(subcommand)]
    Hub(hub::Hub),
    /// Download and list models
    #[command(subcommand)]
    Model(model::Model),
    /// List the devices that this machine can compute on
    Devices(devices::Devices),
    /// Find the options of the sentence encoder that suit this machine
    #[cfg(feature = "launch")]
    Tune(tune::Tune),
    /// Look for problems of this machine and of a flow
    #[cfg(feature = "launch")]
    Doctor(doctor::Doctor),
    /// Export flows to Docker Compose, Docker Swarm, Kubernetes or Helm
    #[command(subcommand)]
    Export(export::Export),
    /// Measure how fast this machine computes
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Generate the script that completes commands in a shell
    Completions(completions::Completions),
    /// Write the manual pages of all commands
    Man(man::Man),
    /// Run a Python script written for Jina on flow
    Python(python::Python),
    /// List what changes if a project that uses Jina moves to flow
    Migrate(python::Migrate),
    /// Announce that another process is ready
    #[command(hide = true)]
    Announce(announce::Announce),
    /// Limit this process, and become another program
    #[cfg(feature = "launch")]
    #[command(hide = true)]
    Sandbox(sandbox::Sandbox),
}

/// Runs one command to its end. `command_line` describes the whole command line.
pub(crate) fn run(
    command: Command,
    command_line: clap::Command,
    shell: &Shell,
) -> anyhow::Result<ExitCode> {
    let exit = match command {
        #[cfg(feature = "launch")]
        Command::Flows(command) => flows::run(command, shell)?,
        Command::Python(python) => match python::run(&python, shell)? {},
        Command::Migrate(migrate) => match python::migrate(&migrate, shell)? {},
        Command::Check(check) => check::run(&check, shell)?,
        Command::Plot(plot) => plot::run(&plot, shell)?,
        Command::Post(post) => block_on(post::run(post, shell))?,
        Command::Trace(trace) => block_on(trace::run(trace, shell))?,
        Command::Verify(verify) => block_on(verify::run(verify, shell))?,
        Command::Ping(ping) => block_on(ping::run(ping, shell))?,
        Command::Export(export) => export::run(&export, shell)?,
        Command::Gateway(gateway) => block_on_one_thread(gateway::run(gateway, shell))?,
        Command::Key(key) => key::run(key, shell)?,
        // An executor has a runtime and an exit code of its own.
        Command::Executor(executor) => return executor::run(executor, shell),
        Command::Announce(announce) => block_on(announce::run(announce))?,
        #[cfg(feature = "launch")]
        Command::Sandbox(sandbox) => match sandbox::run(&sandbox, shell)? {},
        Command::New(new) => new::run(new, shell)?,
        #[cfg(feature = "hub")]
        Command::Hub(hub) => hub::run(hub, shell)?,
        Command::Model(model) => model::run(model, shell)?,
        Command::Devices(devices) => devices::run(&devices, shell)?,
        #[cfg(feature = "launch")]
        Command::Tune(tune) => block_on(tune::run(tune, shell))?,
        #[cfg(feature = "launch")]
        Command::Doctor(doctor) => block_on(doctor::run(doctor, shell))?,
        Command::Bench(bench) => bench::run(bench, shell)?,
        Command::Completions(completions) => completions::run(&completions, command_line)?,
        Command::Man(man) => man::run(&man, command_line)?,
    };
    Ok(exit.into())
}
