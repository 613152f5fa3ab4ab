//! The primitives of [`limit`](crate::limit) and [`snapshot_store`](crate::snapshot_store), for which `tests/models` has
//! others whose schedules it chooses.

pub(crate) use std::sync::atomic::{AtomicUsize, Ordering};
pub(crate) use std::sync::{Arc, Mutex, PoisonError};

pub(crate) use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
pub(crate) use tokio_util::sync::CancellationToken;
pub(crate) use tokio_util::task::TaskTracker;
