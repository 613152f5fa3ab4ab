//! A request that may be decoded and queued.

use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;

use super::batcher::PriorityClass;

/// A request that is admitted.
#[derive(Debug)]
pub(crate) struct AdmittedRequest {
    pub(crate) class: PriorityClass,
    /// The memory that it takes, in bytes.
    pub(crate) len: usize,
    /// The right to wait in the queue.
    pub(crate) permit: OwnedSemaphorePermit,
    /// The right to take memory. The call and the task that makes the reply share it.
    pub(crate) bytes: Arc<OwnedSemaphorePermit>,
}

impl AdmittedRequest {
    /// Keeps the memory of the request admitted for as long as the returned value lives.
    pub(crate) fn hold_bytes(&self) -> Arc<OwnedSemaphorePermit> {
        self.bytes.clone()
    }
}
