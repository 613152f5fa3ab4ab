//! Runs the plan for one request: calls the nodes that are ready, records their replies, and continues with the
//! nodes that waited for them.
//!
//! The plan never changes and is shared by all requests. The state of a request is its [`Execution`]: one
//! outcome per node. Nodes whose parents are done run concurrently. A node whose parents failed does not run, and
//! fails like the first of them. A node that the request does not address, or that does not offer its endpoint,
//! is skipped: it passes on what it would have got.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use flow_core::{CallOptions, Code, Deadline, Failure};
use flow_proto::Envelope;
use flow_proto::jina::StatusProto;
use flow_spec::{DocumentSource, NodeIdx, NodePlan};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use crate::node_call::NodeCall;
use crate::node_input::{RequestContext, Selected};
use crate::parts::Parts;
use crate::reply::{CallOutcome, Finished, ReplyBuilder, RouteEntry, error_status};
use crate::request_span::node_span;
use crate::shard_replies::NodeReply;
use crate::snapshot::Snapshot;

/// How long a call of a node may take that no reply waits for, unless `timeout_send` says otherwise. Its client does not notice
/// that it hangs, and each such request holds its documents and one of the places for floating work.
const FLOATING_TIMEOUT: Duration = Duration::from_secs(600);

/// How a node ended, or the whole plan.
type NodeOutcome = CallOutcome<Parts>;

/// One request that runs through the plan.
pub(crate) struct Execution {
    pub(crate) snapshot: Arc<Snapshot>,
    context: Arc<RequestContext>,
    reply: ReplyBuilder,
    /// By node; empty until the node is done.
    outcomes: Vec<Option<NodeOutcome>>,
    /// Nodes whose parents are done, and what these made; the next one is last.
    joined: Vec<(NodeIdx, Parts)>,
    /// Calls that can begin.
    ready: Vec<ReadyCall>,
    running: RunningCalls,
    /// Whether an executor may have run the request.
    may_have_run: bool,
}

/// A node and its request, which has several parts if the node's inputs are not merged.
struct ReadyCall {
    node: NodeIdx,
    parts: Vec<Envelope>,
    options: CallOptions,
}

type RunningCalls = FuturesUnordered<Pin<Box<dyn Future<Output = EndedCall> + Send>>>;

/// A call that has ended.
struct EndedCall {
    node: NodeIdx,
    started: SystemTime,
    result: Result<NodeReply, Failure>,
}

impl Execution {
    pub(crate) fn new(
        snapshot: Arc<Snapshot>,
        context: RequestContext,
        reply: ReplyBuilder,
    ) -> Self {
        let outcomes = vec![None; snapshot.plan.nodes.len()];
        let mut execution = Self {
            snapshot,
            context: Arc::new(context),
            reply,
            outcomes,
            joined: Vec::new(),
            ready: Vec::new(),
            running: FuturesUnordered::new(),
            may_have_run: false,
        };
        execution.continue_after(DocumentSource::Gateway);
        execution
    }

    /// Runs until the reply is complete. The execution that is returned has the nodes that the reply does not
    /// depend on.
    pub(crate) async fn run_to_reply(mut self) -> (Finished, Self) {
        while !self.are_done(&self.snapshot.plan.exit) {
            if !self.advance().await {
                break;
            }
        }
        let outcome = match self.join(&self.snapshot.plan.exit) {
            CallOutcome::Done(parts) => match self.merge(parts).await {
                Ok(data) => CallOutcome::Done(data),
                Err(failure) => CallOutcome::Failed(failure),
            },
            CallOutcome::ExecutorError(status, data) => CallOutcome::ExecutorError(status, data),
            CallOutcome::Failed(failure) => CallOutcome::Failed(self.failed(failure)),
        };
        let started = self.context.started;
        let rest = self.reply.after_reply(self.snapshot.has_floating, started);
        let reply = std::mem::replace(&mut self.reply, rest);
        (reply.finish(outcome, SystemTime::now()), self)
    }

    /// Runs the remaining nodes. The reply that is returned has only their routes.
    pub(crate) async fn run_to_end(mut self) -> Envelope {
        while self.advance().await {}
        let now = SystemTime::now();
        self.reply.finish(CallOutcome::Done(None), now).reply
    }

    /// Waits for one call to end and records it; false if there is none.
    async fn advance(&mut self) -> bool {
        self.prepare().await;
        let Some(ended) = self.next_ended().await else {
            return false;
        };
        let EndedCall {
            node,
            started,
            result,
        } = ended;
        let snapshot = self.snapshot.clone();
        let name = snapshot.plan.node(node).name.as_str();
        let now = SystemTime::now();
        self.may_have_run |= may_have_run(&result);
        let (outcome, status) = match result {
            Ok(reply) => self.record_reply(node, reply),
            Err(failure) => {
                let failure = failure.at(name);
                let status = failure.to_status();
                (CallOutcome::Failed(failure), Some(status))
            }
        };
        self.reply.add_route(RouteEntry {
            node: name,
            started,
            ended: now,
            status,
        });
        self.record_outcome(node, outcome);
        true
    }

    /// The outcome of a node that replied, and the status of its route.
    fn record_reply(
        &mut self,
        node: NodeIdx,
        reply: NodeReply,
    ) -> (NodeOutcome, Option<StatusProto>) {
        let NodeReply {
            reply,
            parameters,
            shards,
            note,
            usage,
            stages,
        } = reply;
        let name = self.snapshot.plan.node(node).name.as_str();
        self.reply.stages.add(name, stages);
        self.reply.add_shards(shards);
        self.reply.add_usage(usage);
        let note = note.map(|description| StatusProto {
            description,
            ..StatusProto::default()
        });
        if let Some(status) = error_status(reply.header.as_ref()) {
            let status = status.clone();
            return (
                CallOutcome::ExecutorError(Box::new(status.clone()), reply.data),
                Some(note.unwrap_or(status)),
            );
        }
        let parameters = parameters.iter().chain(&reply.parameters);
        parameters.for_each(|it| self.reply.add_results(Some(it)));
        let parts = Parts::one(reply.data, DocumentSource::Node(node));
        (CallOutcome::Done(parts), note)
    }

    /// Starts the calls that are ready, and waits for the first to end. A single call, as on every linear flow,
    /// runs right here: a future of its own would cost more than the rest of the execution.
    async fn next_ended(&mut self) -> Option<EndedCall> {
        if self.running.is_empty() && self.ready.len() == 1 {
            let call = self.ready.pop()?;
            return Some(run(&self.snapshot, call).await);
        }
        for call in self.ready.drain(..) {
            let snapshot = self.snapshot.clone();
            let call = async move { run(&snapshot, call).await };
            self.running.push(Box::pin(call));
        }
        self.running.next().await
    }

    fn record_outcome(&mut self, node: NodeIdx, outcome: NodeOutcome) {
        self.outcomes[node.index()] = Some(outcome);
        self.continue_after(DocumentSource::Node(node));
    }

    /// Continues with the nodes that waited for `source` and for nothing else.
    fn continue_after(&mut self, source: DocumentSource) {
        let snapshot = self.snapshot.clone();
        for &node in snapshot.plan.children_of(source).iter().rev() {
            let plan = snapshot.plan.node(node);
            if self.are_done(&plan.parents) {
                match self.join(&plan.parents) {
                    CallOutcome::Done(parts) => self.joined.push((node, parts)),
                    failed => self.record_outcome(node, failed),
                }
            }
        }
    }

    fn are_done(&self, sources: &[DocumentSource]) -> bool {
        sources.iter().all(|source| match source {
            DocumentSource::Gateway => true,
            DocumentSource::Node(node) => self.outcomes[node.index()].is_some(),
        })
    }

    /// All that these made, or the failure of the first that failed.
    fn join(&self, sources: &[DocumentSource]) -> NodeOutcome {
        let mut parts = Vec::with_capacity(sources.len());
        for source in sources {
            match source {
                DocumentSource::Gateway => parts.push(self.context.sent.clone()),
                DocumentSource::Node(node) => match &self.outcomes[node.index()] {
                    Some(CallOutcome::Done(made)) => parts.push(made.clone()),
                    Some(failed) => return failed.clone(),
                    None => {}
                },
            }
        }
        CallOutcome::Done(Parts::joined(parts).unwrap_or(Parts::one(None, DocumentSource::Gateway)))
    }

    /// Prepares the calls of nodes whose parents are done, or skips the nodes.
    async fn prepare(&mut self) {
        while let Some((node, parts)) = self.joined.pop() {
            let snapshot = self.snapshot.clone();
            let plan = snapshot.plan.node(node);
            if self.is_skipped(node, plan) {
                self.skip(node, plan, parts);
            } else {
                let context = self.context.clone();
                let selected = select(&snapshot, context, node, parts).await;
                self.prepare_call(node, plan, selected);
            }
        }
    }

    /// The documents of the reply.
    async fn merge(&mut self, parts: Parts) -> Result<Option<Bytes>, Failure> {
        if parts.is_one() && !self.snapshot.has_conditions {
            return self.context.merge(&parts);
        }
        let (snapshot, context) = (self.snapshot.clone(), self.context.clone());
        let (len, work) = (parts.len(), move || context.merge(&parts));
        snapshot.shared.heavy.run(len, work).await
    }

    /// The failure of the request. One that no executor has run may be sent again; this one may have been run by another
    /// node before.
    fn failed(&self, failure: Failure) -> Failure {
        let has_begun = self.may_have_run || !self.running.is_empty();
        match failure.code() {
            Code::Unavailable if has_begun => failure.with_code(Code::Lost),
            _ => failure,
        }
    }

    fn prepare_call(
        &mut self,
        node: NodeIdx,
        plan: &NodePlan,
        selected: Result<Selected, Failure>,
    ) {
        let flow = &self.snapshot.plan;
        match selected {
            Ok(Selected::Some(parts)) => {
                let limit = Deadline::after(Instant::now(), timeout(plan));
                let options = self.context.options.until(limit);
                let parts = self.context.requests(flow, plan, &self.reply, &parts);
                self.ready.push(ReadyCall {
                    node,
                    parts,
                    options,
                });
            }
            Ok(Selected::Nothing(parts)) => self.skip(node, plan, parts),
            Err(failure) => self.record_outcome(node, CallOutcome::Failed(failure)),
        }
    }

    /// Passes the documents on without a call. The route has an end, at which it began: the `profiling()` of
    /// Jina's client fails on a route without one.
    fn skip(&mut self, node: NodeIdx, plan: &NodePlan, parts: Parts) {
        let now = SystemTime::now();
        self.reply.add_route(RouteEntry {
            node: plan.name.as_str(),
            started: now,
            ended: now,
            status: None,
        });
        self.record_outcome(node, CallOutcome::Done(parts));
    }

    fn is_skipped(&self, node: NodeIdx, plan: &NodePlan) -> bool {
        let endpoint = self.reply.header.exec_endpoint.as_deref();
        !self.context.target.includes(plan.name.as_str())
            || self.snapshot.node(node).lacks(endpoint.unwrap_or_default())
    }
}

/// How long a call of a node may take; `None` for no limit of its own.
fn timeout(plan: &NodePlan) -> Option<Duration> {
    let default = (!plan.awaited).then_some(FLOATING_TIMEOUT);
    plan.calls.timeout.or(default)
}

/// The documents that a node gets of those of its parents.
async fn select(
    snapshot: &Arc<Snapshot>,
    context: Arc<RequestContext>,
    node: NodeIdx,
    parts: Parts,
) -> Result<Selected, Failure> {
    if parts.is_one() && snapshot.plan.node(node).calls.when.is_none() {
        return Ok(Selected::Some(parts));
    }
    let (len, plan) = (parts.len(), snapshot.clone());
    let work = move || context.select(plan.plan.node(node), parts);
    snapshot.shared.heavy.run(len, work).await
}

/// Whether an executor may have run the call.
fn may_have_run(result: &Result<NodeReply, Failure>) -> bool {
    match result {
        Ok(_) => true,
        Err(failure) => !matches!(failure.code(), Code::Unavailable | Code::Overloaded),
    }
}

async fn run(snapshot: &Snapshot, call: ReadyCall) -> EndedCall {
    let ReadyCall {
        node,
        parts,
        options,
    } = call;
    let started = SystemTime::now();
    let plan = snapshot.plan.node(node);
    let tracer = snapshot.shared.tracer.as_ref();
    let time = snapshot.node(node).measure(options.trace.as_deref());
    let (options, mut span) = node_span(tracer, plan.name.as_str(), &options);
    let call = NodeCall {
        node: snapshot.node(node),
        plan,
        options: &options,
        heavy: &snapshot.shared.heavy,
    };
    let result = call.run(parts).await;
    drop(time);
    if let (Some(span), Err(failure)) = (&mut span, &result) {
        span.fail(failure.code(), failure.message());
    }
    EndedCall {
        node,
        started,
        result,
    }
}

#[cfg(test)]
mod tests;
