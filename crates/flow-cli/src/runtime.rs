//! Runs asynchronous commands to their end.

use std::num::NonZeroUsize;

use anyhow::Context;
use futures_util::FutureExt;

use crate::exit::Exit;

/// Runs a command on one thread per core.
pub(crate) fn block_on(
    command: impl Future<Output = anyhow::Result<Exit>>,
) -> anyhow::Result<Exit> {
    block_on_threads(None, command)
}

/// Runs a command on this number of threads; `None` is one per core.
pub(crate) fn block_on_threads(
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
    // Boxed, so that the loop of the runtime is compiled once and not for each command.
    let exit = runtime.block_on(command.boxed_local());
    // A thread may block in a read of stdin, and a connection may wait for its last reply.
    runtime.shutdown_background();
    exit
}
