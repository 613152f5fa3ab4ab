//! Shuttle's primitives under the names that the program uses, and models of those of tokio.

use std::future::{Future, poll_fn};
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

/// A token that wakes all who wait for it once it is cancelled, as that of tokio-util.
#[derive(Debug, Clone, Default)]
pub(crate) struct CancellationToken(Arc<Mutex<Cancellation>>);

#[derive(Debug, Default)]
struct Cancellation {
    is_cancelled: bool,
    wakers: Vec<Waker>,
}

/// Cancels a token when it is dropped.
#[derive(Debug)]
pub(crate) struct DropGuard(CancellationToken);

impl CancellationToken {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.lock().is_cancelled
    }

    pub(crate) fn drop_guard(self) -> DropGuard {
        DropGuard(self)
    }

    pub(crate) async fn cancelled(&self) {
        poll_fn(|context| {
            let mut state = self.lock();
            if state.is_cancelled {
                return Poll::Ready(());
            }
            state.wakers.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn lock(&self) -> MutexGuard<'_, Cancellation> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for DropGuard {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.is_cancelled = true;
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// The tasks of streams, of which a store of snapshots only keeps the tracker.
#[derive(Debug)]
pub(crate) struct TaskTracker;

impl TaskTracker {
    pub(crate) fn new() -> Self {
        Self
    }
}

/// A value that its readers share and that is replaced as a whole, as in tokio: the value before is given back after the lock is
/// released.
pub(crate) mod watch {
    use shuttle::sync::{Arc, RwLock, RwLockReadGuard};

    #[derive(Debug)]
    pub(crate) struct Sender<T>(Arc<RwLock<T>>);

    #[derive(Debug)]
    #[allow(dead_code, reason = "no model watches")]
    pub(crate) struct Receiver<T>(Arc<RwLock<T>>);

    impl<T> Sender<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(Arc::new(RwLock::new(value)))
        }

        pub(crate) fn borrow(&self) -> RwLockReadGuard<'_, T> {
            self.0.read().unwrap()
        }

        pub(crate) fn subscribe(&self) -> Receiver<T> {
            Receiver(Arc::clone(&self.0))
        }

        pub(crate) fn send_replace(&self, value: T) -> T {
            let mut held = self.0.write().unwrap();
            std::mem::replace(&mut *held, value)
        }
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
