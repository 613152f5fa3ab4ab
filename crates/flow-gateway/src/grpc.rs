//! The gRPC services of a gateway: Jina's here, and the Open Inference Protocol's in [`inference`]. Translates messages and
//! metadata for `service.rs`, and decides nothing.

mod call;
mod inference;
mod routes;

use std::num::NonZeroUsize;
use std::pin::Pin;

use flow_net::grpc::jina_discover_endpoints_rpc_server::JinaDiscoverEndpointsRpc;
use flow_net::grpc::jina_gateway_dry_run_rpc_server::JinaGatewayDryRunRpc;
use flow_net::grpc::jina_info_rpc_server::JinaInfoRpc;
use flow_net::grpc::jina_rpc_server::JinaRpc;
use flow_net::grpc::jina_single_data_request_rpc_server::JinaSingleDataRequestRpc;
use flow_net::grpc::jina_single_document_request_rpc_server::JinaSingleDocumentRequestRpc;
use flow_net::grpc::metadata::write_request_id;
use flow_net::status::{from_failure, to_failure};
use flow_net::{Shards, write_usage};
use flow_proto::Envelope;
use flow_proto::jina::{EndpointsProto, JinaInfoProto, SingleDocumentRequestProto, StatusProto};
use futures_util::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};

use self::call::{budget, options, return_id};
use crate::admission::identify;
use crate::service::{GatewayService, StreamRequest, UnaryReply};
use crate::stream::request_cost;

pub(crate) use inference::InferenceService;
pub(crate) use routes::{RequestKind, SERVICES, routes};

/// The methods, as they are named in logs and traces.
const STREAM: &str = "/jina.JinaRPC/Call";
const UNARY: &str = flow_net::grpc::SINGLE_DATA;
const STREAM_DOC: &str = "/jina.JinaSingleDocumentRequestRPC/stream_doc";
const DRY_RUN: &str = "/jina.JinaGatewayDryRunRPC/dry_run";
const DISCOVERY: &str = "/jina.JinaDiscoverEndpointsRPC/endpoint_discovery";

/// Metadata by which stock clients ask for a window and for ordered replies.
const PREFETCH: &str = "__prefetch__";
const IN_ORDER: &str = "__results_in_order__";

/// Metadata by which stock heads report how many of their shards answered.
const TOTAL_SHARDS: &str = "total_shards";
const FAILED_SHARDS: &str = "failed_shards";

/// Jina's services, answered by a gateway.
#[derive(Debug, Clone)]
pub(crate) struct JinaService(pub(crate) GatewayService);

type Replies<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

fn stream_request<T>(request: &Request<T>) -> Result<StreamRequest, Status> {
    let metadata = request.metadata();
    let text = |key| metadata.get(key).and_then(|value| value.to_str().ok());
    Ok(StreamRequest {
        prefetch: text(PREFETCH)
            .and_then(|text| text.parse().ok())
            .and_then(NonZeroUsize::new),
        in_order: text(IN_ORDER).is_some_and(|text| text.eq_ignore_ascii_case("true")),
        call: options(request, STREAM)?,
        budget: None,
    })
}

/// The reply, with what its metadata says: how many shards answered, and what models did.
fn response(reply: UnaryReply) -> Response<Envelope> {
    let mut response = Response::new(reply.envelope);
    let metadata = response.metadata_mut();
    if let Some(Shards { total, failed }) = reply.shards {
        metadata.insert(TOTAL_SHARDS, total.into());
        metadata.insert(FAILED_SHARDS, failed.into());
    }
    if let Some(usage) = reply.usage {
        write_usage(metadata, usage);
    }
    response
}

#[tonic::async_trait]
impl JinaRpc for JinaService {
    type CallStream = Replies<Envelope>;

    async fn call(
        &self,
        request: Request<Streaming<Envelope>>,
    ) -> Result<Response<Self::CallStream>, Status> {
        let mut options = stream_request(&request)?;
        let id = options.call.request_id.clone();
        options.budget = budget(&request).map(|connection| connection.for_stream());
        let requests = request.into_inner();
        let requests = requests.map(|request| request.map_err(|status| to_failure(&status)));
        let replies = self.0.stream(requests, options);
        let replies = replies.map(|reply| reply.map_err(|failure| from_failure(&failure)));
        let mut response: Response<Self::CallStream> = Response::new(Box::pin(replies));
        return_id(response.metadata_mut(), id.as_ref());
        Ok(response)
    }
}

#[tonic::async_trait]
impl JinaSingleDataRequestRpc for JinaService {
    async fn process_single_data(
        &self,
        request: Request<Envelope>,
    ) -> Result<Response<Envelope>, Status> {
        let options = options(&request, UNARY)?;
        let budget = budget(&request);
        let mut request = request.into_inner();
        let _held = budget.map(|budget| budget.hold(request_cost(&request)));
        let header = request.header.get_or_insert_default();
        identify(header, &options);
        let (id, of_call) = (header.request_id.clone(), options.request_id.clone());
        match self.0.unary(request, options).await {
            Ok(reply) => {
                let mut response = response(reply);
                return_id(response.metadata_mut(), of_call.as_ref());
                Ok(response)
            }
            Err(failure) => {
                // There is no reply whose header could have the id.
                let mut status = from_failure(&failure);
                write_request_id(status.metadata_mut(), &id);
                Err(status)
            }
        }
    }
}

#[tonic::async_trait]
impl JinaGatewayDryRunRpc for JinaService {
    async fn dry_run(&self, request: Request<()>) -> Result<Response<StatusProto>, Status> {
        let status = self.0.dry_run(options(&request, DRY_RUN)?).await;
        status
            .map(Response::new)
            .map_err(|failure| from_failure(&failure))
    }
}

#[tonic::async_trait]
#[allow(
    non_camel_case_types,
    reason = "the generated trait has the names of the proto file"
)]
impl JinaSingleDocumentRequestRpc for JinaService {
    type stream_docStream = Replies<SingleDocumentRequestProto>;

    async fn stream_doc(
        &self,
        request: Request<SingleDocumentRequestProto>,
    ) -> Result<Response<Self::stream_docStream>, Status> {
        let options = options(&request, STREAM_DOC)?;
        let documents = self.0.generate(request.into_inner(), options).await;
        let documents = documents.map_err(|failure| from_failure(&failure))?;
        let documents = documents.map(|it| it.map_err(|failure| from_failure(&failure)));
        Ok(Response::new(Box::pin(documents)))
    }
}

#[tonic::async_trait]
impl JinaDiscoverEndpointsRpc for JinaService {
    async fn endpoint_discovery(
        &self,
        request: Request<()>,
    ) -> Result<Response<EndpointsProto>, Status> {
        let endpoints = self.0.endpoints(&options(&request, DISCOVERY)?).await;
        endpoints
            .map(Response::new)
            .map_err(|failure| from_failure(&failure))
    }
}

#[tonic::async_trait]
impl JinaInfoRpc for JinaService {
    async fn status(&self, _: Request<()>) -> Result<Response<JinaInfoProto>, Status> {
        Ok(Response::new(self.0.status()))
    }
}
