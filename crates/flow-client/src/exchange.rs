//! A stream of requests, and their outcomes.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use flow_core::{Code, Deadline, Failure};
use flow_net::retry::{Attempt, Policy, RetryDecision, decide};
use flow_net::{Compression, Metadata, PostOptions};
use flow_proto::Envelope;
use futures_util::future::BoxFuture;
use futures_util::stream::{BoxStream, FuturesUnordered};
use futures_util::{Stream, StreamExt, stream};

use crate::connection::{
    CurrentStream, OpenStream, StreamEvent, send_first, to_client, to_client_one_by_one,
};
use crate::reply::Reply;
use crate::request::{Request, request_id};
use crate::window::{OutcomeOrder, Window};

/// Default number of requests in progress: enough to keep every replica of a large flow busy, and few enough that their
/// documents need only some megabytes.
const WINDOW: NonZeroUsize = NonZeroUsize::new(64).expect("is not zero");

/// Options of an exchange.
#[derive(Debug, Clone, Default)]
pub struct ExchangeOptions {
    /// Maximum number of requests in progress; `None` for 64, or fewer if the gateway allows fewer.
    pub prefetch: Option<NonZeroUsize>,
    /// Whether outcomes are returned in the order of the requests, rather than as they arrive.
    pub in_order: bool,
    /// Time-out of the whole exchange.
    pub timeout: Option<Duration>,
    /// Compression of requests.
    pub compression: Option<Compression>,
    /// Maximum number of retries of a request that did not run, and of connecting.
    pub retries: u32,
    /// Whether running a request twice does no harm, so that it is also retried if it may have run.
    pub idempotent: bool,
    /// Whether each request is a call of its own, rather than a message of one stream.
    pub one_by_one: bool,
    /// Further metadata of the calls.
    pub metadata: Metadata,
}

/// The outcome of one request.
#[derive(Debug)]
pub struct Outcome<T> {
    /// The tag of the request.
    pub tag: T,
    /// The reply, or why the request failed.
    pub result: Result<Reply, Failure>,
    /// The reply as it arrived. `None` if the request failed without one.
    pub envelope: Option<Box<Envelope>>,
    /// Time from sending the request to its outcome, with retries and their waits.
    pub took: Duration,
}

/// What was left of an exchange when it was given up.
#[derive(Debug)]
pub struct Unfinished<T> {
    /// Outcomes that had arrived, but waited for those before them.
    pub outcomes: Vec<Outcome<T>>,
    /// Tags of requests without an outcome, in the order of the requests.
    pub unanswered: Vec<T>,
    /// Whether all requests had been sent.
    pub is_all_sent: bool,
}

/// A stream of requests in progress.
///
/// [`next`](Self::next) drives it. It can be dropped at any time; then the requests in progress are cancelled.
pub struct Exchange<T> {
    open: OpenStream,
    policy: Policy,
    deadline: Deadline,
    max_in_progress: usize,
    /// `None` once all requests have been taken.
    requests: Option<BoxStream<'static, (Request, T)>>,
    window: Window<InProgress<T>, Completion>,
    /// Requests to be sent.
    unsent: VecDeque<Envelope>,
    /// Requests that wait for their retry.
    waiting: FuturesUnordered<BoxFuture<'static, Envelope>>,
    connection: CurrentStream,
    /// Set at the end: `Ok` if every request has an outcome.
    end: Option<Result<(), Failure>>,
}

/// The outcome of a request, and the reply as it arrived.
struct Completion {
    result: Result<Reply, Failure>,
    envelope: Option<Box<Envelope>>,
    at: Instant,
}

/// A request without an outcome.
struct InProgress<T> {
    tag: T,
    /// The request, if it may have to be sent again.
    request: Option<Envelope>,
    tries: u32,
    begun: Instant,
}

impl<T: Send + 'static> Exchange<T> {
    /// Sends requests over a client.
    pub(crate) fn over(
        client: &flow_net::Client,
        options: &ExchangeOptions,
        requests: impl Stream<Item = (Request, T)> + Send + 'static,
    ) -> Self {
        let of_calls = PostOptions {
            prefetch: options.prefetch.map(NonZeroUsize::get),
            // The window restores the order, so the gateway need not hold replies back.
            results_in_order: false,
            timeout: None,
            compression: options.compression,
            metadata: options.metadata.clone(),
        };
        let open = if options.one_by_one {
            to_client_one_by_one(client, of_calls, max_in_progress(options))
        } else {
            to_client(client, of_calls)
        };
        Self::new(open, options, requests)
    }

    fn new(
        open: OpenStream,
        options: &ExchangeOptions,
        requests: impl Stream<Item = (Request, T)> + Send + 'static,
    ) -> Self {
        let order = match options.in_order {
            true => OutcomeOrder::Requests,
            false => OutcomeOrder::Outcomes,
        };
        let deadline = Deadline::after(Instant::now(), options.timeout);
        Self {
            connection: CurrentStream::open(&open, Duration::ZERO, deadline, 1),
            open,
            policy: Policy {
                retries: Some(options.retries),
                idempotent: options.idempotent,
            },
            deadline,
            max_in_progress: max_in_progress(options),
            requests: Some(Box::pin(requests)),
            window: Window::new(order),
            unsent: VecDeque::new(),
            waiting: FuturesUnordered::new(),
            end: None,
        }
    }

    /// The next outcome. `None` at the end: then [`end`](Self::end) says whether every request has had one.
    ///
    /// Cancel safe: nothing is lost if the future is dropped.
    pub async fn next(&mut self) -> Option<Outcome<T>> {
        loop {
            if let Some((request, settled)) = self.window.take() {
                return Some(settled.outcome(request));
            }
            if self.end.is_some() {
                return None;
            }
            self.close_if_all_sent();
            let has_room = self.unsent.is_empty() && self.window.len() < self.max_in_progress;
            tokio::select! {
                request = next_of(&mut self.requests), if has_room => match request {
                    Some((request, tag)) => self.take_request(request, tag),
                    None => self.requests = None,
                },
                Some(request) = self.waiting.next(), if !self.waiting.is_empty() => {
                    self.unsent.push_back(request);
                }
                () = send_first(self.connection.sender.as_ref(), &mut self.unsent),
                    if !self.unsent.is_empty() => {}
                event = self.connection.events.next() => self.take_event(event),
            }
        }
    }

    /// How the exchange ended, if it has: with an outcome for every request, or with the failure of the stream.
    pub fn end(&self) -> Option<Result<(), &Failure>> {
        self.end.as_ref().map(|end| end.as_ref().copied())
    }

    /// Gives up, and returns what is left.
    pub fn into_unfinished(mut self) -> Unfinished<T> {
        let is_all_sent = self.is_all_sent();
        let (mut outcomes, mut unanswered) = (Vec::new(), Vec::new());
        for (request, settled) in self.window.take_all() {
            match settled {
                Some(settled) => outcomes.push(settled.outcome(request)),
                None => unanswered.push(request.tag),
            }
        }
        Unfinished {
            outcomes,
            unanswered,
            is_all_sent,
        }
    }

    /// The outcomes as a stream. A failure of the stream itself is the last item, and counts for all requests without an
    /// outcome.
    pub fn into_results(self) -> impl Stream<Item = Result<Reply, Failure>> + Send {
        stream::unfold(Some(self), |exchange| async move {
            let mut exchange = exchange?;
            if let Some(outcome) = exchange.next().await {
                return Some((outcome.result, Some(exchange)));
            }
            match exchange.end {
                Some(Err(failure)) => Some((Err(failure), None)),
                Some(Ok(())) | None => None,
            }
        })
    }

    fn take_request(&mut self, request: Request, tag: T) {
        let len = request.documents_len();
        let id = request.id().to_owned();
        let is_kept = self.policy.retries != Some(0);
        let in_progress = InProgress {
            tag,
            request: is_kept.then(|| request.0.clone()),
            tries: 1,
            begun: Instant::now(),
        };
        self.window.open(id.clone(), in_progress);
        if len > Request::LEN_MAX {
            let result = Err(too_large(len));
            self.window.settle(&id, Completion::now(result, None));
        } else {
            self.unsent.push_back(request.0);
        }
    }

    fn take_event(&mut self, event: Option<Result<StreamEvent, Failure>>) {
        match event {
            Some(Ok(StreamEvent::Opened)) => self.connection.is_open = true,
            Some(Ok(StreamEvent::Reply(reply))) => self.take_reply(reply),
            Some(Err(failure)) => self.take_break(failure),
            None if self.is_all_sent() && self.window.is_settled() => self.end = Some(Ok(())),
            None => self.take_break(Failure::new(Code::Lost, "the gateway ended the stream")),
        }
    }

    fn take_reply(&mut self, reply: Box<Envelope>) {
        self.connection.tries = 0;
        let id = request_id(&reply).to_owned();
        let result = Reply::read(&reply);
        if let Err(failure) = &result
            && self.retry(&id, failure)
        {
            return;
        }
        if !self
            .window
            .settle(&id, Completion::now(result, Some(reply)))
        {
            tracing::warn!(request.id = id, "received a reply to an unknown request");
        }
    }

    /// Retries a failed request, if the options allow it.
    fn retry(&mut self, id: &str, failure: &Failure) -> bool {
        let deadline = self.deadline;
        let Some(in_progress) = self.window.note_mut(id) else {
            return false;
        };
        let Some(request) = &in_progress.request else {
            return false;
        };
        let attempt = attempt(failure.code(), in_progress.tries, deadline);
        let RetryDecision::Retry(wait) = decide(self.policy, attempt) else {
            return false;
        };
        in_progress.tries += 1;
        let request = request.clone();
        self.waiting.push(Box::pin(async move {
            tokio::time::sleep(wait).await;
            request
        }));
        true
    }

    /// The stream has failed: opens another one for the requests in progress, if the options allow it.
    fn take_break(&mut self, failure: Failure) {
        let code = match failure.code() {
            // The other side had begun to work.
            Code::Unavailable if self.connection.is_open => Code::Lost,
            code => code,
        };
        let tries = self.connection.tries.max(1);
        let attempt = attempt(code, tries, self.deadline);
        let RetryDecision::Retry(wait) = decide(self.policy, attempt) else {
            self.end = Some(Err(failure));
            return;
        };
        tracing::debug!(%failure, tries, "the stream broke; opening another one");
        self.waiting.clear();
        let unsettled = self.window.unsettled();
        self.unsent = unsettled.filter_map(|it| it.request.clone()).collect();
        self.connection = CurrentStream::open(&self.open, wait, self.deadline, tries + 1);
    }

    fn is_all_sent(&self) -> bool {
        self.requests.is_none() && self.unsent.is_empty() && self.waiting.is_empty()
    }

    /// Ends the stream of requests, unless one may have to be sent again.
    fn close_if_all_sent(&mut self) {
        let is_over = self.policy.retries == Some(0) || self.window.is_settled();
        if self.is_all_sent() && is_over {
            self.connection.sender = None;
        }
    }
}

impl<T> std::fmt::Debug for Exchange<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exchange")
            .field("policy", &self.policy)
            .field("in_progress", &self.window.len())
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}

impl Completion {
    fn now(result: Result<Reply, Failure>, envelope: Option<Box<Envelope>>) -> Self {
        Self {
            result,
            envelope,
            at: Instant::now(),
        }
    }

    fn outcome<T>(self, request: InProgress<T>) -> Outcome<T> {
        Outcome {
            tag: request.tag,
            result: self.result,
            envelope: self.envelope,
            took: self.at.saturating_duration_since(request.begun),
        }
    }
}

fn max_in_progress(options: &ExchangeOptions) -> usize {
    options.prefetch.unwrap_or(WINDOW).get()
}

/// The next item. Never returns if there is no stream.
async fn next_of<S: Stream + Unpin>(stream: &mut Option<S>) -> Option<S::Item> {
    match stream {
        Some(stream) => stream.next().await,
        None => std::future::pending().await,
    }
}

fn attempt(code: Code, tries: u32, deadline: Deadline) -> Attempt {
    Attempt {
        code,
        tries,
        // A lost connection takes all requests of the stream with it, so it says nothing about this one.
        lost: 0,
        replicas: NonZeroUsize::MIN,
        remaining: deadline.remaining(Instant::now()),
        pushback: None,
    }
}

fn too_large(len: usize) -> Failure {
    let mebibytes = |len: usize| len >> 20;
    let (len, max) = (mebibytes(len), mebibytes(flow_net::MESSAGE_LEN_MAX));
    let message = format!("the documents have {len} MiB, the limit of a request is {max} MiB");
    Failure::new(Code::TooLarge, message)
}

#[cfg(test)]
mod tests;
