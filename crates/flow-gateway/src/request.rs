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
use crate::reply::{End, Reply, refusal};
use crate::schedule::Walk;
use crate::target::Target;

/// Sends a request through the graph; there is always a reply.
pub(crate) async fn run(core: &Arc<Core>, request: Envelope, terms: Terms) -> Finished {
    let Some(meter) = &core.lasting.meter else {
        return walk(core, request, terms).await;
    };
    let under_way = meter.begin(&request);
    let finished = walk(core, request, terms).await;
    under_way.end(&finished.reply);
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
    let floating = walk.core.floating.clone();
    let Ok(room) = floating.room.clone().acquire_owned().await else {
        unreachable!("the semaphore is never closed");
    };
    let (tell, told) = oneshot::channel();
    floating.tasks.spawn(async move {
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
        Finished::of(reply, End::Failed(lost))
    })
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
