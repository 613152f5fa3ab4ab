//! The primitives of [`limit`](crate::limit), for which `tests/models` has others whose schedules it chooses.

pub(crate) use std::sync::Arc;
pub(crate) use std::sync::atomic::{AtomicUsize, Ordering};

pub(crate) use tokio::sync::{OwnedSemaphorePermit, Semaphore};
