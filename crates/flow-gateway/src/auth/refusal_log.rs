//! Logs requests that are refused because of their key, within a limit: a client that tries keys must not fill the disk.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use flow_core::LineBudget;

use super::refusal::Refusal;
use crate::shortened::shortened;

/// Maximum length of a logged path, in bytes.
const PATH_LEN_MAX: usize = 256;

/// Logs the refused requests of a gateway.
#[derive(Debug, Default)]
pub(super) struct RefusalLog(Mutex<LineBudget>);

impl RefusalLog {
    pub(super) fn refusal(&self, client: Option<IpAddr>, path: &str, refusal: &Refusal) {
        let Some(left_out) = self.take() else { return };
        tracing::info!(
            path = shortened(path, PATH_LEN_MAX),
            client = client.map(tracing::field::display),
            code = refusal.reason().code().as_str(),
            cause = refusal.message(),
            left_out = (left_out > 0).then_some(left_out),
            "request refused"
        );
    }

    /// The number of lines that were left out before this one; `None` if this one is left out, too.
    fn take(&self) -> Option<u64> {
        let mut budget = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        budget.take(Instant::now()).then(|| budget.take_left_out())
    }
}
