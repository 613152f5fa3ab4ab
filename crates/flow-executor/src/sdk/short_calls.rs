//! Where short calls run.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// Where the short calls of an executor run; see [`Executor::short_calls`](crate::Executor::short_calls).
pub struct ShortCalls<E>(Option<fn(E) -> SharedExecutor<E>>);

/// An executor that threads use in turn.
pub(crate) type SharedExecutor<E> = Box<dyn UseInTurn<E>>;

/// Lets one thread at a time use an executor.
pub(crate) trait UseInTurn<E>: Send + Sync {
    /// Waits until no other thread uses it.
    fn lock(&self) -> MutexGuard<'_, E>;

    /// `None` if another thread uses it.
    fn try_lock(&self) -> Option<MutexGuard<'_, E>>;
}

impl<E: 'static> ShortCalls<E> {
    /// On the worker's thread, as all others.
    #[must_use]
    pub fn on_worker() -> Self {
        Self(None)
    }

    /// On the thread that reads requests, while the worker has nothing to do.
    #[must_use]
    pub fn where_read() -> Self
    where
        E: Send,
    {
        Self(Some(|executor| Box::new(Mutex::new(executor))))
    }

    /// What shares the executor, if threads other than the worker use it.
    pub(crate) fn share(self) -> Option<fn(E) -> SharedExecutor<E>> {
        self.0
    }
}

impl<E: Send> UseInTurn<E> for Mutex<E> {
    fn lock(&self) -> MutexGuard<'_, E> {
        self.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, E>> {
        match self.try_lock() {
            Ok(executor) => Some(executor),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl<E> fmt::Debug for ShortCalls<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            None => "ShortCalls::on_worker",
            Some(_) => "ShortCalls::where_read",
        })
    }
}
