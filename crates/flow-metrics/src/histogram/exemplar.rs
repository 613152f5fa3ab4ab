//! Examples of what was observed: values, each with the trace of its request.

use std::sync::{Mutex, TryLockError};
use std::time::SystemTime;

/// The id of a trace that is recorded.
pub type TraceId = [u8; 16];

/// A value that was observed, and the trace of its request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Exemplar {
    /// The trace of the request.
    pub trace: TraceId,
    /// The value, in the whole numbers that are counted.
    pub(crate) value: u64,
    /// When it was observed.
    pub at: SystemTime,
}

/// The newest example of each classic bucket. Empty until there is one.
#[derive(Debug, Default)]
pub(crate) struct Exemplars(Mutex<Vec<Option<Exemplar>>>);

impl Exemplars {
    /// Records an example for one of the buckets. Does nothing while another thread does the same: any example will do, and
    /// no request waits for it.
    pub(crate) fn note(&self, (bucket, buckets): (usize, usize), value: u64, trace: TraceId) {
        let mut all = match self.0.try_lock() {
            Ok(all) => all,
            Err(TryLockError::Poisoned(error)) => error.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        all.resize(buckets, None);
        all[bucket] = Some(Exemplar {
            trace,
            value,
            at: SystemTime::now(),
        });
    }

    /// The examples, by bucket; empty if there is none.
    pub(crate) fn read(&self) -> Vec<Option<Exemplar>> {
        let all = self.0.lock();
        all.unwrap_or_else(std::sync::PoisonError::into_inner)
            .clone()
    }
}

impl Exemplar {
    /// The id as tracers write it.
    pub(crate) fn trace_id(&self) -> String {
        self.trace
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }

    /// Seconds since 1970.
    pub(crate) fn unix_seconds(&self) -> f64 {
        let since = self.at.duration_since(SystemTime::UNIX_EPOCH);
        since.unwrap_or_default().as_secs_f64()
    }
}
