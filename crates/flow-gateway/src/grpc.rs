//! Jina's services at a gateway. Translates, decides nothing: bytes and metadata in, envelopes out.

mod services;

use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flow_core::{Chain, Code, Deadline, Endpoint, Failure, RequestId};
use flow_net::status::{from_failure, to_failure, with_pushback};
use flow_net::{Draining, Priority, Shards, Terms};
use flow_proto::Envelope;
use flow_proto::jina::jina_discover_endpoints_rpc_server::JinaDiscoverEndpointsRpc;
use flow_proto::jina::jina_gateway_dry_run_rpc_server::JinaGatewayDryRunRpc;
use flow_proto::jina::jina_info_rpc_server::JinaInfoRpc;
use flow_proto::jina::jina_rpc_server::JinaRpc;
use flow_proto::jina::jina_single_data_request_rpc_server::JinaSingleDataRequestRpc;
use flow_proto::jina::jina_single_document_request_rpc_server::JinaSingleDocumentRequestRpc;
use flow_proto::jina::{
    EndpointsProto, HeaderProto, JinaInfoProto, SingleDocumentRequestProto, StatusProto,
};
use futures_util::{Stream, StreamExt};
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status, Streaming};

use crate::current::Current;
use crate::stream::{self, Options};
use crate::{discover, request};

pub(crate) use services::SERVICES;

/// Metadata by which stock clients ask for a window and for ordered replies.
const PREFETCH: &str = "__prefetch__";
const IN_ORDER: &str = "__results_in_order__";

/// The largest window a client may ask for: it decides how much of the gateway's memory it takes.
const PREFETCH_MAX: usize = 10_000;

/// When a call that found no room may come again: by then a good part of what is under way has ended.
const COME_AGAIN: Duration = Duration::from_millis(500);

/// How the shards did that a call's nodes have, as stock heads tell it.
const TOTAL_SHARDS: &str = "total_shards";
const FAILED_SHARDS: &str = "failed_shards";

/// The gateway's end of the wire.
#[derive(Debug, Clone)]
pub(crate) struct Wire {
    pub(crate) current: Arc<Current>,
    pub(crate) draining: Draining,
}

type Replies<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

impl Wire {
    fn options(&self, metadata: &MetadataMap) -> Options {
        let text = |key| metadata.get(key).and_then(|value| value.to_str().ok());
        let asked = text(PREFETCH)
            .and_then(|text| text.parse().ok())
            .and_then(NonZeroUsize::new);
        let usual = self.current.core().plan.gateway.prefetch;
        let most = NonZeroUsize::new(PREFETCH_MAX).unwrap_or(NonZeroUsize::MIN);
        Options {
            window: asked.unwrap_or(usual).min(most),
            in_order: text(IN_ORDER).is_some_and(|text| text.eq_ignore_ascii_case("true")),
            terms: terms(metadata),
        }
    }
}

fn terms(metadata: &MetadataMap) -> Terms {
    Terms {
        deadline: deadline(metadata),
        priority: Priority::of(metadata),
    }
}

/// There is no room for a call; on a stream it would wait.
fn no_room(failure: &Failure) -> Status {
    let message = format!(
        "{}; try again in {} ms, or send on a stream, which waits",
        failure.message(),
        COME_AGAIN.as_millis()
    );
    let failure = Failure::new(failure.code(), message);
    with_pushback(from_failure(&failure), COME_AGAIN)
}

fn with_shards(mut response: Response<Envelope>, shards: Option<Shards>) -> Response<Envelope> {
    if let Some(Shards { total, failed }) = shards {
        let metadata = response.metadata_mut();
        metadata.insert(TOTAL_SHARDS, total.into());
        metadata.insert(FAILED_SHARDS, failed.into());
    }
    response
}

fn deadline(metadata: &MetadataMap) -> Deadline {
    Deadline::after(Instant::now(), flow_net::timeout(metadata.as_ref()))
}

#[tonic::async_trait]
impl JinaRpc for Wire {
    type CallStream = Replies<Envelope>;

    async fn call(
        &self,
        request: Request<Streaming<Envelope>>,
    ) -> Result<Response<Self::CallStream>, Status> {
        let options = self.options(request.metadata());
        let requests = request.into_inner();
        let requests = requests.map(|request| request.map_err(|status| to_failure(&status)));
        let replies = stream::replies(&self.current, requests, options, self.draining.clone());
        let replies = replies.map(|reply| reply.map_err(|failure| from_failure(&failure)));
        Ok(Response::new(Box::pin(replies)))
    }
}

#[tonic::async_trait]
impl JinaSingleDataRequestRpc for Wire {
    /// A request that reached no executor fails the call; what an executor said is a reply.
    async fn process_single_data(
        &self,
        request: Request<Envelope>,
    ) -> Result<Response<Envelope>, Status> {
        let terms = terms(request.metadata());
        let core = self.current.core();
        let seat = core.room.seat_now().map_err(|full| {
            let request = request.get_ref();
            core.lasting.meter.iter().for_each(|it| it.refuse(request));
            core.lasting.failures.call(request.header.as_ref(), &full);
            no_room(&full)
        })?;
        let finished = request::run(&core, request.into_inner(), terms).await;
        drop(seat);
        match finished.failure {
            Some(failure) if failure.code() != Code::BadRequest => Err(from_failure(&failure)),
            _ => Ok(with_shards(Response::new(finished.reply), finished.shards)),
        }
    }
}

#[tonic::async_trait]
impl JinaGatewayDryRunRpc for Wire {
    async fn dry_run(&self, request: Request<()>) -> Result<Response<StatusProto>, Status> {
        let request_id = RequestId::random().into();
        let exec_endpoint = Some(Endpoint::DRY_RUN.to_owned());
        let header = HeaderProto {
            request_id,
            exec_endpoint,
            ..HeaderProto::default()
        };
        let empty = Envelope {
            header: Some(header),
            ..Envelope::default()
        };
        let core = self.current.core();
        let finished = request::run(&core, empty, terms(request.metadata())).await;
        let status = finished.reply.header.and_then(|header| header.status);
        Ok(Response::new(status.unwrap_or_default()))
    }
}

#[tonic::async_trait]
#[allow(
    non_camel_case_types,
    reason = "the generated trait follows the wire's names"
)]
impl JinaSingleDocumentRequestRpc for Wire {
    type stream_docStream = Replies<SingleDocumentRequestProto>;

    /// Streams through the one node of a flow. With several, whose documents would be whose input?
    async fn stream_doc(
        &self,
        request: Request<SingleDocumentRequestProto>,
    ) -> Result<Response<Self::stream_docStream>, Status> {
        let core = self.current.core();
        let mut nodes = core.nodes();
        let (Some((plan, node)), None) = (nodes.next(), nodes.next()) else {
            let message = "`stream_doc` needs a flow with exactly one executor";
            return Err(from_failure(&Failure::new(Code::Unimplemented, message)));
        };
        let [pool] = node.shards.as_slice() else {
            let message = "`stream_doc` needs an executor without shards";
            return Err(from_failure(&Failure::new(Code::Unimplemented, message)));
        };
        let terms = terms(request.metadata());
        let meter = core.lasting.meter.as_ref();
        let mut under_way = meter.map(|it| it.begin(request.get_ref()));
        let request = request.into_inner();
        let header = request.header.clone();
        let refused = |failure: &Failure| {
            core.lasting.failures.call(header.as_ref(), failure);
            from_failure(failure)
        };
        let lease = pool.lease(Instant::now()).map_err(|error| {
            refused(&Failure::new(Code::Unavailable, Chain(&error).to_string()))
        })?;
        let replica = lease.replica();
        let opened = replica.stream(request, pool.metadata(), &terms).await;
        let documents = opened.map_err(|failure| refused(&failure.at(plan.name.as_str())))?;
        // The lease and the core live as long as the stream.
        let held = (lease, core.clone());
        let mut failed = false;
        let documents = documents.map(move |document| {
            let (_lease, core) = &held;
            if let (Err(status), false) = (&document, failed) {
                failed = true;
                let failures = &core.lasting.failures;
                failures.call(header.as_ref(), &to_failure(status));
            }
            under_way.iter_mut().for_each(|it| it.streams(failed));
            document
        });
        Ok(Response::new(Box::pin(documents)))
    }
}

#[tonic::async_trait]
impl JinaDiscoverEndpointsRpc for Wire {
    async fn endpoint_discovery(
        &self,
        request: Request<()>,
    ) -> Result<Response<EndpointsProto>, Status> {
        let deadline = deadline(request.metadata());
        let endpoints = discover::endpoints(&self.current.core(), deadline).await;
        endpoints
            .map(Response::new)
            .map_err(|failure| from_failure(&failure))
    }
}

#[tonic::async_trait]
impl JinaInfoRpc for Wire {
    async fn status(&self, _: Request<()>) -> Result<Response<JinaInfoProto>, Status> {
        Ok(Response::new(flow_net::info()))
    }
}
