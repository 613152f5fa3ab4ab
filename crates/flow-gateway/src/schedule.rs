//! Walks the plan: which nodes are ready? send; collect; next.
//!
//! The plan never changes and is shared by all requests. The state of a request is a [`Walk`]: one slot
//! for each node, filled when the node is done; it dies with the request. Nodes whose parents are done
//! run side by side. A node whose parents failed does not run, and fails like the first of them; a node
//! that the request is not for, or that does not offer its endpoint, passes on all that it would have got.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use flow_core::{Deadline, Failure};
use flow_net::Terms;
use flow_proto::Envelope;
use flow_proto::jina::StatusProto;
use flow_spec::{NodeIdx, NodePlan, Source};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use crate::call::{Call, Input};
use crate::core::Core;
use crate::parts::Parts;
use crate::reply::{End, Reply, Visited, refusal};
use crate::request::Finished;
use crate::visit::Answer;

/// How a node ended, or the whole walk.
type Ending = End<Parts>;

/// One request on its way.
pub(crate) struct Walk {
    pub(crate) core: Arc<Core>,
    call: Call,
    reply: Reply,
    /// By node; empty until the node is done.
    slots: Vec<Option<Ending>>,
    /// Nodes that may run and do not yet.
    ready: Vec<Ready>,
    running: Running,
}

/// A node and the request that it is to get, in several parts where its inputs stay apart.
struct Ready {
    node: NodeIdx,
    parts: Vec<Envelope>,
    terms: Terms,
}

type Running = FuturesUnordered<std::pin::Pin<Box<dyn Future<Output = Visit> + Send>>>;

/// A node has answered, or could not.
struct Visit {
    node: NodeIdx,
    started: SystemTime,
    outcome: Result<Answer, Failure>,
}

impl Walk {
    pub(crate) fn new(core: Arc<Core>, call: Call, reply: Reply) -> Self {
        let slots = vec![None; core.plan.nodes.len()];
        let mut walk = Self {
            core,
            call,
            reply,
            slots,
            ready: Vec::new(),
            running: FuturesUnordered::new(),
        };
        walk.proceed(Source::Gateway);
        walk
    }

    /// Until the last node that the reply depends on is done. What is left are nodes nobody waits for.
    pub(crate) async fn run_to_exit(mut self) -> (Finished, Self) {
        while !self.are_done(&self.core.plan.exit) {
            if !self.step().await {
                break;
            }
        }
        let end = match self.join(&self.core.plan.exit) {
            End::Done(parts) => match self.call.merged(&self.core, &parts) {
                Ok(data) => End::Done(data),
                Err(failure) => End::Failed(failure),
            },
            End::Refused(status, data) => End::Refused(status, data),
            End::Failed(failure) => End::Failed(failure),
        };
        let rest = self
            .reply
            .for_the_rest(self.core.has_floating, self.call.started);
        let reply = std::mem::replace(&mut self.reply, rest);
        (Finished::of(reply, end), self)
    }

    /// Until the last node is done that nobody waits for. The reply holds the routes of these alone.
    pub(crate) async fn run_to_end(mut self) -> Envelope {
        while self.step().await {}
        self.reply.end(End::Done(None), SystemTime::now())
    }

    /// Waits for one node and finds those it was holding up; false if none is left to run.
    async fn step(&mut self) -> bool {
        let Some(visit) = self.next_visit().await else {
            return false;
        };
        let Visit {
            node,
            started,
            outcome,
        } = visit;
        let core = self.core.clone();
        let name = core.plan.node(node).name.as_str();
        let ended = SystemTime::now();
        let (ending, status) = match outcome {
            Ok(answer) => self.take(answer, node),
            Err(failure) => {
                let failure = failure.at(name);
                let status = failure.to_status();
                (End::Failed(failure), Some(status))
            }
        };
        let visited = Visited {
            node: name,
            started,
            status,
        };
        self.reply.add_route(visited, ended);
        self.finish(node, ending);
        true
    }

    /// How a node that answered has ended, and what its route says of it.
    fn take(&mut self, answer: Answer, node: NodeIdx) -> (Ending, Option<StatusProto>) {
        let Answer {
            reply,
            parameters,
            shards,
            note,
        } = answer;
        self.reply.add_shards(shards);
        let note = note.map(|description| StatusProto {
            description,
            ..StatusProto::default()
        });
        if let Some(status) = refusal(reply.header.as_ref()) {
            let status = status.clone();
            return (
                End::Refused(Box::new(status.clone()), reply.data),
                Some(note.unwrap_or(status)),
            );
        }
        let parameters = parameters.iter().chain(&reply.parameters);
        parameters.for_each(|it| self.reply.add_results(Some(it)));
        let parts = Parts::one(reply.data, Source::Node(node));
        (End::Done(parts), note)
    }

    /// Starts what is ready, and waits for the first to be done. A node that is alone, as on every linear
    /// flow, runs right here: a future of its own costs more than the rest of the walk.
    async fn next_visit(&mut self) -> Option<Visit> {
        if self.running.is_empty() && self.ready.len() == 1 {
            let ready = self.ready.pop()?;
            return Some(visit(&self.core, ready).await);
        }
        for ready in self.ready.drain(..) {
            let core = self.core.clone();
            self.running
                .push(Box::pin(async move { visit(&core, ready).await }));
        }
        self.running.next().await
    }

    fn finish(&mut self, node: NodeIdx, ending: Ending) {
        self.slots[node.index()] = Some(ending);
        self.proceed(Source::Node(node));
    }

    /// Makes ready the nodes that were waiting for `source` and for nothing else any more.
    fn proceed(&mut self, source: Source) {
        let core = self.core.clone();
        for &node in core.plan.children_of(source) {
            let plan = core.plan.node(node);
            if self.are_done(&plan.parents) {
                match self.join(&plan.parents) {
                    End::Done(parts) => self.make_ready(node, plan, parts),
                    failed => self.finish(node, failed),
                }
            }
        }
    }

    fn are_done(&self, sources: &[Source]) -> bool {
        sources.iter().all(|source| match source {
            Source::Gateway => true,
            Source::Node(node) => self.slots[node.index()].is_some(),
        })
    }

    /// All that comes from these, or the failure of the first that failed.
    fn join(&self, sources: &[Source]) -> Ending {
        let mut parts = Vec::with_capacity(sources.len());
        for source in sources {
            match source {
                Source::Gateway => parts.push(self.call.sent.clone()),
                Source::Node(node) => match &self.slots[node.index()] {
                    Some(End::Done(made)) => parts.push(made.clone()),
                    Some(failed) => return failed.clone(),
                    None => {}
                },
            }
        }
        End::Done(Parts::joined(parts).unwrap_or(Parts::one(None, Source::Gateway)))
    }

    /// All parents are done: the node runs, unless the request is not for it.
    fn make_ready(&mut self, node: NodeIdx, plan: &NodePlan, parts: Parts) {
        if self.skips(node, plan) {
            return self.pass(node, plan, parts);
        }
        match self.call.input(&self.core, plan, parts) {
            Ok(Input::Some(parts)) => {
                let own = Deadline::after(Instant::now(), plan.calls.timeout);
                let terms = Terms {
                    deadline: self.call.terms.deadline.or_earlier(own),
                    ..self.call.terms.clone()
                };
                let parts = self
                    .call
                    .requests_for(&self.core, plan, &self.reply, &parts);
                self.ready.push(Ready { node, parts, terms });
            }
            Ok(Input::Nothing(rest)) => self.pass(node, plan, rest),
            Err(failure) => self.finish(node, End::Failed(failure)),
        }
    }

    /// The node is not called; its route says that it took no time. In Jina such a route has no end, over which
    /// its own client's `profiling()` falls.
    fn pass(&mut self, node: NodeIdx, plan: &NodePlan, parts: Parts) {
        let now = SystemTime::now();
        let visited = Visited {
            node: plan.name.as_str(),
            started: now,
            status: None,
        };
        self.reply.add_route(visited, now);
        self.finish(node, End::Done(parts));
    }

    fn skips(&self, node: NodeIdx, plan: &NodePlan) -> bool {
        let endpoint = self.reply.header.exec_endpoint.as_deref();
        let node = self.core.node(node);
        !self.call.target.includes(plan.name.as_str())
            || node
                .offered
                .lacks(endpoint.unwrap_or_default(), || node.generation())
    }
}

/// Sends a node its request.
async fn visit(core: &Core, ready: Ready) -> Visit {
    let Ready { node, parts, terms } = ready;
    let started = SystemTime::now();
    let plan = core.plan.node(node);
    let outcome = core.node(node).visit(plan, parts, &terms).await;
    Visit {
        node,
        started,
        outcome,
    }
}
