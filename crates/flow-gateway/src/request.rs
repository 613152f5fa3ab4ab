//! Runs one request to its end. There is always exactly one reply.

use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use flow_core::{CallOptions, Code, Failure};
use flow_proto::Envelope;
use flow_proto::jina::HeaderProto;
use tokio::sync::oneshot;

use crate::execution::Execution;
use crate::node_input::RequestContext;
use crate::parameter_check;
use crate::reply::{CallOutcome, Finished, ReplyBuilder, error_status, if_error};
use crate::snapshot::Snapshot;
use crate::target::TargetNodes;

/// Documents of fewer bytes are checked at once: their bytes are read once, a few nanoseconds for each field.
const INLINE_CHECK_MAX: usize = 4 << 20;

/// What the reply to a refused request repeats of each text in its header, in characters.
const ECHO_CHARS_MAX: usize = 64;

/// Runs a request through the plan.
pub(crate) async fn run(
    snapshot: &Arc<Snapshot>,
    request: Envelope,
    options: CallOptions,
) -> Finished {
    let started = SystemTime::now();
    let Envelope {
        header,
        parameters,
        data,
        ..
    } = request;
    let header = header.unwrap_or_default();
    // A message that could not be decoded is replaced by one whose header says so; see `flow_net::grpc`.
    let invalid = error_status(Some(&header)).cloned();
    let checked = check_limits(snapshot, &header, parameters.as_ref(), data.as_ref()).await;
    let target = match &checked {
        Ok(_) => TargetNodes::parse(header.target_executor.as_deref()),
        // The reply repeats the header, but not what is too long in it.
        Err(failure) => Err(failure.clone()),
    };
    let mut reply = match checked {
        Ok(_) => ReplyBuilder::new(header, parameters, started),
        Err(_) => ReplyBuilder::new(shortened(header), None, started),
    };
    reply.documents = checked.ok();
    let outcome = match (invalid, target) {
        (Some(status), _) => CallOutcome::ExecutorError(Box::new(status), None),
        (None, Err(failure)) => CallOutcome::Failed(failure),
        (None, Ok(target)) => {
            if let Err(failure) = check_parameters(snapshot, &reply, &target).await {
                return reply.finish(CallOutcome::Failed(failure), SystemTime::now());
            }
            let has_conditions = snapshot.has_conditions;
            let context = RequestContext::new(options, started, target, data, has_conditions);
            let execution = Execution::new(snapshot.clone(), context, reply);
            return if snapshot.has_floating {
                run_detached(execution).await
            } else {
                execution.run_to_reply().await.0
            };
        }
    };
    reply.finish(outcome, SystemTime::now())
}

/// Checks the lengths of the request's parts, and the number and nesting of its documents. Returns their number.
async fn check_limits(
    snapshot: &Snapshot,
    header: &HeaderProto,
    parameters: Option<&Bytes>,
    data: Option<&Bytes>,
) -> Result<usize, Failure> {
    let limits = snapshot.shared.requests;
    let bytes = data.map_or(0, Bytes::len);
    if bytes < INLINE_CHECK_MAX {
        return Ok(limits.check(Some(header), parameters, data)?);
    }
    limits.check(Some(header), parameters, None)?;
    let data = data.cloned();
    let check = move || Ok(limits.check(None, None, data.as_ref())?);
    snapshot.shared.heavy.run(bytes, check).await
}

/// The header of a refused request as its reply has it.
fn shortened(mut header: HeaderProto) -> HeaderProto {
    let shorten = |text: &mut String| {
        let end = text.char_indices().nth(ECHO_CHARS_MAX);
        text.truncate(end.map_or(text.len(), |(end, _)| end));
    };
    shorten(&mut header.request_id);
    header.exec_endpoint.iter_mut().for_each(shorten);
    header.target_executor.iter_mut().for_each(shorten);
    header
}

async fn check_parameters(
    snapshot: &Snapshot,
    reply: &ReplyBuilder,
    target: &TargetNodes,
) -> Result<(), Failure> {
    let (header, parameters) = (&reply.header, reply.parameters.as_ref());
    match parameter_check::to_check(header, parameters) {
        None => Ok(()),
        // In a box, so that requests without parameters do not reserve space for it.
        Some(sent) => Box::pin(parameter_check::check(snapshot, &sent, header, target)).await,
    }
}

/// Floating nodes continue after the reply: the request belongs to the gateway, not to its caller.
async fn run_detached(execution: Execution) -> Finished {
    let snapshot = execution.snapshot.clone();
    let floating = snapshot.floating.clone();
    let Ok(permit) = floating.permits.clone().acquire_owned().await else {
        unreachable!("the semaphore is never closed");
    };
    let (sender, finished) = oneshot::channel();
    floating.tasks.spawn(async move {
        let (finished, rest) = execution.run_to_reply().await;
        log_floating(&snapshot, &finished.reply);
        // The floating nodes run even if the caller has gone and does not take the reply.
        drop(sender.send(finished));
        let rest = rest.run_to_end().await;
        log_floating(&snapshot, &rest);
        snapshot.shared.log.floating_ended(&rest);
        drop(permit);
    });
    finished.await.unwrap_or_else(|_| {
        let message = "the request's task ended without a reply";
        let failure = Failure::new(Code::Internal, message);
        let now = SystemTime::now();
        let reply = ReplyBuilder::new(HeaderProto::default(), None, now);
        reply.finish(CallOutcome::Failed(failure), now)
    })
}

/// Logs the failures of floating nodes, which do not fail the request.
fn log_floating(snapshot: &Snapshot, reply: &Envelope) {
    for route in &reply.routes {
        let is_floating = snapshot.nodes().any(|(plan, _)| {
            let is_same = plan.name.as_str() == route.executor;
            is_same && !plan.awaited
        });
        if let (true, Some(status)) = (is_floating, if_error(route.status.as_ref())) {
            let log = &snapshot.shared.log;
            log.floating(reply.header.as_ref(), route, status);
        }
    }
}
