//! Graceful shutdown: begins once, is seen by every part of the process, and has a time limit.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Begins the graceful shutdown of a process, and limits its time.
#[derive(Debug, Clone)]
pub struct Drain {
    begun: CancellationToken,
    grace: Duration,
}

/// Reports when the graceful shutdown has begun.
#[derive(Debug, Clone)]
pub struct Draining(CancellationToken);

impl Drain {
    /// A drain that has not begun. Requests in progress get at most `grace` to finish.
    #[must_use]
    pub fn new(grace: Duration) -> Self {
        Self {
            begun: CancellationToken::new(),
            grace,
        }
    }

    /// Begins the drain. Later calls have no effect.
    pub fn begin(&self) {
        self.begun.cancel();
    }

    /// The time for requests in progress to finish.
    #[must_use]
    pub fn grace(&self) -> Duration {
        self.grace
    }

    /// A handle that only watches.
    #[must_use]
    pub fn watch(&self) -> Draining {
        Draining(self.begun.clone())
    }

    /// Begins the drain at the first SIGTERM or SIGINT, and returns at the second.
    ///
    /// Signals are handled from the call on, not from the first poll: an earlier signal ends the process at once. So
    /// call this before other processes can know of this one.
    pub fn follow_signals(self) -> impl Future<Output = ()> + Send + use<> {
        let signals = (
            signal(SignalKind::terminate()),
            signal(SignalKind::interrupt()),
        );
        async move {
            let (Ok(mut term), Ok(mut int)) = signals else {
                tracing::warn!("cannot handle signals; only SIGKILL ends this process");
                return std::future::pending().await;
            };
            next(&mut term, &mut int).await;
            self.begin();
            next(&mut term, &mut int).await;
        }
    }
}

async fn next(term: &mut Signal, int: &mut Signal) {
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
}

impl Draining {
    /// Returns when the drain begins.
    pub async fn begun(&self) {
        self.0.cancelled().await;
    }

    /// Whether the drain has begun.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.0.is_cancelled()
    }
}
