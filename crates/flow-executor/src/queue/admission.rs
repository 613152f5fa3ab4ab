//! Admits requests before they are decoded, and bounds those that wait and their bytes, for each priority class.
//!
//! A request waits while its class is full, and its connection delays further requests meanwhile, so that clients slow
//! down. Refusing requests would not do: stock gateways turn RESOURCE_EXHAUSTED into an unknown error. Each class has
//! its own bounds, so bulk requests never keep interactive ones out.

use std::fmt;
use std::sync::{Arc, OnceLock};

use flow_core::{Code, Failure};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::yield_now;

use super::admitted::AdmittedRequest;
use super::batcher::PriorityClass;
use super::call::{Call, CallRequest};
use super::call_queue::{CallQueue, CallersGuard};
use super::document_sender::{DocumentSender, StreamedDocuments};
use super::reply::{CallOutput, ReplySender};

/// Requests of one class that may wait: some batches, so that workers never idle, and no more, so that a slow executor
/// does not collect minutes of work.
const CLASS_REQUESTS_MAX: usize = 1024;

/// Bytes that one permit stands for: the number of permits that can be acquired at once is limited.
const BYTES_UNIT: usize = 1 << 10;

/// Admits requests. Clones share the bounds.
#[derive(Debug, Clone)]
pub(crate) struct Admission {
    queue: Arc<CallQueue>,
    interactive: Bounds,
    bulk: Bounds,
    short_calls: ShortCallsHere,
    _callers: Arc<CallersGuard>,
}

/// Runs short calls on the thread of their caller.
pub(crate) trait ShortCallRunner: Send + Sync {
    /// Whether a call is short, if it is the only one.
    fn may_be_short(&self, call: &Call) -> bool;

    /// Runs all calls that wait, if they are short and nothing else uses the executor. Returns whether no call waits any
    /// more.
    fn run_short_calls(&self, queue: &CallQueue) -> bool;
}

/// What runs short calls here, once the executor is loaded, if its author lets it.
#[derive(Clone, Default)]
pub(crate) struct ShortCallsHere(Arc<OnceLock<Arc<dyn ShortCallRunner>>>);

/// Wakes a worker when it is dropped, if there is a queue.
struct Announcement<'q>(Option<&'q CallQueue>);

/// How much of the bounds is used. It does not count as a source of requests, as an [`Admission`] does.
#[derive(Debug, Clone)]
pub(crate) struct QueueUsage([Bounds; 2]);

/// The bounds of a priority class.
#[derive(Debug, Clone)]
struct Bounds {
    requests: Arc<Semaphore>,
    bytes: Arc<Semaphore>,
    bytes_max: u32,
}

impl Admission {
    /// Admits requests to a queue. Those that wait or run have at most this number of bytes, half of it for each class.
    pub(crate) fn new(queue: &Arc<CallQueue>, bytes_max: usize) -> Self {
        let bounds = || Bounds::new(bytes_max / 2);
        Self {
            queue: Arc::clone(queue),
            interactive: bounds(),
            bulk: bounds(),
            short_calls: ShortCallsHere::default(),
            _callers: Arc::new(queue.register_callers()),
        }
    }

    /// Where to put what runs short calls.
    pub(crate) fn short_calls(&self) -> ShortCallsHere {
        self.short_calls.clone()
    }

    /// Shows how much of the bounds is used.
    pub(crate) fn usage(&self) -> QueueUsage {
        QueueUsage([self.interactive.clone(), self.bulk.clone()])
    }

    /// Waits until a request may be decoded that takes this number of bytes. One that takes more than its class may have
    /// waits until it is the only one.
    pub(crate) async fn admit(
        &self,
        class: PriorityClass,
        len: usize,
    ) -> Result<AdmittedRequest, Failure> {
        let bounds = match class {
            PriorityClass::Interactive => &self.interactive,
            PriorityClass::Bulk => &self.bulk,
        };
        let units = u32::try_from(len.div_ceil(BYTES_UNIT)).unwrap_or(u32::MAX);
        let units = units.min(bounds.bytes_max);
        // Bytes come first: a request that waits for them does not take a place from smaller ones.
        let bytes = bounds.bytes.clone().acquire_many_owned(units).await;
        let request = bounds.requests.clone().acquire_owned().await;
        Ok(AdmittedRequest {
            class,
            len,
            permit: request.map_err(|_closed| workers_ended())?,
            bytes: Arc::new(bytes.map_err(|_closed| workers_ended())?),
        })
    }

    /// Queues a call, and waits for its output. Dropping the future abandons the call.
    pub(crate) fn call(
        &self,
        admitted: AdmittedRequest,
        request: CallRequest,
    ) -> impl Future<Output = Result<CallOutput, Failure>> {
        let (reply, output) = oneshot::channel();
        let call = Call::new(admitted, request, ReplySender::once(reply));
        let runner = self.short_calls.get(&call);
        let (is_queued, announcement) = match runner {
            Some(_) => (
                self.queue.push_unannounced(call),
                Announcement(Some(&self.queue)),
            ),
            None => (self.queue.push(call), Announcement(None)),
        };
        async move {
            if !is_queued {
                return Err(workers_ended());
            }
            if let Some(runner) = runner {
                run_short_calls(runner, announcement).await;
            }
            output.await.unwrap_or_else(|_| Err(workers_ended()))
        }
    }

    /// Returns the documents of a call as the executor makes them.
    pub(crate) fn stream(
        &self,
        admitted: AdmittedRequest,
        request: CallRequest,
    ) -> Result<StreamedDocuments, Failure> {
        let (reply, documents) = DocumentSender::new();
        self.enqueue(Call::new(admitted, request, ReplySender::Stream(reply)))?;
        Ok(documents)
    }

    fn enqueue(&self, call: Call) -> Result<(), Failure> {
        let is_queued = self.queue.push(call);
        is_queued.then_some(()).ok_or_else(workers_ended)
    }
}

impl ShortCallsHere {
    pub(crate) fn set(&self, runner: Arc<dyn ShortCallRunner>) {
        // There is one executor, which is loaded once.
        drop(self.0.set(runner));
    }

    /// What may run this call here.
    fn get(&self, call: &Call) -> Option<&dyn ShortCallRunner> {
        let runner = self.0.get()?;
        runner.may_be_short(call).then_some(&**runner)
    }
}

impl fmt::Debug for ShortCallsHere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_set = self.0.get().is_some();
        f.debug_tuple("ShortCallsHere").field(&is_set).finish()
    }
}

/// Runs the calls that wait here, if they are short together. Otherwise the announcement wakes a worker.
async fn run_short_calls(runner: &dyn ShortCallRunner, mut announcement: Announcement<'_>) {
    // Requests that have arrived as well are decoded meanwhile, and may share the call.
    yield_now().await;
    if let Some(queue) = announcement.0
        && runner.run_short_calls(queue)
    {
        announcement.0 = None;
    }
}

impl Drop for Announcement<'_> {
    fn drop(&mut self) {
        if let Some(queue) = self.0 {
            queue.wake();
        }
    }
}

impl QueueUsage {
    /// Requests that wait for a worker.
    pub(crate) fn requests(&self) -> usize {
        let waiting = |it: &Bounds| CLASS_REQUESTS_MAX - it.requests.available_permits();
        self.0.iter().map(waiting).sum()
    }

    /// Bytes of requests that wait or run, in units of [`BYTES_UNIT`].
    pub(crate) fn bytes(&self) -> usize {
        let used = |it: &Bounds| it.bytes_max as usize - it.bytes.available_permits();
        self.0.iter().map(used).sum::<usize>() * BYTES_UNIT
    }
}

impl Bounds {
    fn new(bytes_max: usize) -> Self {
        let units = u32::try_from(bytes_max / BYTES_UNIT).unwrap_or(u32::MAX);
        let units = units.max(1);
        Self {
            requests: Arc::new(Semaphore::new(CLASS_REQUESTS_MAX)),
            bytes: Arc::new(Semaphore::new(units as usize)),
            bytes_max: units,
        }
    }
}

fn workers_ended() -> Failure {
    Failure::new(Code::Unavailable, "the executor has stopped")
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    const CLASS: PriorityClass = PriorityClass::Interactive;

    fn admission(bytes_max: usize) -> Admission {
        Admission::new(&CallQueue::new(), bytes_max)
    }

    #[test]
    fn a_request_waits_while_its_bytes_do_not_fit() {
        let admission = admission(2 * 100 * BYTES_UNIT);
        let admit = |bytes| admission.admit(CLASS, bytes).now_or_never();
        let first = admit(60 * BYTES_UNIT).unwrap().unwrap();
        assert!(admit(41 * BYTES_UNIT).is_none());
        let second = admit(40 * BYTES_UNIT).unwrap().unwrap();
        drop(first);
        assert!(admit(41 * BYTES_UNIT).is_some());
        let held = second.hold_bytes();
        drop(second);
        assert!(admit(100 * BYTES_UNIT).is_none());
        drop(held);
        assert!(admit(100 * BYTES_UNIT).is_some());
    }

    #[test]
    fn the_usage_shows_what_waits_and_what_runs() {
        let admission = admission(2 * 100 * BYTES_UNIT);
        let usage = admission.usage();
        let admit = |class| admission.admit(class, 3 * BYTES_UNIT).now_or_never();
        let waits = admit(CLASS).unwrap().unwrap();
        let bulk = admit(PriorityClass::Bulk).unwrap().unwrap();
        assert_eq!((usage.requests(), usage.bytes()), (2, 6 * BYTES_UNIT));
        let runs = bulk.hold_bytes();
        drop(bulk);
        assert_eq!((usage.requests(), usage.bytes()), (1, 6 * BYTES_UNIT));
        drop((waits, runs));
        assert_eq!((usage.requests(), usage.bytes()), (0, 0));
    }

    #[test]
    fn bulk_requests_leave_room_for_interactive_ones() {
        let admission = admission(2 * 100 * BYTES_UNIT);
        let bulk = admission.admit(PriorityClass::Bulk, 100 * BYTES_UNIT);
        let _bulk = bulk.now_or_never().unwrap();
        assert!(
            admission
                .admit(PriorityClass::Bulk, 1)
                .now_or_never()
                .is_none()
        );
        assert!(
            admission
                .admit(CLASS, 100 * BYTES_UNIT)
                .now_or_never()
                .is_some()
        );
    }

    #[test]
    fn a_request_larger_than_the_bound_is_admitted_alone() {
        let admission = admission(2 * 100 * BYTES_UNIT);
        let admit = |bytes| admission.admit(CLASS, bytes).now_or_never();
        let small = admit(1).unwrap();
        assert!(admit(usize::MAX).is_none());
        drop(small);
        let large = admit(usize::MAX).unwrap();
        assert!(admit(1).is_none());
        drop(large);
    }
}
