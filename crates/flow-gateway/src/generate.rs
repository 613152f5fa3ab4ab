//! Streams the documents that an executor makes of one document (`stream_doc`).
//!
//! A flow with several nodes cannot do that: it is undefined which node would get which of the documents. The one
//! node gets the request as it would get any other: only if `target_executor` and `when` select it, with its own
//! parameters, within its time-out, and again on another replica if the first fails before its first document.

use std::time::{Instant, SystemTime};

use flow_core::{CallOptions, Code, Deadline, Failure};
use flow_net::DocumentStream;
use flow_proto::jina::{HeaderProto, RouteProto, SingleDocumentRequestProto};
use flow_spec::NodePlan;
use futures_util::future::Either;
use futures_util::{Stream, StreamExt, stream};

use crate::admission::RequestPermit;
use crate::backend::Backend;
use crate::condition;
use crate::metrics::RequestTimer;
use crate::node::GatewayNode;
use crate::node_input::node_header;
use crate::node_parameters::node_parameters;
use crate::parameter_check;
use crate::reply::{GATEWAY, RouteEntry, error_status, route};
use crate::request_record::{Part, RequestEnd, RequestFailure, RequestRecord};
use crate::request_span::{RequestSpan, node_span};
use crate::snapshot::Snapshot;
use crate::target::TargetNodes;

/// A document of the stream, or the failure that ends it.
type Item = Result<SingleDocumentRequestProto, Failure>;

/// The documents that the flow's node makes.
pub(crate) async fn documents(
    admitted: RequestPermit,
    request: SingleDocumentRequestProto,
    (mut options, mut record): (CallOptions, RequestRecord),
) -> Result<impl Stream<Item = Item> + Send + use<>, Failure> {
    let snapshot = admitted.snapshot.clone();
    let arrival = (&options.origin, Some(admitted.waited));
    let mut timer = snapshot.measure(&request, request.header.as_ref(), arrival);
    record.waited = admitted.waited;
    let tracer = snapshot.shared.tracer.as_ref();
    let span = RequestSpan::begin(tracer, &mut options, &mut record, Part::Whole);
    let header = (span.is_recorded()).then(|| request.header.clone().unwrap_or_default());
    if let Some(timer) = &mut timer {
        timer.trace(record.trace.as_deref());
    }
    let opened = open(&snapshot, request, &options).await;
    let (reply, documents) = match opened {
        Ok(opened) => opened,
        Err(failure) => {
            if let Some(timer) = &mut timer {
                timer.ends_with(Some(failure.code()));
            }
            let end = RequestEnd {
                header: &header.unwrap_or_default(),
                routes: &[],
                failed: Some(RequestFailure::of_failure(&failure)),
            };
            span.end(&record, Some(&end), Some(failure.code()));
            return Err(failure);
        }
    };
    let node = route(&reply.node, reply.started);
    let mut progress = Progress {
        routes: [reply.gateway.clone(), node],
        admitted,
        record,
        span: Some(span),
        header: reply.header.clone(),
        timer,
        failed: false,
    };
    Ok(documents.map(move |document| {
        let document = reply.complete(document);
        progress.note(&document);
        document
    }))
}

/// Sends the request to the node, if it is for the node, and begins to read what the node makes of it.
async fn open(
    snapshot: &Snapshot,
    request: SingleDocumentRequestProto,
    options: &CallOptions,
) -> Result<(ReplyHead, impl Stream<Item = Item> + Send + use<>), Failure> {
    let tracer = snapshot.shared.tracer.as_ref();
    let (plan, node, backend) = only_node(snapshot)?;
    let reply = ReplyHead {
        header: request.header.clone(),
        node: plan.name.as_str().to_owned(),
        gateway: route(GATEWAY, SystemTime::now()),
        started: SystemTime::now(),
    };
    if !is_selected(snapshot, plan, &request).await? {
        return Ok((reply, Either::Right(stream::iter([Ok(request)]))));
    }
    let request = node_request(plan, request, reply.gateway.clone());
    let limit = Deadline::after(Instant::now(), plan.calls.timeout);
    let options = options.until(limit);
    let time = node.measure(options.trace.as_deref());
    let (options, _span) = node_span(tracer, &reply.node, &options);
    let opened = backend.stream(&request, &options).await;
    let documents: DocumentStream = opened.map_err(|failure| failure.at(&reply.node))?;
    // The time of the node ends with its last document.
    let documents = documents.inspect(move |_| {
        let _time = &time;
    });
    Ok((reply, Either::Left(documents)))
}

/// The node of a flow that has exactly one, and its only shard.
fn only_node(snapshot: &Snapshot) -> Result<(&NodePlan, &GatewayNode, &Backend), Failure> {
    let unimplemented = |message: &str| Err(Failure::new(Code::Unimplemented, message));
    let mut nodes = snapshot.nodes();
    let (Some((plan, node)), None) = (nodes.next(), nodes.next()) else {
        return unimplemented("`stream_doc` needs a flow with exactly one executor");
    };
    match (&node.before, node.shards.as_slice(), &node.after) {
        (None, [only], None) => Ok((plan, node, only)),
        (_, [_], _) => {
            unimplemented("`stream_doc` needs an executor without `uses_before` and `uses_after`")
        }
        _ => unimplemented("`stream_doc` needs an executor without shards"),
    }
}

/// Whether the request is for the node. If not, the document passes through unchanged.
async fn is_selected(
    snapshot: &Snapshot,
    plan: &NodePlan,
    request: &SingleDocumentRequestProto,
) -> Result<bool, Failure> {
    snapshot
        .shared
        .requests
        .check_document(request)
        .map_err(Failure::from)?;
    let header = request.header.clone().unwrap_or_default();
    let target = TargetNodes::parse(header.target_executor.as_deref())?;
    if let Some(sent) = parameter_check::to_check(&header, request.parameters.as_ref()) {
        parameter_check::check(snapshot, &sent, &header, &target).await?;
    }
    if !target.includes(plan.name.as_str()) {
        return Ok(false);
    }
    match &plan.calls.when {
        None => Ok(true),
        Some(when) => Ok(condition::matches(when, request.document.as_ref())?),
    }
}

/// The request as the node gets it.
fn node_request(
    plan: &NodePlan,
    request: SingleDocumentRequestProto,
    gateway: RouteProto,
) -> SingleDocumentRequestProto {
    SingleDocumentRequestProto {
        header: request.header.as_ref().map(node_header),
        parameters: node_parameters(request.parameters.as_ref(), plan.name.as_str()),
        routes: vec![gateway],
        document: request.document,
    }
}

/// What each document of the stream has in common.
struct ReplyHead {
    /// The client's own.
    header: Option<HeaderProto>,
    node: String,
    gateway: RouteProto,
    started: SystemTime,
}

impl ReplyHead {
    /// A document of the node as the client gets it.
    fn complete(&self, document: Item) -> Item {
        let mut document = document.map_err(|failure| failure.at(&self.node))?;
        let status = document.header.and_then(|header| header.status);
        let header = HeaderProto {
            status: status.clone(),
            ..self.header.clone().unwrap_or_default()
        };
        document.header = Some(header);
        let node = RouteEntry {
            node: &self.node,
            started: self.started,
            ended: SystemTime::now(),
            status: status.filter(|status| status.code != 0),
        };
        document.routes = vec![self.gateway.clone(), node.into_route()];
        Ok(document)
    }
}

/// A stream in progress. It holds its permit and its replicas until it is dropped.
struct Progress {
    admitted: RequestPermit,
    record: RequestRecord,
    /// `None` once it has ended.
    span: Option<RequestSpan>,
    /// The client's own.
    header: Option<HeaderProto>,
    /// The gateway's and the node's, which end with the stream.
    routes: [RouteProto; 2],
    timer: Option<RequestTimer>,
    failed: bool,
}

/// The stream has ended, or its client has gone.
impl Drop for Progress {
    fn drop(&mut self) {
        let header = self.header.take().unwrap_or_default();
        let now = SystemTime::now();
        for route in &mut self.routes {
            route.end_time = Some(now.into());
        }
        let end = RequestEnd {
            header: &header,
            routes: &self.routes,
            failed: None,
        };
        let snapshot = &self.admitted.snapshot;
        if !self.failed {
            let logging = snapshot.plan.gateway.logging;
            snapshot.shared.log.end(&self.record, &end, logging);
        }
        if let Some(span) = self.span.take() {
            span.end(&self.record, Some(&end), None);
        }
    }
}

impl Progress {
    fn note(&mut self, document: &Item) {
        if !self.failed {
            match document {
                Ok(document) => self.log(document),
                Err(failure) => {
                    let snapshot = &self.admitted.snapshot;
                    snapshot.log_failure(&self.record, self.header.as_ref(), failure);
                }
            }
        }
        let failed = match document {
            Ok(document) => error_status(document.header.as_ref())
                .map(RequestFailure::of_status)
                .map(|failed| failed.code),
            Err(failure) => Some(failure.code()),
        };
        if let Some(timer) = self.timer.as_mut().filter(|_| !self.failed) {
            timer.ends_with(failed);
        }
        self.failed |= failed.is_some();
    }

    /// Logs a document that reports a failure.
    fn log(&self, document: &SingleDocumentRequestProto) {
        let (Some(header), Some(status)) =
            (&document.header, error_status(document.header.as_ref()))
        else {
            return;
        };
        let end = RequestEnd {
            header,
            routes: &document.routes,
            failed: Some(RequestFailure::of_status(status)),
        };
        let snapshot = &self.admitted.snapshot;
        let logging = snapshot.plan.gateway.logging;
        snapshot.shared.log.end(&self.record, &end, logging);
    }
}

#[cfg(test)]
mod tests;
