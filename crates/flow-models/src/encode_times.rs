//! How long the stages of an encoding take.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// How long the stages of an encoding took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EncodeTimes {
    /// The time until the first texts were tokens. Further texts are tokenized while these are computed.
    pub tokenizing: Duration,
    /// The rest of the time.
    pub computing: Duration,
}

/// Measures an encoding.
#[derive(Debug)]
pub(crate) struct EncodeTimer {
    started: Instant,
    /// Nanoseconds. Several workers may tokenize the same text; the slowest one counts.
    tokenizing: AtomicU64,
}

impl EncodeTimer {
    pub(crate) fn start() -> Self {
        Self {
            started: Instant::now(),
            tokenizing: AtomicU64::new(0),
        }
    }

    /// Measures how long it takes to tokenize.
    pub(crate) fn tokenize<T>(&self, tokenize: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let ids = tokenize();
        let took = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.tokenizing.fetch_max(took, Relaxed);
        ids
    }

    pub(crate) fn end(self) -> EncodeTimes {
        let tokenizing = Duration::from_nanos(self.tokenizing.into_inner());
        EncodeTimes {
            tokenizing,
            computing: self.started.elapsed().saturating_sub(tokenizing),
        }
    }
}
