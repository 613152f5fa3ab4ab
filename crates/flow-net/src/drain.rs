//! Graceful shutdown: begins once, is seen by every part of the process, and has a time limit.

use std::time::Duration;

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
