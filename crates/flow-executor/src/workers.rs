//! How many threads of one process run its executor.

use std::fmt;
use std::num::{NonZeroU16, NonZeroUsize};
use std::str::FromStr;
use std::thread;

use crate::LoadError;

/// How many threads of one process run its executor side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workers {
    /// So many.
    Number(NonZeroU16),
    /// One for each core that the process may use; one if the executor cannot be forked.
    Auto,
}

impl Default for Workers {
    fn default() -> Self {
        Self::Number(NonZeroU16::MIN)
    }
}

/// The text names no number of workers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no number of workers: a number from 1 on, or `auto`")]
pub struct BadWorkers(String);

impl FromStr for Workers {
    type Err = BadWorkers;

    fn from_str(text: &str) -> Result<Self, BadWorkers> {
        match text {
            "auto" => Ok(Self::Auto),
            number => number
                .parse()
                .map(Self::Number)
                .map_err(|_| BadWorkers(text.to_owned())),
        }
    }
}

impl fmt::Display for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Auto => f.write_str("auto"),
        }
    }
}

impl Workers {
    pub(crate) fn number(self) -> usize {
        match self {
            Self::Number(number) => number.get().into(),
            Self::Auto => thread::available_parallelism().map_or(1, NonZeroUsize::get),
        }
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
