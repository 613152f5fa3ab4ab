//! An orderly end: begun once, seen by everybody, limited in time.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Who may begin an orderly end, and how long it may take.
#[derive(Debug, Clone)]
pub struct Drain {
    begun: CancellationToken,
    grace: Duration,
}

/// What everybody else holds: tells when the end has begun.
#[derive(Debug, Clone)]
pub struct Draining(CancellationToken);

impl Drain {
    /// A drain that nobody has begun. What is under way gets at most `grace`.
    #[must_use]
    pub fn new(grace: Duration) -> Self {
        Self {
            begun: CancellationToken::new(),
            grace,
        }
    }

    /// Begins it. Later calls change nothing.
    pub fn begin(&self) {
        self.begun.cancel();
    }

    /// How long what is under way may take.
    #[must_use]
    pub fn grace(&self) -> Duration {
        self.grace
    }

    /// For those who only watch.
    #[must_use]
    pub fn watch(&self) -> Draining {
        Draining(self.begun.clone())
    }

    /// Begins the drain at the first SIGTERM or SIGINT, and returns at the second.
    ///
    /// Signals are watched from the call on, not from the first poll: one that comes between would end
    /// the process at once. So call this before anybody can know that the process is there.
    pub fn follow_signals(self) -> impl Future<Output = ()> + Send + use<> {
        let signals = (
            signal(SignalKind::terminate()),
            signal(SignalKind::interrupt()),
        );
        async move {
            let (Ok(mut term), Ok(mut int)) = signals else {
                tracing::warn!("signals cannot be watched; only SIGKILL will end this process");
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
