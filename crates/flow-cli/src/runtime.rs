//! Runs asynchronous commands to their end.

use anyhow::Context;
use futures_util::FutureExt;
use tokio::runtime::Builder;

use crate::exit::Exit;

/// Runs a command on one thread per core.
pub(crate) fn block_on(
    command: impl Future<Output = anyhow::Result<Exit>>,
) -> anyhow::Result<Exit> {
    block_on_runtime(&mut Builder::new_multi_thread(), command)
}

/// Runs the tasks of a command on one thread. It may start further threads itself.
pub(crate) fn block_on_one_thread(
    command: impl Future<Output = anyhow::Result<Exit>>,
) -> anyhow::Result<Exit> {
    block_on_runtime(Builder::new_multi_thread().worker_threads(1), command)
}

fn block_on_runtime(
    runtime: &mut Builder,
    command: impl Future<Output = anyhow::Result<Exit>>,
) -> anyhow::Result<Exit> {
    let runtime = runtime
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    // Boxed, so that the loop of the runtime is compiled once and not for each command.
    let exit = runtime.block_on(command.boxed_local());
    // A thread may block in a read of stdin, and a connection may wait for its last reply.
    runtime.shutdown_background();
    exit
}
