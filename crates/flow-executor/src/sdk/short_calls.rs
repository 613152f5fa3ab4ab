//! Where short calls run.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// Calls of requests below this number of bytes may be short. A larger request can hold hundreds of documents or one, so the time
/// of one call would say little about the next of the same size, and a client could make a long call seem short.
const SMALL: usize = 4 << 10;

/// Where the short calls of an executor run; see [`Executor::short_calls`](crate::Executor::short_calls).
pub struct ShortCalls<E> {
    share: Option<fn(E) -> SharedExecutor<E>>,
    /// Calls of requests of this many bytes or more are never short.
    below: usize,
}

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
        Self {
            share: None,
            below: 0,
        }
    }

    /// On the thread that reads requests, while the worker has nothing to do. Calls of requests with 4 KiB or more run on the
    /// worker's thread.
    #[must_use]
    pub fn where_read() -> Self
    where
        E: Send,
    {
        Self {
            share: Some(|executor| Box::new(Mutex::new(executor))),
            below: SMALL,
        }
    }

    /// Calls of larger requests may be short, too. The time of a call must depend on the size of its request only, and not on
    /// what it contains.
    #[must_use]
    pub fn of_any_size(self) -> Self {
        Self {
            below: usize::MAX,
            ..self
        }
    }

    /// What shares the executor, if threads other than the worker use it.
    pub(crate) fn share(&self) -> Option<fn(E) -> SharedExecutor<E>> {
        self.share
    }

    /// Calls of requests of this many bytes or more are never short.
    pub(crate) fn below(&self) -> usize {
        self.below
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
        f.write_str(match self.share {
            None => "ShortCalls::on_worker",
            Some(_) => "ShortCalls::where_read",
        })
    }
}
