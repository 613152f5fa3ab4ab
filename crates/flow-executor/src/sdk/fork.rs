//! The executors of further workers.

use crate::sdk::LoadError;

/// Makes the executor of another worker, on that worker's thread.
#[allow(
    missing_debug_implementations,
    reason = "a closure has nothing to show"
)]
pub struct Fork<E>(Box<dyn FnOnce() -> Result<E, LoadError> + Send>);

impl<E> Fork<E> {
    /// Calls `make` on the other worker's thread. Both executors share what it captures.
    pub fn new(make: impl FnOnce() -> Result<E, LoadError> + Send + 'static) -> Self {
        Self(Box::new(make))
    }

    /// A complete executor, for types whose clones share what is large behind an `Arc`.
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
