//! Walks the plan: which nodes are ready? send; collect; next.
//!
//! The plan never changes and is shared by all requests. The state of a request is a [`Walk`]: one slot
//! for each node, filled when the node is done; it dies with the request. Nodes whose parents are done
//! run side by side. A node whose parents failed does not run, and fails like the first of them; a node
//! that the request is not for passes on what it would have got.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use bytes::Bytes;
use flow_core::{Deadline, Failure};
use flow_proto::Envelope;
use flow_proto::jina::{HeaderProto, RouteProto};
use flow_spec::{NodeIdx, Source};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::oneshot;

use crate::core::Core;
use crate::merge::merge;
use crate::reply::{Ending, GATEWAY, Reply, refusal};
use crate::specialise::specialise;
use crate::target::Target;

/// Sends a request through the graph; there is always a reply.
pub(crate) async fn run(core: &Arc<Core>, request: Envelope, deadline: Deadline) -> Finished {
    let started = SystemTime::now();
    let Envelope {
        header,
        parameters,
        data,
        ..
    } = request;
    let header = header.unwrap_or_default();
    let bad = refusal(Some(&header)).cloned();
    let target = Target::parse(header.target_executor.as_deref());
    let reply = Reply::new(header, parameters, started);
    match (bad, target) {
        // The message could not even be decoded; see `flow_proto::codec`.
        (Some(status), _) => Finished::of(reply, Ending::Refused(Box::new(status), None)),
        (None, Err(failure)) => Finished::of(reply, Ending::Failed(failure)),
        (None, Ok(target)) => {
            let call = Call {
                deadline,
                started,
                target,
                data,
            };
            let walk = Walk::new(core.clone(), call, reply);
            if core.has_floating {
                run_detached(walk).await
            } else {
                walk.run_to_exit().await.0
            }
        }
    }
}

/// Floating nodes go on after the reply: their request belongs to the gateway, not to its caller.
async fn run_detached(walk: Walk) -> Finished {
    let core = walk.core.clone();
    let Ok(room) = core.floating_room.clone().acquire_owned().await else {
        unreachable!("the semaphore is never closed");
    };
    let (tell, told) = oneshot::channel();
    core.floating.spawn(async move {
        let (finished, rest) = walk.run_to_exit().await;
        // A caller who has gone does not want the reply; the floating nodes run all the same.
        drop(tell.send(finished));
        rest.run_to_end().await;
        drop(room);
    });
    told.await.unwrap_or_else(|_| {
        let lost = Failure::new(
            flow_core::Code::Internal,
            "the request's task ended without a reply",
        );
        let reply = Reply::new(HeaderProto::default(), None, SystemTime::now());
        Finished::of(reply, Ending::Failed(lost))
    })
}

/// A reply, and why it is none where there was no answer from an executor.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) reply: Envelope,
    /// For a call that carries one request alone: it fails as a whole.
    pub(crate) failure: Option<Failure>,
}

impl Finished {
    fn of(reply: Reply, ending: Ending) -> Self {
        let failure = match &ending {
            Ending::Failed(failure) => Some(failure.clone()),
            Ending::Done(_) | Ending::Refused(..) => None,
        };
        Self {
            reply: reply.end(ending, SystemTime::now()),
            failure,
        }
    }
}

/// What does not change while a request walks.
#[derive(Debug)]
struct Call {
    deadline: Deadline,
    started: SystemTime,
    target: Target,
    data: Option<Bytes>,
}

/// One request on its way.
struct Walk {
    core: Arc<Core>,
    call: Call,
    reply: Reply,
    /// By node; empty until the node is done.
    slots: Vec<Option<Ending>>,
    /// Nodes that may run and do not yet.
    ready: Vec<Ready>,
    running: Running,
}

/// A node and the request that it is to get.
struct Ready {
    node: NodeIdx,
    request: Envelope,
}

type Running = FuturesUnordered<std::pin::Pin<Box<dyn Future<Output = Visit> + Send>>>;

/// A node has answered, or could not.
struct Visit {
    node: NodeIdx,
    started: SystemTime,
    outcome: Result<Envelope, Failure>,
}

impl Walk {
    fn new(core: Arc<Core>, call: Call, reply: Reply) -> Self {
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
    async fn run_to_exit(mut self) -> (Finished, Self) {
        while !self.exit_is_reached() {
            if !self.step().await {
                break;
            }
        }
        let ends = self.core.plan.exit.iter();
        let ends: Option<Vec<Ending>> = ends.map(|source| self.ending(*source)).collect();
        let ending = match input(ends.unwrap_or_default()) {
            Ok(data) => Ending::Done(data),
            Err(ending) => ending,
        };
        let empty = Reply::new(HeaderProto::default(), None, self.call.started);
        let reply = std::mem::replace(&mut self.reply, empty);
        (Finished::of(reply, ending), self)
    }

    fn exit_is_reached(&self) -> bool {
        let mut exit = self.core.plan.exit.iter();
        exit.all(|source| self.ending(*source).is_some())
    }

    async fn run_to_end(mut self) {
        while self.step().await {}
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
        let name = self.core.plan.node(node).name.as_str();
        self.reply.add_route(name, started, SystemTime::now());
        let ending = match outcome {
            Ok(reply) => match refusal(reply.header.as_ref()) {
                Some(status) => Ending::Refused(Box::new(status.clone()), reply.data),
                None => {
                    self.reply.add_results(reply.parameters.as_ref());
                    Ending::Done(reply.data)
                }
            },
            Err(failure) => Ending::Failed(failure.at(name)),
        };
        self.finish(node, ending);
        true
    }

    /// Starts what is ready, and waits for the first to be done. A node that is alone, as on every linear
    /// flow, runs right here: a future of its own costs more than the rest of the walk.
    async fn next_visit(&mut self) -> Option<Visit> {
        if self.running.is_empty() && self.ready.len() == 1 {
            let ready = self.ready.pop()?;
            return Some(visit(&self.core, ready, self.call.deadline).await);
        }
        for ready in self.ready.drain(..) {
            let (core, deadline) = (self.core.clone(), self.call.deadline);
            self.running
                .push(Box::pin(async move { visit(&core, ready, deadline).await }));
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
            let parents = &core.plan.node(node).parents;
            let inputs: Option<Vec<Ending>> = parents.iter().map(|p| self.ending(*p)).collect();
            if let Some(inputs) = inputs {
                self.make_ready(node, inputs);
            }
        }
    }

    /// How `source` ended, if it has.
    fn ending(&self, source: Source) -> Option<Ending> {
        match source {
            Source::Gateway => Some(Ending::Done(self.call.data.clone())),
            Source::Node(node) => self.slots[node.index()].clone(),
        }
    }

    /// All parents are done: the node may run, unless one of them failed or the request is not for it.
    fn make_ready(&mut self, node: NodeIdx, inputs: Vec<Ending>) {
        let data = match input(inputs) {
            Ok(data) => data,
            Err(ending) => return self.finish(node, ending),
        };
        let name = self.core.plan.node(node).name.as_str();
        if !self.call.target.includes(name) {
            return self.finish(node, Ending::Done(data));
        }
        let request = self.request_for(name, data);
        self.ready.push(Ready { node, request });
    }

    /// The request as the node gets it: its own view of the parameters, and one route, the gateway's.
    fn request_for(&self, name: &str, data: Option<Bytes>) -> Envelope {
        let header = &self.reply.header;
        let route = RouteProto {
            executor: GATEWAY.to_owned(),
            start_time: Some(self.call.started.into()),
            ..RouteProto::default()
        };
        Envelope {
            header: Some(HeaderProto {
                request_id: header.request_id.clone(),
                exec_endpoint: header.exec_endpoint.clone(),
                // Present and empty: the gateway has already chosen.
                target_executor: Some(String::new()),
                ..HeaderProto::default()
            }),
            parameters: specialise(self.reply.parameters.as_ref(), name),
            routes: vec![route],
            data,
        }
    }
}

/// Sends a node its request.
async fn visit(core: &Core, ready: Ready, deadline: Deadline) -> Visit {
    let Ready { node, request } = ready;
    let started = SystemTime::now();
    let own = Deadline::after(Instant::now(), core.plan.node(node).calls.timeout);
    let outcome = core
        .pool(node)
        .call(&request, deadline.or_earlier(own))
        .await;
    Visit {
        node,
        started,
        outcome,
    }
}

/// What a node gets from its parents: all their documents, or the failure of the first that failed.
fn input(parents: Vec<Ending>) -> Result<Option<Bytes>, Ending> {
    let mut branches = Vec::with_capacity(parents.len());
    for parent in parents {
        match parent {
            Ending::Done(data) => branches.push(data),
            failed => return Err(failed),
        }
    }
    merge(&branches).map_err(Ending::Failed)
}

#[cfg(test)]
mod tests {
    use flow_core::Code;

    use super::*;

    #[test]
    fn the_first_parent_that_failed_is_the_one_that_is_told() {
        let failed = |text: &str| Ending::Failed(Failure::new(Code::Unavailable, text));
        let Err(Ending::Failed(failure)) =
            input(vec![Ending::Done(None), failed("first"), failed("second")])
        else {
            panic!("a failed parent fails its child");
        };
        assert_eq!(failure.message(), "first");
    }
}
