//! Signals that end a process.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Calls `begin_shutdown` at the first SIGTERM or SIGINT, and returns at the second.
///
/// Signals are handled from the call on, not from the first poll; an earlier signal ends the process at once. Call
/// this before other processes can know this one.
pub fn on_termination(begin_shutdown: impl FnOnce() + Send) -> impl Future<Output = ()> + Send {
    let signals = Termination::handle();
    async move {
        let mut signals = match signals {
            Ok(signals) => signals,
            Err(error) => {
                tracing::warn!(%error, "cannot handle signals; only SIGKILL ends this process");
                return std::future::pending().await;
            }
        };
        signals.received().await;
        begin_shutdown();
        signals.received().await;
    }
}

/// SIGTERM and SIGINT.
struct Termination {
    terminate: Signal,
    interrupt: Signal,
}

impl Termination {
    fn handle() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn received(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
