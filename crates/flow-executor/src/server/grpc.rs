//! Jina's gRPC services: decodes requests into calls, and encodes replies.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use flow_core::parameters::{self, RESULTS};
use flow_core::{
    BadDocument, Code, DocArrayVersion, Document, DocumentArray, Endpoint, Failure, Models,
    RequestLimits, TraceContext, Usage, to_struct,
};
use flow_net::grpc::jina_data_request_rpc_server::JinaDataRequestRpc;
use flow_net::grpc::jina_discover_endpoints_rpc_server::JinaDiscoverEndpointsRpc;
use flow_net::grpc::jina_info_rpc_server::JinaInfoRpc;
use flow_net::grpc::jina_rpc_server::JinaRpc;
use flow_net::grpc::jina_single_data_request_rpc_server::JinaSingleDataRequestRpc;
use flow_net::grpc::jina_single_document_request_rpc_server::JinaSingleDocumentRequestRpc;
use flow_net::{ByteBudget, ConnectionHandle, RequestSpawner, write_usage};
use flow_proto::Envelope;
use flow_proto::jina::{
    DataRequestListProto, EndpointsProto, HeaderProto, JinaInfoProto, SingleDocumentRequestProto,
};
use flow_trace::{Span, SpanKind, Tracer};
use futures_util::{Stream, StreamExt, stream};
use prost::Message;
use prost_types::value::Kind as ValueKind;
use prost_types::{Struct, Value};
use serde_json::Map;
use tokio::sync::watch;
use tokio::task::JoinError;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::discovery;
use super::error_trailer::IsError;
use super::incoming::{self, Incoming};
use super::parameter_check::{ParameterCheck, ReceivedParameters};
use crate::endpoint_table::{BoundMethod, EndpointTable, MethodKind};
use crate::metrics::{ExecutorMetrics, RequestInProgress};
use crate::queue::{Admission, CallOutput, CallRequest, CallTrace, Stage, Timing};
use crate::sdk::Parameters;

/// Requests of one stream in progress.
const STREAM_WINDOW: usize = 64;

/// The span of writing the documents of a reply.
const SERIALIZE: &str = "serialize";

/// Memory that a document takes besides its bytes.
const DOCUMENT_MEMORY: usize = 160;

/// Answers requests. Clones share everything.
#[derive(Debug, Clone)]
pub(crate) struct JinaService(Arc<State>);

#[derive(Debug)]
struct State {
    parts: ServiceParts,
    parameters: ParameterCheck,
    /// The models of the executor; `None` until it is loaded.
    models: watch::Sender<Option<Models>>,
}

/// The reply to a request.
struct Answer {
    reply: Envelope,
    /// Whether it is a failure, which its header describes.
    is_failure: bool,
    /// What a model did, if the executor counts it.
    usage: Option<Usage>,
}

/// What became of a request that was worked on.
#[derive(Debug, Clone, Copy, Default)]
struct ProcessedRequest {
    /// The number of documents that the executor got.
    documents: usize,
    usage: Option<Usage>,
}

/// What the service is made of.
#[derive(Debug)]
pub(crate) struct ServiceParts {
    pub(crate) name: String,
    pub(crate) endpoints: EndpointTable,
    pub(crate) admission: Admission,
    pub(crate) metrics: Option<ExecutorMetrics>,
    pub(crate) limits: RequestLimits,
    pub(crate) spawner: RequestSpawner,
    /// `None` if the process exports no spans.
    pub(crate) tracer: Option<Tracer>,
}

type Replies<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

impl JinaService {
    pub(crate) fn new(parts: ServiceParts) -> Self {
        Self(Arc::new(State {
            parts,
            parameters: ParameterCheck::default(),
            models: watch::Sender::new(None),
        }))
    }

    /// Says which models the executor runs, now that it is loaded. Discovery waits for it.
    pub(crate) fn set_models(&self, models: Models) {
        self.0.models.send_replace(Some(models));
    }

    /// The endpoints of the executor and its models, once it is loaded.
    async fn discovered(&self) -> EndpointsProto {
        let mut models = self.0.models.subscribe();
        // The sender is in the service, so it cannot be dropped while this waits.
        let models = models.wait_for(Option::is_some).await;
        let models = models.ok().and_then(|models| models.clone());
        discovery::endpoints(&self.0.parts.endpoints, &models.unwrap_or_default())
    }

    fn incoming<T>(&self, request: &Request<T>, method: &'static str) -> Incoming {
        Incoming::read(request, method, self.0.parts.tracer.as_ref())
    }

    /// The reply to a request. `others` are the further parts of a join.
    async fn answer(
        &self,
        mut request: Envelope,
        others: &[Envelope],
        incoming: Incoming,
    ) -> Answer {
        let bound = self.find(request.header.as_ref());
        let parts = std::iter::once(&request).chain(others);
        let in_progress = self.begin(bound, parts);
        let tracer = self.0.parts.tracer.as_ref();
        let bytes = payload_len(&request);
        let mut span = incoming.span(tracer, request.header.as_ref(), bytes);
        let trace = (tracer, span.context());
        let timing = Timing::begin_if(incoming.wants_timing);
        let outcome = self
            .work(&mut request, others, (bound, incoming, trace, &timing))
            .await;
        if let Err(failure) = &outcome {
            span.fail(failure);
            let status = failure.clone().at(&self.0.parts.name).to_status();
            request.header.get_or_insert_default().status = Some(status);
        }
        request.routes.extend(timing.end(&self.0.parts.name));
        if let (Some(in_progress), Ok(worked)) = (in_progress, &outcome) {
            in_progress.succeeded(&request, worked.documents);
        }
        Answer {
            reply: request,
            is_failure: outcome.is_err(),
            usage: outcome.ok().and_then(|worked| worked.usage),
        }
    }

    /// Answers a unary call.
    async fn respond(
        &self,
        request: Envelope,
        others: Vec<Envelope>,
        incoming: Incoming,
    ) -> Result<Response<Envelope>, Status> {
        let answer = self.run(request, others, incoming).await?;
        let mut response = Response::new(answer.reply);
        if answer.is_failure {
            response.extensions_mut().insert(IsError);
        }
        if let Some(usage) = answer.usage {
            write_usage(response.metadata_mut(), usage);
        }
        Ok(response)
    }

    /// Answers a request, on a thread of its own if it is large.
    async fn run(
        &self,
        request: Envelope,
        others: Vec<Envelope>,
        incoming: Incoming,
    ) -> Result<Answer, Status> {
        let spawner = &self.0.parts.spawner;
        if !spawner.is_for(payload_of_all(&request, &others)) {
            return Ok(self.answer(request, &others, incoming).await);
        }
        let service = self.clone();
        let answer = spawner.spawn(async move { service.answer(request, &others, incoming).await });
        answer.await.map_err(not_decoded)
    }

    fn begin<'r>(
        &self,
        bound: Option<BoundMethod>,
        parts: impl Iterator<Item = &'r Envelope>,
    ) -> Option<RequestInProgress> {
        let metrics = self.0.parts.metrics.as_ref()?;
        Some(metrics.begin(bound.map(|bound| bound.endpoint), parts))
    }

    /// Replaces the request's documents by the executor's output.
    async fn work(
        &self,
        request: &mut Envelope,
        others: &[Envelope],
        (bound, incoming, trace, timing): (
            Option<BoundMethod>,
            Incoming,
            RequestTracing<'_>,
            &Timing,
        ),
    ) -> Result<ProcessedRequest, Failure> {
        let documents = self.check(request, others)?;
        if bound.is_none() && others.is_empty() {
            return Ok(ProcessedRequest::default());
        }
        let memory = payload_of_all(request, others) + documents * DOCUMENT_MEMORY;
        let admission = &self.0.parts.admission;
        let admitted = admission.admit(incoming.class?, memory).await?;
        timing.begin(Stage::Decode);
        let _bytes = admitted.hold_bytes();
        let apart = bound.is_some_and(|bound| bound.kind == MethodKind::Matrix);
        let (documents, parts) = decode_parts(request, others, apart)?;
        let Some(bound) = bound else {
            request.data = Some(documents.into_iter().collect::<DocumentArray>().encode());
            return Ok(ProcessedRequest::default());
        };
        let documents_got = documents.len();
        let call = CallRequest {
            id: id(request.header.as_ref()),
            method: bound,
            parameters: self.parameters(bound, ReceivedParameters::from(&*request))?,
            documents,
            parts,
            trace: call_trace(trace),
            timing: timing.clone(),
        };
        timing.begin(Stage::Queue);
        let output = admission.call(admitted, call).await?;
        let usage = output.usage;
        let _span = child(trace, SERIALIZE);
        self.write(request, output)?;
        Ok(ProcessedRequest {
            documents: documents_got,
            usage,
        })
    }

    /// The number of documents of a request, if all its parts are within their limits.
    fn check(&self, request: &Envelope, others: &[Envelope]) -> Result<usize, Failure> {
        let limits = &self.0.parts.limits;
        let mut documents = 0;
        for part in std::iter::once(request).chain(others) {
            limits.check(part.header.as_ref(), part.parameters.as_ref(), None)?;
            documents += limits
                .documents
                .check(part.data.as_deref().unwrap_or_default())?;
        }
        let max = limits.documents.documents_max;
        match documents <= max {
            true => Ok(documents),
            false => Err(BadDocument::TooMany { max }.into()),
        }
    }

    /// The method of a request; `None` if its endpoint has none, and the request is returned unchanged.
    fn find(&self, header: Option<&HeaderProto>) -> Option<BoundMethod> {
        let endpoint = header.and_then(|header| header.exec_endpoint.as_deref());
        match endpoint.unwrap_or(Endpoint::DEFAULT) {
            Endpoint::DRY_RUN => None,
            endpoint => self.0.parts.endpoints.find(endpoint),
        }
    }

    /// The parameters of a request as the executor gets them.
    fn parameters(
        &self,
        bound: BoundMethod,
        received: ReceivedParameters<'_>,
    ) -> Result<Parameters, Failure> {
        let ServiceParts {
            name, endpoints, ..
        } = &self.0.parts;
        let accepts = endpoints.accepts(bound.method);
        self.0.parameters.check(received, name, accepts)?;
        Ok(Parameters::for_executor(received.parameters, name)?)
    }

    fn write(&self, request: &mut Envelope, output: CallOutput) -> Result<(), Failure> {
        let metrics = self.0.parts.metrics.as_ref();
        let _time = metrics.map(ExecutorMetrics::serialize);
        if request.data.is_some() || !output.documents.is_empty() {
            request.data = Some(output.documents.encode());
        }
        if let Some(results) = output.results {
            let mut parameters = match &request.parameters {
                Some(parameters) => parameters::decode(parameters)?,
                None => Struct::default(),
            };
            put_results(&mut parameters, &self.0.parts.name, &results);
            request.parameters = Some(parameters.encode_to_vec().into());
        }
        Ok(())
    }

    async fn stream(
        &self,
        request: SingleDocumentRequestProto,
        incoming: Incoming,
    ) -> Result<Replies<SingleDocumentRequestProto>, Failure> {
        let mut in_progress = self.begin(None, std::iter::empty());
        let bound = self.find(request.header.as_ref()).ok_or_else(|| {
            let header = request.header.as_ref();
            let endpoint = header.and_then(|header| header.exec_endpoint.clone());
            let endpoint = endpoint.unwrap_or_default();
            Failure::new(
                Code::Unimplemented,
                format!("no method streams `{endpoint}`"),
            )
        })?;
        self.0.parts.limits.check_document(&request)?;
        let len = |part: &Option<Bytes>| part.as_ref().map_or(0, Bytes::len);
        let memory = len(&request.document) + len(&request.parameters);
        let admission = &self.0.parts.admission;
        let tracer = self.0.parts.tracer.as_ref();
        let mut span = incoming.span(tracer, request.header.as_ref(), memory);
        let admitted = admission.admit(incoming.class?, memory).await?;
        let parameters = self.parameters(bound, ReceivedParameters::from(&request))?;
        let raw = request.document.unwrap_or_default();
        let version = DocArrayVersion::of(&raw).unwrap_or_default();
        let call = CallRequest {
            id: id(request.header.as_ref()),
            method: bound,
            parameters,
            documents: vec![Document::decode(version, raw)?],
            parts: Vec::new(),
            trace: call_trace((tracer, span.context())),
            timing: Timing::default(),
        };
        let documents = admission.stream(admitted, call)?;
        let (header, name) = (request.header, self.0.parts.name.clone());
        let mut failed = false;
        let replies = ReceiverStream::new(documents).map(move |document| {
            if let Err(failure) = &document {
                span.fail(failure);
            }
            failed |= document.is_err();
            in_progress.iter_mut().for_each(|it| it.streamed(failed));
            Ok(stream_message(header.clone(), &name, document))
        });
        Ok(Box::pin(replies))
    }
}

/// The tracer of the process, and the span of the request, if spans are exported.
type RequestTracing<'t> = (Option<&'t Tracer>, Option<&'t Arc<TraceContext>>);

/// A span of a request's work, if it is recorded.
fn child((tracer, request): RequestTracing<'_>, name: &'static str) -> Option<Span> {
    tracer?.child(name, SpanKind::Internal, request?)
}

/// The spans of a call, if they are recorded.
fn call_trace(within: RequestTracing<'_>) -> Option<CallTrace> {
    CallTrace::begin(within.0?, within.1?)
}

/// The id of a request.
fn id(header: Option<&HeaderProto>) -> Arc<str> {
    header.map_or("", |header| &header.request_id).into()
}

/// The documents of all parts, one after another. If they are wanted `apart`, also the name of each part and the number of
/// its documents.
fn decode_parts(
    first: &Envelope,
    others: &[Envelope],
    apart: bool,
) -> Result<DecodedParts, Failure> {
    let mut documents = Vec::new();
    let mut parts = Vec::new();
    for part in std::iter::once(first).chain(others) {
        let own = part.data.as_ref().map(DocumentArray::decode).transpose()?;
        let own = own.unwrap_or_default();
        if apart {
            parts.push((source(part), own.len()));
        }
        documents.extend(own);
    }
    Ok((documents, parts))
}

/// Documents, and the names and numbers of their parts.
type DecodedParts = (Vec<Document>, Vec<(String, usize)>);

/// The last executor that a part passed, as stock executors name it.
fn source(part: &Envelope) -> String {
    let last = part.routes.last();
    last.map(|route| route.executor.clone()).unwrap_or_default()
}

/// The part of the byte budget that the call's connection has.
fn budget<T>(request: &Request<T>) -> Option<ByteBudget> {
    ConnectionHandle::budget_of(request.extensions()).cloned()
}

/// One message of a stream: a document, or the failure that ends it.
fn stream_message(
    header: Option<HeaderProto>,
    name: &str,
    document: Result<Document, Failure>,
) -> SingleDocumentRequestProto {
    let mut reply = SingleDocumentRequestProto {
        header,
        ..Default::default()
    };
    match document {
        Ok(document) => reply.document = Some(document.encode()),
        Err(failure) => {
            let status = failure.at(name).to_status();
            reply.header.get_or_insert_default().status = Some(status);
        }
    }
    reply
}

/// `parameters.__results__.<name>` = `results`.
fn put_results(parameters: &mut Struct, name: &str, results: &Map<String, serde_json::Value>) {
    let as_value = |map| Value {
        kind: Some(ValueKind::StructValue(map)),
    };
    let mut all = match parameters
        .fields
        .remove(RESULTS)
        .and_then(|value| value.kind)
    {
        Some(ValueKind::StructValue(all)) => all,
        _ => Struct::default(),
    };
    all.fields
        .insert(name.to_owned(), as_value(to_struct(results)));
    parameters.fields.insert(RESULTS.to_owned(), as_value(all));
}

/// The status of a request whose work panicked.
#[allow(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn not_decoded(error: JoinError) -> Status {
    Status::internal(format!("the request was not decoded: {error}"))
}

/// The bytes of all parts of a request that are decoded.
fn payload_of_all(request: &Envelope, others: &[Envelope]) -> usize {
    std::iter::once(request)
        .chain(others)
        .map(payload_len)
        .sum()
}

/// The requests of a stream, each of which is read once the budget has room.
fn with_room(
    requests: Streaming<Envelope>,
    budget: Option<ByteBudget>,
) -> impl Stream<Item = Result<Envelope, Status>> {
    stream::unfold((requests, budget), |(mut requests, budget)| async move {
        if let Some(budget) = &budget {
            budget.room().await;
        }
        let request = requests.next().await?;
        Some((request, (requests, budget)))
    })
}

/// The bytes of one part that are decoded.
fn payload_len(request: &Envelope) -> usize {
    let len = |part: &Option<Bytes>| part.as_ref().map_or(0, Bytes::len);
    len(&request.data) + len(&request.parameters)
}

#[tonic::async_trait]
impl JinaSingleDataRequestRpc for JinaService {
    async fn process_single_data(
        &self,
        request: Request<Envelope>,
    ) -> Result<Response<Envelope>, Status> {
        let incoming = self.incoming(&request, incoming::UNARY);
        let budget = budget(&request);
        let request = request.into_inner();
        let _held = budget.map(|budget| budget.hold(payload_len(&request)));
        self.respond(request, Vec::new(), incoming).await
    }
}

#[tonic::async_trait]
impl JinaDataRequestRpc for JinaService {
    /// The parts of a join arrive as a list. A method bound with `on_matrix` gets them separately; other methods get their
    /// documents one after another.
    async fn process_data(
        &self,
        request: Request<DataRequestListProto>,
    ) -> Result<Response<Envelope>, Status> {
        let incoming = self.incoming(&request, incoming::LIST);
        let budget = budget(&request);
        let mut parts = request.into_inner().requests.into_iter();
        let first = parts.next().unwrap_or_default();
        let others: Vec<Envelope> = parts.collect();
        let _held = budget.map(|budget| budget.hold(payload_of_all(&first, &others)));
        self.respond(first, others, incoming).await
    }
}

#[tonic::async_trait]
impl JinaRpc for JinaService {
    type CallStream = Replies<Envelope>;

    async fn call(
        &self,
        request: Request<Streaming<Envelope>>,
    ) -> Result<Response<Self::CallStream>, Status> {
        let service = self.clone();
        let incoming = self.incoming(&request, incoming::STREAM);
        let budget = budget(&request).map(|connection| connection.for_stream());
        let replies = with_room(request.into_inner(), budget.clone())
            .map(move |request| {
                let (service, incoming) = (service.clone(), incoming.clone());
                let held =
                    |request: &Envelope| budget.as_ref().map(|it| it.hold(payload_len(request)));
                let held = request.as_ref().ok().map(held);
                async move {
                    let reply = service.run(request?, Vec::new(), incoming).await?.reply;
                    drop(held);
                    Ok(reply)
                }
            })
            .buffer_unordered(STREAM_WINDOW);
        Ok(Response::new(Box::pin(replies)))
    }
}

#[tonic::async_trait]
#[allow(
    non_camel_case_types,
    reason = "the generated trait has the names of the protocol"
)]
impl JinaSingleDocumentRequestRpc for JinaService {
    type stream_docStream = Replies<SingleDocumentRequestProto>;

    async fn stream_doc(
        &self,
        request: Request<SingleDocumentRequestProto>,
    ) -> Result<Response<Self::stream_docStream>, Status> {
        let incoming = self.incoming(&request, incoming::STREAM_DOC);
        let request = request.into_inner();
        let header = request.header.clone();
        let service = self.clone();
        let bytes = request.document.as_ref().map_or(0, Bytes::len);
        let spawner = &self.0.parts.spawner;
        let started = match spawner.is_for(bytes) {
            false => service.stream(request, incoming).await,
            true => spawner
                .spawn(async move { service.stream(request, incoming).await })
                .await
                .map_err(not_decoded)?,
        };
        let replies = started.unwrap_or_else(|failure| {
            let reply = stream_message(header, &self.0.parts.name, Err(failure));
            Box::pin(stream::iter([Ok(reply)]))
        });
        Ok(Response::new(replies))
    }
}

#[tonic::async_trait]
impl JinaDiscoverEndpointsRpc for JinaService {
    async fn endpoint_discovery(&self, _: Request<()>) -> Result<Response<EndpointsProto>, Status> {
        Ok(Response::new(self.discovered().await))
    }
}

#[tonic::async_trait]
impl JinaInfoRpc for JinaService {
    async fn status(&self, _: Request<()>) -> Result<Response<JinaInfoProto>, Status> {
        Ok(Response::new(flow_net::info()))
    }
}

#[cfg(test)]
mod tests;
