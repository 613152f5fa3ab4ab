//! A call of the executor that waits for a worker.

use std::sync::Arc;
use std::time::{Duration, Instant};

use flow_core::{DocArrayVersion, Document};
use tokio::sync::OwnedSemaphorePermit;

use super::admitted::AdmittedRequest;
use super::batcher::{PriorityClass, QueuedRequest};
use super::call_trace::CallTrace;
use super::fingerprint::Fingerprint;
use super::reply::ReplySender;
use super::timing::{Stage, Timing};
use crate::endpoint_table::{BoundMethod, EndpointIdx, MethodIdx};
use crate::sdk::{BatchMetric, BatchRule, Parameters};

/// A decoded request that asks for a call.
#[derive(Debug)]
pub(crate) struct CallRequest {
    /// The id of the request.
    pub(crate) id: Arc<str>,
    pub(crate) method: BoundMethod,
    pub(crate) parameters: Parameters,
    pub(crate) documents: Vec<Document>,
    /// The name of each part of a join and the number of its documents, in order; empty for other methods.
    pub(crate) parts: Vec<(String, usize)>,
    /// `None` if the request is not recorded.
    pub(crate) trace: Option<CallTrace>,
    pub(crate) timing: Timing,
}

/// One request on its way to the executor.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) id: Arc<str>,
    pub(crate) endpoint: EndpointIdx,
    pub(crate) method: MethodIdx,
    pub(crate) rule: BatchRule,
    pub(crate) class: PriorityClass,
    pub(crate) parameters: Arc<Parameters>,
    key: BatchKey,
    pub(crate) documents: Vec<Document>,
    pub(crate) parts: Vec<(String, usize)>,
    pub(crate) trace: Option<CallTrace>,
    pub(crate) timing: Timing,
    /// The weight of each document, if the rule counts weights.
    weights: Option<Vec<usize>>,
    pub(crate) reply: ReplySender,
    arrived: Instant,
    /// The memory that its request takes, in bytes.
    len: usize,
    /// The right to wait in the queue.
    permit: Option<OwnedSemaphorePermit>,
    /// The right to take memory, for as long as there are documents.
    bytes: Arc<OwnedSemaphorePermit>,
}

/// What calls must have in common to share a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BatchKey {
    method: MethodIdx,
    version: Option<DocArrayVersion>,
    parameters: Fingerprint,
}

impl Call {
    pub(crate) fn new(admitted: AdmittedRequest, request: CallRequest, reply: ReplySender) -> Self {
        let AdmittedRequest {
            class,
            len,
            permit,
            bytes,
        } = admitted;
        let rule = match &reply {
            // An empty request would wait for others, and gain nothing.
            ReplySender::Once(_) if !request.documents.is_empty() => request.method.rule,
            _ => BatchRule::Alone,
        };
        let encoded_len = |document: &Document| document.encode().len();
        let weights = match rule.metric() {
            BatchMetric::Bytes => Some(request.documents.iter().map(encoded_len).collect()),
            BatchMetric::Documents | BatchMetric::Custom => None,
        };
        Self {
            id: request.id,
            endpoint: request.method.endpoint,
            method: request.method.method,
            rule,
            class,
            key: BatchKey {
                method: request.method.method,
                version: request.documents.first().map(Document::version),
                parameters: Fingerprint::of(&request.parameters),
            },
            parameters: Arc::new(request.parameters),
            documents: request.documents,
            parts: request.parts,
            trace: request.trace,
            timing: request.timing,
            weights,
            reply,
            arrived: Instant::now(),
            len,
            permit: Some(permit),
            bytes,
        }
    }

    /// The memory that its request takes, in bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// How long it has waited in the queue.
    pub(crate) fn waited(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.arrived)
    }

    /// The trace of its request, if it is recorded.
    pub(crate) fn trace_id(&self) -> Option<[u8; 16]> {
        self.trace.as_ref().and_then(CallTrace::trace_id)
    }

    /// Whether its documents have weights.
    pub(crate) fn is_weighed(&self) -> bool {
        self.weights.is_some()
    }

    /// Sets the weight of each document.
    pub(crate) fn set_weights(&mut self, weight: impl Fn(&Document) -> usize) {
        self.weights = Some(self.documents.iter().map(weight).collect());
    }

    /// Gives up its right to wait, so that another request can wait. A worker asked for work at `asked`; from then on, the
    /// request waited for company only.
    pub(crate) fn leave_queue(&mut self, asked: Instant) {
        self.permit = None;
        if matches!(self.rule, BatchRule::Together(batching) if !batching.wait_max.is_zero()) {
            self.timing.begin_at(Stage::Batch, asked.max(self.arrived));
        }
    }
}

impl QueuedRequest for Call {
    type BatchKey = BatchKey;

    fn docs(&self) -> usize {
        self.documents.len()
    }

    fn weight(&self, doc: usize) -> usize {
        let weights = self.weights.as_ref();
        weights.and_then(|all| all.get(doc)).copied().unwrap_or(1)
    }

    fn arrived(&self) -> Instant {
        self.arrived
    }

    fn class(&self) -> PriorityClass {
        self.class
    }

    fn rule(&self) -> BatchRule {
        self.rule
    }

    fn batch_key(&self) -> BatchKey {
        self.key
    }

    fn is_abandoned(&self) -> bool {
        self.reply.is_abandoned()
    }

    fn split_off(&mut self, docs: usize) -> Self {
        let total = self.documents.len();
        let whole = std::mem::replace(&mut self.reply, ReplySender::disconnected());
        let (reply, rest) = whole.split(docs, total);
        self.reply = rest;
        let weights = self.weights.as_mut();
        let rest = self.trace.as_ref().and_then(CallTrace::of_rest);
        Self {
            trace: std::mem::replace(&mut self.trace, rest),
            timing: self.timing.clone(),
            id: Arc::clone(&self.id),
            parameters: Arc::clone(&self.parameters),
            documents: self.documents.drain(..docs).collect(),
            parts: Vec::new(),
            weights: weights.map(|weights| weights.drain(..docs).collect()),
            reply,
            permit: None,
            bytes: Arc::clone(&self.bytes),
            ..*self
        }
    }
}
