//! Lets one change of a flow be in progress at a time, and knows which one it is.

use std::sync::{Mutex, PoisonError};

use tokio::sync::MutexGuard;

/// Held by the change that is in progress, or by the start of the flow.
#[derive(Debug, Default)]
pub(crate) struct ChangeLock {
    lock: tokio::sync::Mutex<()>,
    in_progress: Mutex<String>,
}

impl ChangeLock {
    /// Waits until nothing else is in progress. If it has to wait, `waits` gets the name of what is.
    pub(crate) async fn acquire(&self, name: &str, waits: impl FnOnce(&str)) -> MutexGuard<'_, ()> {
        let guard = match self.lock.try_lock() {
            Ok(guard) => guard,
            Err(_held) => {
                let in_progress = self.name().clone();
                waits(&in_progress);
                self.lock.lock().await
            }
        };
        name.clone_into(&mut self.name());
        guard
    }

    /// The name of what is in progress.
    fn name(&self) -> std::sync::MutexGuard<'_, String> {
        let name = self.in_progress.lock();
        name.unwrap_or_else(PoisonError::into_inner)
    }
}
