//! The primitives of the queue of calls, for which `tests/models` has others whose schedules it chooses.

pub(crate) use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
pub(crate) use std::thread;
