//! One client's stream: a window of requests under way, and the order of the replies.
//!
//! The window is the back-pressure: while it is full nothing more is read, and HTTP/2 holds the client
//! back. A request that was read waits for a seat among those of the whole gateway, and until it has one
//! nothing more is read either. In order, a reply that is done keeps its place in the window until those
//! before it are out, so memory stays bounded too. Whatever ends the reading (the client, an error, a
//! drain), the requests that were read get their replies first.
//!
//! A stream is a task of its own: a client that does not read its replies fills its window and no more.
//! Its requests still come to their end, and give their seats and their replicas back.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::Arc;

use flow_core::{Code, Failure};
use flow_net::{Draining, Terms};
use flow_proto::Envelope;
use futures_util::stream::{FuturesOrdered, FuturesUnordered};
use futures_util::{Stream, StreamExt};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::task::AbortOnDropHandle;

use crate::core::{Core, Seat};
use crate::current::Current;
use crate::request::{self, Finished};

/// Replies handed over and not yet written. They count as out, so they come on top of the window; with
/// fewer, stream and connection would take turns.
const HANDED_OVER_MAX: usize = 16;

/// How the requests of a stream are treated.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// Requests that may be under way.
    pub(crate) window: NonZeroUsize,
    /// Replies leave in the order of the requests.
    pub(crate) in_order: bool,
    pub(crate) terms: Terms,
}

type Outcome = Result<Envelope, Failure>;

/// The replies to `requests`, each once. Dropping them ends the requests that are under way.
pub(crate) fn replies<R>(
    current: &Arc<Current>,
    requests: R,
    options: Options,
    draining: Draining,
) -> impl Stream<Item = Outcome> + Send + use<R>
where
    R: Stream<Item = Outcome> + Send + Unpin + 'static,
{
    let (out, replies) = mpsc::channel(HANDED_OVER_MAX);
    let session = Session {
        current: current.clone(),
        requests,
        under_way: UnderWay::new(options.in_order),
        done: VecDeque::new(),
        waiting: None,
        options,
        draining,
        end: None,
    };
    let task = AbortOnDropHandle::new(current.streams.spawn(session.run(out)));
    ReceiverStream::new(replies).map(move |reply| {
        let _task = &task;
        reply
    })
}

struct Session<R> {
    current: Arc<Current>,
    requests: R,
    under_way: UnderWay,
    /// Replies that the client has not taken.
    done: VecDeque<Envelope>,
    /// A request that was read and has no seat.
    waiting: Option<Waiting>,
    options: Options,
    draining: Draining,
    /// Nothing more is read; with what the stream ends once all replies are out.
    end: Option<Result<(), Failure>>,
}

struct Waiting {
    request: Envelope,
    core: Arc<Core>,
    /// Kept from turn to turn, for seats are given in the order in which they were asked for.
    seat: Pin<Box<dyn Future<Output = Seat> + Send>>,
}

/// What happened next on a stream.
#[allow(
    clippy::large_enum_variant,
    reason = "made and taken apart at once; a box would cost an allocation for each request"
)]
enum Event {
    Done(Finished),
    HandedOver,
    /// Nobody takes replies any more.
    Gone,
    Seat(Seat),
    Request(Envelope),
    End(Result<(), Failure>),
}

impl<R: Stream<Item = Outcome> + Send + Unpin> Session<R> {
    async fn run(mut self, out: mpsc::Sender<Outcome>) {
        while !self.is_over() {
            match self.event(&out).await {
                Event::Done(finished) => self.done.push_back(finished.reply),
                Event::HandedOver => {}
                Event::Gone => return,
                Event::Seat(seat) => self.sit_down(seat),
                Event::Request(request) => self.begin(request),
                Event::End(end) => self.end = Some(end),
            }
        }
        if let Some(Err(failure)) = self.end.take() {
            self.current.core().lasting.failures.stream(&failure);
            // Whoever has gone does not want to know.
            drop(out.send(Err(failure)).await);
        }
    }

    fn is_over(&self) -> bool {
        let all_out = self.done.is_empty() && self.under_way.is_empty() && self.waiting.is_none();
        self.end.is_some() && all_out
    }

    async fn event(&mut self, out: &mpsc::Sender<Outcome>) -> Event {
        let reading = self.end.is_none();
        let taken = self.under_way.len() + self.done.len() + usize::from(self.waiting.is_some());
        let room = self.waiting.is_none() && taken < self.options.window.get();
        tokio::select! {
            biased;
            permit = out.reserve(), if !self.done.is_empty() => match (permit, self.done.pop_front()) {
                (Ok(permit), Some(reply)) => {
                    permit.send(Ok(reply));
                    Event::HandedOver
                }
                _ => Event::Gone,
            },
            Some(finished) = self.under_way.next(), if !self.under_way.is_empty() => {
                Event::Done(finished)
            }
            () = self.draining.begun(), if reading => Event::End(Err(closing())),
            seat = seat(&mut self.waiting), if self.waiting.is_some() => Event::Seat(seat),
            request = self.requests.next(), if reading && room => match request {
                Some(Ok(request)) => Event::Request(request),
                Some(Err(failure)) => Event::End(Err(failure)),
                None => Event::End(Ok(())),
            },
        }
    }

    /// A request that was read: it walks at once if there is a seat.
    fn begin(&mut self, request: Envelope) {
        let core = self.current.core();
        match core.room.seat_now() {
            Ok(seat) => self.start(core, request, seat),
            Err(_full) => {
                let seat = Box::pin(core.room.clone().seat());
                self.waiting = Some(Waiting {
                    request,
                    core,
                    seat,
                });
            }
        }
    }

    fn sit_down(&mut self, seat: Seat) {
        if let Some(Waiting { request, core, .. }) = self.waiting.take() {
            self.start(core, request, seat);
        }
    }

    fn start(&mut self, core: Arc<Core>, request: Envelope, seat: Seat) {
        let terms = self.options.terms.clone();
        self.under_way.push(Box::pin(async move {
            let finished = request::run(&core, request, terms).await;
            drop(seat);
            finished
        }));
    }
}

/// Comes only while a request is waiting.
async fn seat(waiting: &mut Option<Waiting>) -> Seat {
    match waiting {
        Some(waiting) => waiting.seat.as_mut().await,
        None => std::future::pending().await,
    }
}

fn closing() -> Failure {
    let message = "the gateway is shutting down; requests without a reply did not run";
    Failure::new(Code::Unavailable, message)
}

type Walk = Pin<Box<dyn Future<Output = Finished> + Send>>;

/// Requests under way, whose replies leave as they come or in order.
enum UnderWay {
    AsDone(FuturesUnordered<Walk>),
    InOrder(FuturesOrdered<Walk>),
}

impl UnderWay {
    fn new(in_order: bool) -> Self {
        if in_order {
            Self::InOrder(FuturesOrdered::new())
        } else {
            Self::AsDone(FuturesUnordered::new())
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::AsDone(walks) => walks.len(),
            Self::InOrder(walks) => walks.len(),
        }
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn push(&mut self, walk: Walk) {
        match self {
            Self::AsDone(walks) => walks.push(walk),
            Self::InOrder(walks) => walks.push_back(walk),
        }
    }

    async fn next(&mut self) -> Option<Finished> {
        match self {
            Self::AsDone(walks) => walks.next().await,
            Self::InOrder(walks) => walks.next().await,
        }
    }
}
