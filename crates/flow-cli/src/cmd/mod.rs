//! The commands. Each file holds a command's options and what it does.

pub(crate) mod announce;
pub(crate) mod bench;
pub(crate) mod change;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod devices;
pub(crate) mod executor;
pub(crate) mod export;
pub(crate) mod gateway;
pub(crate) mod hub;
pub(crate) mod logs;
pub(crate) mod model;
pub(crate) mod new;
pub(crate) mod ping;
pub(crate) mod plot;
pub(crate) mod post;
pub(crate) mod ps;
pub(crate) mod up;

use std::num::NonZeroUsize;
use std::process::ExitCode;

use anyhow::Context;

use crate::args::Command;
use crate::exit::Exit;
use crate::shell::Shell;

/// Runs one command to its end.
pub(crate) fn run(command: Command, shell: &Shell) -> anyhow::Result<ExitCode> {
    let exit = match command {
        Command::Up(up) => block_on(up::run(up, shell))?,
        Command::Ps(ps) => ps::run(&ps, shell)?,
        Command::Logs(logs) => logs::run(&logs, shell)?,
        Command::Restart(restart) => change::restart(restart, shell)?,
        Command::Scale(scale) => change::scale(scale, shell)?,
        Command::Reload(reload) => change::reload(&reload, shell)?,
        Command::Down(down) => change::down(&down, shell)?,
        Command::Check(check) => check::run(&check, shell)?,
        Command::Plot(plot) => plot::run(&plot, shell)?,
        Command::Post(post) => block_on(post::run(post, shell))?,
        Command::Ping(ping) => block_on(ping::run(ping, shell))?,
        Command::Export(export) => export::run(&export, shell)?,
        Command::Gateway(gateway) => {
            block_on_threads(gateway.threads, gateway::run(gateway, shell))?
        }
        // An executor's process has a runtime and an end of its own.
        Command::Executor(executor) => return executor::run(executor, shell),
        Command::Announce(announce) => block_on(announce::run(announce))?,
        Command::New(new) => new::run(new, shell)?,
        Command::Hub(hub) => hub::run(hub, shell)?,
        Command::Model(model) => model::run(model, shell)?,
        Command::Devices(devices) => devices::run(&devices, shell)?,
        Command::Bench(bench) => bench::run(bench, shell)?,
        Command::Completions(completions) => completions::run(&completions)?,
    };
    Ok(exit.into())
}

/// Runs a command that waits for sockets and processes, on as many threads as there are cores.
fn block_on(command: impl Future<Output = anyhow::Result<Exit>>) -> anyhow::Result<Exit> {
    block_on_threads(None, command)
}

/// The same on so many threads.
fn block_on_threads(
    threads: Option<NonZeroUsize>,
    command: impl Future<Output = anyhow::Result<Exit>>,
) -> anyhow::Result<Exit> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if let Some(threads) = threads {
        runtime.worker_threads(threads.get());
    }
    let runtime = runtime
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let exit = runtime.block_on(command);
    // A thread may hang in a read of stdin, and a connection in its last reply; nobody waits for them.
    runtime.shutdown_background();
    exit
}
