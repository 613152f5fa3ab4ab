//! Counts of requests or calls, of their failures and of their durations.
//!
//! They are counted in every gateway, also in one without monitoring and without a console, so a count is an addition or two to
//! an atomic. Everything else is left to the metrics and the console.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use flow_metrics::DurationHistogram;
use flow_net::CallCounts;
use serde::{Deserialize, Serialize};

/// Requests or calls that ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Those that failed.
    pub failed: u64,
    /// How many took how long, as [`DurationHistogram::buckets`] has them.
    pub durations: BTreeMap<i32, u64>,
}

impl Counts {
    pub(crate) fn of(calls: &CallCounts) -> Self {
        Self {
            failed: calls.failed(),
            durations: calls.durations().buckets().into_iter().collect(),
        }
    }
}

/// Counts the requests of clients.
#[derive(Debug, Default)]
pub(crate) struct RequestCounts {
    failed: AtomicU64,
    durations: DurationHistogram,
}

impl RequestCounts {
    pub(crate) fn add(&self, took: Duration, failed: bool) {
        self.failed.fetch_add(failed.into(), Ordering::Relaxed);
        self.durations.observe(took);
    }

    pub(crate) fn read(&self) -> Counts {
        Counts {
            failed: self.failed.load(Ordering::Relaxed),
            durations: self.durations.buckets().into_iter().collect(),
        }
    }
}
