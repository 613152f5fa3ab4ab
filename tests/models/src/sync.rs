//! Shuttle's primitives under the names that the program uses, and models of those of tokio.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use shuttle::future::batch_semaphore::{BatchSemaphore, Fairness};

pub(crate) use shuttle::sync::atomic::{AtomicUsize, Ordering};
pub(crate) use shuttle::sync::{Arc, Condvar, Mutex, MutexGuard};
pub(crate) use shuttle::thread;
pub(crate) use std::sync::PoisonError;

/// What tokio's `Notify` promises at least: who is registered is woken by the next notification.
#[derive(Debug, Default)]
pub(crate) struct Notify(Mutex<Registered>);

#[derive(Debug, Default)]
struct Registered {
    notifications: usize,
    wakers: Vec<Waker>,
}

/// A future that a notification ends.
#[derive(Debug)]
pub(crate) struct Notified<'n> {
    notify: &'n Notify,
    /// The notifications before this was registered.
    since: Option<usize>,
}

impl Notify {
    pub(crate) fn notified(&self) -> Notified<'_> {
        Notified {
            notify: self,
            since: None,
        }
    }

    pub(crate) fn notify_waiters(&self) {
        let mut registered = self.0.lock().unwrap();
        registered.notifications += 1;
        let wakers = std::mem::take(&mut registered.wakers);
        drop(registered);
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Notified<'_> {
    pub(crate) fn enable(mut self: Pin<&mut Self>) {
        let notifications = self.notify.0.lock().unwrap().notifications;
        self.since.get_or_insert(notifications);
    }
}

impl Future for Notified<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let notify = self.notify;
        let mut registered = notify.0.lock().unwrap();
        let since = *self.since.get_or_insert(registered.notifications);
        if registered.notifications > since {
            return Poll::Ready(());
        }
        registered.wakers.push(context.waker().clone());
        Poll::Pending
    }
}

/// A fair semaphore that is never closed, as tokio's.
#[derive(Debug)]
pub(crate) struct Semaphore(BatchSemaphore);

#[derive(Debug)]
pub(crate) struct OwnedSemaphorePermit(Arc<Semaphore>);

#[derive(Debug)]
pub(crate) struct Unavailable;

impl Semaphore {
    pub(crate) const MAX_PERMITS: usize = usize::MAX >> 3;

    pub(crate) fn new(permits: usize) -> Self {
        Self(BatchSemaphore::new(permits, Fairness::StrictlyFair))
    }

    pub(crate) fn available_permits(&self) -> usize {
        self.0.available_permits()
    }

    pub(crate) fn try_acquire_owned(self: Arc<Self>) -> Result<OwnedSemaphorePermit, Unavailable> {
        match self.0.try_acquire(1) {
            Ok(()) => Ok(OwnedSemaphorePermit(self)),
            Err(_) => Err(Unavailable),
        }
    }

    pub(crate) async fn acquire_owned(
        self: Arc<Self>,
    ) -> Result<OwnedSemaphorePermit, Unavailable> {
        match self.0.acquire(1).await {
            Ok(()) => Ok(OwnedSemaphorePermit(self)),
            Err(_) => Err(Unavailable),
        }
    }
}

impl Drop for OwnedSemaphorePermit {
    fn drop(&mut self) {
        self.0.0.release(1);
    }
}
