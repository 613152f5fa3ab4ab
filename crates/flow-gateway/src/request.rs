//! A request from its first byte to its last: there is always exactly one reply.

use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use flow_core::Failure;
use flow_net::{Shards, Terms};
use flow_proto::Envelope;
use flow_proto::jina::HeaderProto;
use flow_spec::Source;
use tokio::sync::oneshot;

use crate::accepts;
use crate::call::Call;
use crate::core::Core;
use crate::parts::Parts;
use crate::reply::{End, Reply, failed, refusal};
use crate::schedule::Walk;
use crate::target::Target;

/// Sends a request through the graph; there is always a reply.
pub(crate) async fn run(core: &Arc<Core>, request: Envelope, terms: Terms) -> Finished {
    let under_way = core.lasting.meter.as_ref().map(|it| it.begin(&request));
    let finished = walk(core, request, terms).await;
    core.lasting.failures.reply(finished.reply.header.as_ref());
    if let Some(under_way) = under_way {
        under_way.end(&finished.reply);
    }
    finished
}

async fn walk(core: &Arc<Core>, request: Envelope, terms: Terms) -> Finished {
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
        (Some(status), _) => Finished::of(reply, End::Refused(Box::new(status), None)),
        (None, Err(failure)) => Finished::of(reply, End::Failed(failure)),
        (None, Ok(target)) => {
            if let Some(parameters) = accepts::to_check(&reply) {
                // Apart, so that requests without parameters do not keep room for this.
                let check = Box::pin(accepts::check(core, &parameters, &reply, &target));
                if let Err(failure) = check.await {
                    return Finished::of(reply, End::Failed(failure));
                }
            }
            let call = Call {
                terms,
                started,
                target,
                sent: Parts::one(data, Source::Gateway),
                order: OnceLock::new(),
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
    let floating = core.floating.clone();
    let Ok(room) = floating.room.clone().acquire_owned().await else {
        unreachable!("the semaphore is never closed");
    };
    let (tell, told) = oneshot::channel();
    floating.tasks.spawn(async move {
        let (finished, rest) = walk.run_to_exit().await;
        log_floating(&core, &finished.reply);
        // A caller who has gone does not want the reply; the floating nodes run all the same.
        drop(tell.send(finished));
        log_floating(&core, &rest.run_to_end().await);
        drop(room);
    });
    told.await.unwrap_or_else(|_| {
        let lost = Failure::new(
            flow_core::Code::Internal,
            "the request's task ended without a reply",
        );
        let reply = Reply::new(HeaderProto::default(), None, SystemTime::now());
        Finished::of(reply, End::Failed(lost))
    })
}

/// Writes of nodes that nobody waits for and that failed: the request does not fail with them.
fn log_floating(core: &Core, reply: &Envelope) {
    for route in &reply.routes {
        let is_floating = core.nodes().any(|(plan, _)| {
            let is_it = plan.name.as_str() == route.executor;
            is_it && !plan.awaited
        });
        if let (true, Some(status)) = (is_floating, failed(route.status.as_ref())) {
            let failures = &core.lasting.failures;
            failures.floating(reply.header.as_ref(), route, status);
        }
    }
}

/// A reply, and why it is none where there was no answer from an executor.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) reply: Envelope,
    /// For a call that carries one request alone: it fails as a whole.
    pub(crate) failure: Option<Failure>,
    /// How all shards did that were asked.
    pub(crate) shards: Option<Shards>,
}

impl Finished {
    pub(crate) fn of(reply: Reply, end: End) -> Self {
        let failure = match &end {
            End::Failed(failure) => Some(failure.clone()),
            End::Done(_) | End::Refused(..) => None,
        };
        Self {
            failure,
            shards: reply.shards(),
            reply: reply.end(end, SystemTime::now()),
        }
    }
}
