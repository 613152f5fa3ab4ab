//! Lets requests in: a bound before the workers, one for each lane.
//!
//! When a lane is full, a caller waits for a place. It holds its request meanwhile, and its connection
//! holds back further ones, so pressure travels up the stream to the client. Refusing instead would be
//! wrong behind stock gateways, which turn RESOURCE_EXHAUSTED into an unknown error. Each lane has places
//! of its own: bulk work that has filled its lane keeps no interactive request out.

use std::sync::Arc;
use std::time::Instant;

use flow_core::{Code, Document, Failure};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::Parameters;
use crate::batch::{Lane, Metric, Rule, Waiting};
use crate::directory::{EndpointIdx, Found, MethodIdx};
use crate::queue::{Callers, Queue};
use crate::reply::{Done, ReplyTo};

/// Requests of one lane that may wait before callers are held back: some batches' worth, so that the
/// workers never idle, and no more, so that a slow executor does not collect minutes of work.
const LANE_REQUESTS_MAX: usize = 1024;

/// Documents of a stream that may wait for a slow reader.
const STREAM_DOCUMENTS_MAX: usize = 16;

/// What a caller wants done.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) found: Found,
    pub(crate) lane: Lane,
    pub(crate) parameters: Parameters,
    pub(crate) documents: Vec<Document>,
    /// Where the documents come from, for methods that ask: a name and how many, in order.
    pub(crate) parts: Vec<(String, usize)>,
}

/// One request on its way to the executor.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) endpoint: EndpointIdx,
    pub(crate) method: MethodIdx,
    pub(crate) rule: Rule,
    pub(crate) lane: Lane,
    pub(crate) parameters: Arc<Parameters>,
    pub(crate) documents: Vec<Document>,
    pub(crate) parts: Vec<(String, usize)>,
    /// One for each document, where the rule counts them.
    weights: Option<Vec<usize>>,
    pub(crate) reply: ReplyTo,
    arrived: Instant,
    /// Its place in the lane; free again when the call is taken apart.
    place: Option<OwnedSemaphorePermit>,
}

/// Documents that an executor is still making.
pub(crate) type Documents = mpsc::Receiver<Result<Document, Failure>>;

impl Call {
    fn new(ask: Ask, reply: ReplyTo, place: OwnedSemaphorePermit) -> Self {
        let rule = match &reply {
            // An empty request would wait for company that it does not need.
            ReplyTo::Once(_) if !ask.documents.is_empty() => ask.found.rule,
            _ => Rule::Alone,
        };
        let bytes = |document: &Document| document.encode().len();
        let weights = match rule.metric() {
            Metric::Bytes => Some(ask.documents.iter().map(bytes).collect()),
            Metric::Documents | Metric::Custom => None,
        };
        Self {
            endpoint: ask.found.endpoint,
            method: ask.found.method,
            rule,
            lane: ask.lane,
            parameters: Arc::new(ask.parameters),
            documents: ask.documents,
            parts: ask.parts,
            weights,
            reply,
            arrived: Instant::now(),
            place: Some(place),
        }
    }

    pub(crate) fn is_weighed(&self) -> bool {
        self.weights.is_some()
    }

    pub(crate) fn weigh(&mut self, weight: impl Fn(&Document) -> usize) {
        self.weights = Some(self.documents.iter().map(weight).collect());
    }

    /// Leaves its place in the lane to the next.
    pub(crate) fn leave_lane(&mut self) {
        self.place = None;
    }
}

impl Waiting for Call {
    fn docs(&self) -> usize {
        self.documents.len()
    }

    fn weight(&self, place: usize) -> usize {
        let weights = self.weights.as_ref();
        weights.and_then(|all| all.get(place)).copied().unwrap_or(1)
    }

    fn arrived(&self) -> Instant {
        self.arrived
    }

    fn lane(&self) -> Lane {
        self.lane
    }

    fn rule(&self) -> Rule {
        self.rule
    }

    fn is_like(&self, other: &Self) -> bool {
        let flavour = |call: &Self| call.documents.first().map(Document::flavour);
        self.method == other.method
            && flavour(self) == flavour(other)
            && self.parameters == other.parameters
    }

    fn is_abandoned(&self) -> bool {
        self.reply.is_abandoned()
    }

    fn cut(&mut self, docs: usize) -> Self {
        let total = self.documents.len();
        let whole = std::mem::replace(&mut self.reply, ReplyTo::nobody());
        let (reply, rest) = whole.cut(docs, total);
        self.reply = rest;
        let weights = self.weights.as_mut();
        Self {
            parameters: Arc::clone(&self.parameters),
            documents: self.documents.drain(..docs).collect(),
            parts: Vec::new(),
            weights: weights.map(|weights| weights.drain(..docs).collect()),
            reply,
            place: None,
            ..*self
        }
    }
}

/// The way in.
#[derive(Debug, Clone)]
pub(crate) struct Admission {
    queue: Arc<Queue>,
    interactive: Arc<Semaphore>,
    bulk: Arc<Semaphore>,
    _callers: Arc<Callers>,
}

impl Admission {
    pub(crate) fn new(queue: &Arc<Queue>) -> Self {
        Self {
            queue: Arc::clone(queue),
            interactive: Arc::new(Semaphore::new(LANE_REQUESTS_MAX)),
            bulk: Arc::new(Semaphore::new(LANE_REQUESTS_MAX)),
            _callers: Arc::new(queue.callers()),
        }
    }

    /// Waits for a place in the queue and then for the outcome. Dropping the future abandons the call.
    pub(crate) async fn call(&self, ask: Ask) -> Result<Done, Failure> {
        let (reply, outcome) = oneshot::channel();
        self.enqueue(ask, ReplyTo::Once(reply)).await?;
        outcome.await.unwrap_or_else(|_| Err(workers_gone()))
    }

    /// The same for a method that makes its documents one by one.
    pub(crate) async fn stream(&self, ask: Ask) -> Result<Documents, Failure> {
        let (reply, documents) = mpsc::channel(STREAM_DOCUMENTS_MAX);
        self.enqueue(ask, ReplyTo::Stream(reply)).await?;
        Ok(documents)
    }

    async fn enqueue(&self, ask: Ask, reply: ReplyTo) -> Result<(), Failure> {
        let lane = match ask.lane {
            Lane::Interactive => &self.interactive,
            Lane::Bulk => &self.bulk,
        };
        let place = Arc::clone(lane).acquire_owned().await;
        let place = place.map_err(|_| workers_gone())?;
        let entered = self.queue.push(Call::new(ask, reply, place));
        entered.then_some(()).ok_or_else(workers_gone)
    }
}

fn workers_gone() -> Failure {
    Failure::new(Code::Unavailable, "the executor has stopped")
}
