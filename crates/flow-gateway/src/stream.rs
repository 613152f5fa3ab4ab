//! One client's stream: a window of requests under way, and the order of the replies.
//!
//! The window is the back-pressure: while it is full nothing more is read, and HTTP/2 holds the client
//! back. In order, a reply that is done keeps its place in the window until those before it are out, so
//! memory stays bounded too. Whatever ends the reading (the client, an error, a drain), the requests
//! that were read get their replies first.

use std::num::NonZeroUsize;
use std::sync::Arc;

use flow_core::{Code, Deadline, Failure};
use flow_net::Draining;
use flow_proto::Envelope;
use futures_util::stream::{FuturesOrdered, FuturesUnordered};
use futures_util::{Stream, StreamExt, stream};

use crate::core::Core;
use crate::schedule::{self, Finished};

/// How the requests of a stream are treated.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Options {
    /// Requests that may be under way.
    pub(crate) window: NonZeroUsize,
    /// Replies leave in the order of the requests.
    pub(crate) in_order: bool,
    pub(crate) deadline: Deadline,
}

/// The replies to `requests`, each once.
pub(crate) fn replies(
    core: Arc<Core>,
    requests: impl Stream<Item = Result<Envelope, Failure>> + Send + Unpin + 'static,
    options: Options,
    draining: Draining,
) -> impl Stream<Item = Result<Envelope, Failure>> + Send + 'static {
    let under_way = UnderWay::new(options.in_order);
    let state = Session {
        core,
        requests,
        under_way,
        options,
        draining,
        end: None,
    };
    stream::unfold(state, |mut state| async {
        state.next().await.map(|reply| (reply, state))
    })
}

struct Session<R> {
    core: Arc<Core>,
    requests: R,
    under_way: UnderWay,
    options: Options,
    draining: Draining,
    /// Nothing more is read; with what the stream ends once all replies are out.
    end: Option<Result<(), Failure>>,
}

/// What happened next on a stream.
#[allow(
    clippy::large_enum_variant,
    reason = "made and taken apart at once; a box would cost an allocation for each request"
)]
enum Event {
    Reply(Finished),
    Request(Envelope),
    End(Result<(), Failure>),
}

impl<R: Stream<Item = Result<Envelope, Failure>> + Send + Unpin> Session<R> {
    async fn next(&mut self) -> Option<Result<Envelope, Failure>> {
        loop {
            if self.end.is_some() && self.under_way.is_empty() {
                return self.finish();
            }
            match self.event().await {
                Event::Reply(finished) => return Some(Ok(finished.reply)),
                Event::Request(request) => self.start(request),
                Event::End(end) => self.end = Some(end),
            }
        }
    }

    /// The error that ended the reading, once; then nothing.
    fn finish(&mut self) -> Option<Result<Envelope, Failure>> {
        match self.end.replace(Ok(())) {
            Some(Err(failure)) => Some(Err(failure)),
            _ => None,
        }
    }

    async fn event(&mut self) -> Event {
        let reading = self.end.is_none();
        let room = self.under_way.len() < self.options.window.get();
        tokio::select! {
            biased;
            Some(finished) = self.under_way.next(), if !self.under_way.is_empty() => {
                Event::Reply(finished)
            }
            () = self.draining.begun(), if reading => Event::End(Err(closing())),
            request = self.requests.next(), if reading && room => match request {
                Some(Ok(request)) => Event::Request(request),
                Some(Err(failure)) => Event::End(Err(failure)),
                None => Event::End(Ok(())),
            },
        }
    }

    fn start(&mut self, request: Envelope) {
        let (core, deadline) = (self.core.clone(), self.options.deadline);
        self.under_way.push(Box::pin(async move {
            schedule::run(&core, request, deadline).await
        }));
    }
}

fn closing() -> Failure {
    let message = "the gateway is shutting down; requests without a reply did not run";
    Failure::new(Code::Unavailable, message)
}

type Walk = std::pin::Pin<Box<dyn Future<Output = Finished> + Send>>;

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
