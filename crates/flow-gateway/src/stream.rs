//! One client's stream: a window of requests in progress, and the order of the replies.
//!
//! The window is the back-pressure: while it is full nothing more is read, and HTTP/2 slows the client. A request
//! that was read waits until it is admitted, and meanwhile nothing more is read either. With ordered replies, a
//! reply that is done counts in the window until those before it are out, so memory stays bounded. Whatever ends the
//! reading (the client, an error, a drain), the requests that were read get their replies first.
//!
//! A stream is a task of its own: a client that does not read its replies fills its window, or its part of the byte
//! budget, and no more. Its requests still come to their end, and give back their permits and their replicas. Bytes count
//! in the budget from the request to the reply, until the connection takes the reply.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use flow_core::{CallOptions, Code, Failure};
use flow_net::status::too_late;
use flow_net::{ByteBudget, Draining, HeldBytes};
use flow_proto::Envelope;
use futures_util::stream::{FuturesOrdered, FuturesUnordered};
use futures_util::{Stream, StreamExt};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::task::AbortOnDropHandle;

use crate::admission::RequestPermit;
use crate::auth::{self, Identity};
use crate::reply::Finished;
use crate::snapshot_store::SnapshotStore;

/// Replies handed to the connection and not yet written. They have left the window and are added to it. With fewer,
/// stream and connection would take turns.
const HANDED_OVER_MAX: usize = 16;

/// How the requests of a stream are run.
#[derive(Debug, Clone)]
pub(crate) struct StreamOptions {
    /// Requests in progress.
    pub(crate) window: NonZeroUsize,
    /// Whether replies leave in the order of the requests.
    pub(crate) in_order: bool,
    /// The options of each request.
    pub(crate) call: CallOptions,
    /// What the stream may hold; `None` for no limit.
    pub(crate) budget: Option<ByteBudget>,
    /// Whose stream it is; `None` without API keys.
    pub(crate) identity: Option<Identity>,
}

/// Memory that a message takes besides its documents and parameters.
const MESSAGE_COST: usize = 1024;

/// The memory that a request takes while it runs: its bytes, and a copy of them on the way to an executor.
pub(crate) fn request_cost(request: &Envelope) -> usize {
    2 * len(request) + MESSAGE_COST
}

fn reply_cost(reply: &Envelope) -> usize {
    len(reply) + MESSAGE_COST
}

fn len(envelope: &Envelope) -> usize {
    let len = |bytes: &Option<Bytes>| bytes.as_ref().map_or(0, Bytes::len);
    len(&envelope.data) + len(&envelope.parameters)
}

/// A message, and its bytes in the budget.
struct Counted<T> {
    message: T,
    held: Option<HeldBytes>,
}

type StreamItem = Result<Envelope, Failure>;

/// The replies to `requests`, one for each. Dropping them cancels the requests in progress.
pub(crate) fn replies<R>(
    snapshots: &Arc<SnapshotStore>,
    requests: R,
    options: StreamOptions,
    draining: Draining,
) -> impl Stream<Item = StreamItem> + Send + use<R>
where
    R: Stream<Item = StreamItem> + Send + Unpin + 'static,
{
    let (out, replies) = mpsc::channel(HANDED_OVER_MAX);
    let session = Session {
        snapshots: snapshots.clone(),
        requests,
        running: Running::new(options.in_order),
        done: VecDeque::new(),
        waiting: None,
        options,
        draining,
        end: None,
    };
    let task = AbortOnDropHandle::new(snapshots.streams.spawn(session.run(out)));
    ReceiverStream::new(replies).map(move |reply| {
        let _task = &task;
        // The connection counts it from here on.
        reply.message
    })
}

struct Session<R> {
    snapshots: Arc<SnapshotStore>,
    requests: R,
    running: Running,
    /// Replies that the client has not taken.
    done: VecDeque<Counted<Envelope>>,
    /// A request that was read and is not admitted yet.
    waiting: Option<Waiting>,
    options: StreamOptions,
    draining: Draining,
    /// Set when nothing more is read: how the stream ends after all replies are out.
    end: Option<Result<(), Failure>>,
}

struct Waiting {
    request: Counted<Envelope>,
    /// Kept between polls, because permits are given in the order in which they were requested.
    admission: Pin<Box<dyn Future<Output = RequestPermit> + Send>>,
}

/// What happened next on a stream.
#[allow(
    clippy::large_enum_variant,
    reason = "created and destructured at once; a box would cost an allocation per request"
)]
enum Event {
    Done(Counted<Finished>),
    HandedOver,
    /// Replies are not taken any more.
    Closed,
    Admitted(RequestPermit),
    Request(Counted<Envelope>),
    End(Result<(), Failure>),
}

impl<R: Stream<Item = StreamItem> + Send + Unpin> Session<R> {
    async fn run(mut self, out: mpsc::Sender<Counted<StreamItem>>) {
        while !self.is_over() {
            match self.event(&out).await {
                Event::Done(_) if self.is_late() => self.end = Some(Err(too_late())),
                Event::Done(finished) => self.done.push_back(finished.map(|it| it.reply)),
                Event::HandedOver => {}
                Event::Closed => return,
                Event::Admitted(admitted) => {
                    if let Some(Waiting { request, .. }) = self.waiting.take() {
                        self.start(admitted, request);
                    }
                }
                Event::Request(request) => self.admit(request),
                Event::End(end) => self.end = Some(end),
            }
        }
        if let Some(Err(failure)) = self.end.take() {
            let shared = &self.snapshots.newest().shared;
            shared.log.stream(&self.options.call.origin, &failure);
            // A client that has gone does not take the failure.
            let message = Err(failure);
            drop(
                out.send(Counted {
                    message,
                    held: None,
                })
                .await,
            );
        }
    }

    fn is_over(&self) -> bool {
        let all_out = self.done.is_empty() && self.running.is_empty() && self.waiting.is_none();
        self.end.is_some() && all_out
    }

    /// Whether the deadline of the stream has passed. The client then expects the status DEADLINE_EXCEEDED instead of a reply.
    fn is_late(&self) -> bool {
        let deadline = self.options.call.deadline;
        deadline.instant().is_some() && deadline.has_passed(Instant::now())
    }

    async fn event(&mut self, out: &mpsc::Sender<Counted<StreamItem>>) -> Event {
        let reading = self.end.is_none();
        let in_window = self.running.len() + self.done.len() + usize::from(self.waiting.is_some());
        let has_room = self.waiting.is_none() && in_window < self.options.window.get();
        tokio::select! {
            biased;
            permit = out.reserve(), if !self.done.is_empty() => match (permit, self.done.pop_front()) {
                (Ok(permit), Some(reply)) => {
                    permit.send(reply.map(Ok));
                    Event::HandedOver
                }
                _ => Event::Closed,
            },
            Some(finished) = self.running.next(), if !self.running.is_empty() => {
                Event::Done(finished)
            }
            () = self.draining.begun(), if reading => Event::End(Err(closing())),
            admitted = admission(&mut self.waiting), if self.waiting.is_some() => {
                Event::Admitted(admitted)
            }
            request = next_request(&mut self.requests, self.options.budget.as_ref()), if reading && has_room => {
                match request {
                    Some(Ok(request)) => Event::Request(request),
                    Some(Err(failure)) => Event::End(Err(failure)),
                    None => Event::End(Ok(())),
                }
            }
        }
    }

    /// Starts a request if it is admitted at once, and otherwise waits for that.
    fn admit(&mut self, request: Counted<Envelope>) {
        match RequestPermit::now(self.snapshots.newest()) {
            Ok(admitted) => self.start(admitted, request),
            Err(snapshot) => {
                let admission = Box::pin(RequestPermit::later(snapshot));
                self.waiting = Some(Waiting { request, admission });
            }
        }
    }

    fn start(&mut self, admitted: RequestPermit, request: Counted<Envelope>) {
        let options = self.options.call.clone();
        let identity = self.options.identity.clone();
        let Counted { message, mut held } = request;
        self.running.push(Box::pin(async move {
            let finished = admitted.run(message, options);
            let finished = auth::on_behalf_of(identity, finished).await;
            if let Some(held) = &mut held {
                held.set(reply_cost(&finished.reply));
            }
            Counted {
                message: finished,
                held,
            }
        }));
    }
}

impl<T> Counted<T> {
    fn map<U>(self, change: impl FnOnce(T) -> U) -> Counted<U> {
        Counted {
            message: change(self.message),
            held: self.held,
        }
    }
}

/// The next request, read once the budget has room.
async fn next_request<R: Stream<Item = StreamItem> + Unpin>(
    requests: &mut R,
    budget: Option<&ByteBudget>,
) -> Option<Result<Counted<Envelope>, Failure>> {
    if let Some(budget) = budget {
        budget.room().await;
    }
    let request = requests.next().await?;
    Some(request.map(|message| {
        let held = budget.map(|budget| budget.hold(request_cost(&message)));
        Counted { message, held }
    }))
}

/// Called only while a request is waiting.
async fn admission(waiting: &mut Option<Waiting>) -> RequestPermit {
    match waiting {
        Some(waiting) => waiting.admission.as_mut().await,
        None => std::future::pending().await,
    }
}

fn closing() -> Failure {
    let message = "the gateway is shutting down; requests without a reply did not run";
    Failure::new(Code::Unavailable, message)
}

type RunningRequest = Pin<Box<dyn Future<Output = Counted<Finished>> + Send>>;

/// Requests in progress, whose replies leave as they are done or in order.
enum Running {
    AsDone(FuturesUnordered<RunningRequest>),
    InOrder(FuturesOrdered<RunningRequest>),
}

impl Running {
    fn new(in_order: bool) -> Self {
        if in_order {
            Self::InOrder(FuturesOrdered::new())
        } else {
            Self::AsDone(FuturesUnordered::new())
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::AsDone(requests) => requests.len(),
            Self::InOrder(requests) => requests.len(),
        }
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn push(&mut self, request: RunningRequest) {
        match self {
            Self::AsDone(requests) => requests.push(request),
            Self::InOrder(requests) => requests.push_back(request),
        }
    }

    async fn next(&mut self) -> Option<Counted<Finished>> {
        match self {
            Self::AsDone(requests) => requests.next().await,
            Self::InOrder(requests) => requests.next().await,
        }
    }
}

#[cfg(test)]
mod tests;
