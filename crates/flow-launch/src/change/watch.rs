//! Reloads a running flow when its files change (`reload: true`).
//!
//! Files are looked at twice a second instead of being watched by the kernel: editors replace files, network file
//! systems report nothing, and each of these is a special case for a watcher. Two looks a second cost nothing that could
//! be measured.

use std::convert::Infallible;
use std::time::Duration;

use flow_core::Chain;
use flow_spec::Plan;

use crate::change::source::PlanSource;
use crate::change::{ChangeProgress, FlowChange};
use crate::supervisor::Supervisor;

/// Wait between two looks at the files.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Follows the files for as long as it is polled; does nothing without a source.
pub(crate) async fn follow(source: Option<PlanSource>, supervisor: &Supervisor) -> Infallible {
    let Some(source) = source else {
        return std::future::pending().await;
    };
    loop {
        wait_for_change(&source).await;
        let _lock = source.lock(|| ()).await;
        match source.read().await {
            Ok(plan) => reload(plan, supervisor, &source).await,
            Err(problem) => {
                tracing::error!(%problem, "the changed flow file is invalid; the flow is unchanged");
            }
        }
    }
}

/// Returns when a file has changed since it was read, and then not for one look: an editor may still write it.
async fn wait_for_change(source: &PlanSource) {
    let mut last = source.stamps();
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let now = PlanSource::refreshed(last.clone()).await;
        if now != source.stamps() && now == last {
            return;
        }
        last = now;
    }
}

async fn reload(plan: Plan, supervisor: &Supervisor, source: &PlanSource) {
    tracing::info!("the flow file has changed");
    let progress = ChangeProgress::to_log();
    let change = FlowChange::begin(supervisor, "a reload of the changed file", progress).await;
    if let Err(error) = change.reload(plan).await {
        source.note_failure(Chain(&error).to_string());
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        tracing::error!(%error, cause, "the flow is unchanged");
    }
}
