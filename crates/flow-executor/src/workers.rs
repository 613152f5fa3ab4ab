//! Several threads of one process that run its executor: how many, and what each of them gets.

use std::num::NonZeroUsize;
use std::thread;

pub use flow_core::{BadWorkers, Workers};

use crate::LoadError;

/// How many that are on this machine.
pub(crate) fn count(workers: Workers) -> usize {
    match workers {
        Workers::Number(number) => number.get().into(),
        Workers::Auto => thread::available_parallelism().map_or(1, NonZeroUsize::get),
    }
}

/// Makes another worker's executor, on that worker's own thread.
#[allow(
    missing_debug_implementations,
    reason = "a closure has nothing to show"
)]
pub struct Fork<E>(Box<dyn FnOnce() -> Result<E, LoadError> + Send>);

impl<E> Fork<E> {
    /// Calls `make` on the other worker's thread; what it captures is what both share.
    pub fn new(make: impl FnOnce() -> Result<E, LoadError> + Send + 'static) -> Self {
        Self(Box::new(make))
    }

    /// A finished executor: for those whose clones share what is large behind an `Arc`.
    pub fn of(executor: E) -> Self
    where
        E: Send + 'static,
    {
        Self::new(move || Ok(executor))
    }

    pub(crate) fn make(self) -> Result<E, LoadError> {
        (self.0)()
    }
}
