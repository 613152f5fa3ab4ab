//! Admits requests: each gets the newest snapshot, and a permit of the concurrency limit until it ends.

use std::sync::Arc;

use flow_core::CallOptions;
use flow_proto::Envelope;

use crate::limit::Permit;
use crate::reply::Finished;
use crate::request;
use crate::snapshot::Snapshot;

/// The right of a request to run.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub(crate) snapshot: Arc<Snapshot>,
    permit: Permit,
}

impl Admitted {
    /// Admits a request if there is a permit now; or else gives the snapshot back.
    pub(crate) fn now(snapshot: Arc<Snapshot>) -> Result<Self, Arc<Snapshot>> {
        match snapshot.limit.try_acquire() {
            Some(permit) => Ok(Self { snapshot, permit }),
            None => Err(snapshot),
        }
    }

    /// Admits a request as soon as there is a permit.
    pub(crate) async fn later(snapshot: Arc<Snapshot>) -> Self {
        let permit = snapshot.limit.clone().acquire().await;
        Self { snapshot, permit }
    }

    /// Runs the request, counts it, and logs its failure.
    pub(crate) async fn run(self, request: Envelope, options: CallOptions) -> Finished {
        let metrics = self.snapshot.shared.metrics.as_ref();
        let timer = metrics.map(|metrics| metrics.begin(&request));
        let finished = request::run(&self.snapshot, request, options).await;
        let failures = &self.snapshot.shared.failures;
        failures.reply(finished.reply.header.as_ref());
        if let Some(timer) = timer {
            timer.end(&finished.reply);
        }
        drop(self.permit);
        finished
    }
}
