//! The primitives of [`byte_budget`](crate::byte_budget), for which `tests/models` has others whose schedules it chooses.

pub(crate) use std::sync::Arc;
pub(crate) use std::sync::atomic::{AtomicUsize, Ordering};

pub(crate) use tokio::sync::Notify;
