//! From bytes to calls and back: Jina's services on top of [`Admission`]. Translates, decides nothing.

use std::pin::Pin;
use std::sync::Arc;

use flow_core::parameters::{self, RESULTS};
use flow_core::{Code, Document, DocumentArray, Endpoint, Failure, Flavour, to_struct};
use flow_net::grpc::jina_data_request_rpc_server::JinaDataRequestRpc;
use flow_net::grpc::jina_discover_endpoints_rpc_server::JinaDiscoverEndpointsRpc;
use flow_net::grpc::jina_info_rpc_server::JinaInfoRpc;
use flow_net::grpc::jina_rpc_server::JinaRpc;
use flow_net::grpc::jina_single_data_request_rpc_server::JinaSingleDataRequestRpc;
use flow_net::grpc::jina_single_document_request_rpc_server::JinaSingleDocumentRequestRpc;
use flow_proto::Envelope;
use flow_proto::jina::{
    DataRequestListProto, EndpointsProto, HeaderProto, JinaInfoProto, RouteProto,
    SingleDocumentRequestProto,
};
use futures_util::{Stream, StreamExt, stream};
use prost::Message;
use prost_types::value::Kind as ValueKind;
use prost_types::{Struct, Value};
use serde_json::Map;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Request, Response, Status, Streaming};

use crate::accepts::{ParameterCheck, Sent};
use crate::admission::{Admission, Ask};
use crate::batch::Lane;
use crate::directory::{Directory, Found, Kind};
use crate::meter::{Meter, UnderWay};
use crate::reply::Done;
use crate::trailer::IsError;
use crate::{Parameters, schema};

/// Requests of one stream that are worked on at a time.
const STREAM_WINDOW: usize = 64;

/// Metadata that names a request's lane.
const PRIORITY: &str = "priority";

/// All that a request needs on its way through.
#[derive(Debug, Clone)]
pub(crate) struct Wire(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    name: String,
    directory: Directory,
    admission: Admission,
    parameters: ParameterCheck,
    meter: Option<Meter>,
}

type Replies<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

impl Wire {
    pub(crate) fn new(
        name: String,
        directory: Directory,
        admission: Admission,
        meter: Option<Meter>,
    ) -> Self {
        Self(Arc::new(Shared {
            name,
            directory,
            admission,
            parameters: ParameterCheck::default(),
            meter,
        }))
    }

    /// Every request gets a reply; a failed one says so in its header. `others` are the further parts of a
    /// join.
    async fn answer(
        &self,
        mut request: Envelope,
        others: &[Envelope],
        lane: Result<Lane, Failure>,
    ) -> (Envelope, bool) {
        let found = self.find(request.header.as_ref());
        let parts = std::iter::once(&request).chain(others);
        let under_way = self.begin(found, parts);
        let outcome = self.work(&mut request, others, (found, lane)).await;
        if let Err(failure) = &outcome {
            let status = failure.clone().at(&self.0.name).to_status();
            request.header.get_or_insert_default().status = Some(status);
        }
        request.routes.push(RouteProto {
            executor: self.0.name.clone(),
            ..RouteProto::default()
        });
        if let (Some(under_way), Ok(documents)) = (under_way, &outcome) {
            under_way.succeeded(&request, *documents);
        }
        (request, outcome.is_err())
    }

    fn begin<'r>(
        &self,
        found: Option<Found>,
        parts: impl Iterator<Item = &'r Envelope>,
    ) -> Option<UnderWay> {
        let meter = self.0.meter.as_ref()?;
        Some(meter.begin(found.map(|found| found.endpoint), parts))
    }

    /// Puts what the executor makes of it in the request's place; tells how many documents it was given.
    async fn work(
        &self,
        request: &mut Envelope,
        others: &[Envelope],
        (found, lane): (Option<Found>, Result<Lane, Failure>),
    ) -> Result<usize, Failure> {
        if found.is_none() && others.is_empty() {
            return Ok(0);
        }
        let apart = found.is_some_and(|found| found.kind == Kind::Matrix);
        let (documents, parts) = gather(request, others, apart)?;
        let Some(found) = found else {
            request.data = Some(documents.into_iter().collect::<DocumentArray>().encode());
            return Ok(0);
        };
        let given = documents.len();
        let ask = Ask {
            found,
            lane: lane?,
            parameters: self.parameters(found, Sent::from(&*request))?,
            documents,
            parts,
        };
        let done = self.0.admission.call(ask).await?;
        self.write(request, done)?;
        Ok(given)
    }

    /// None where nothing is to be done: an endpoint nobody answers gives the request back as it came.
    fn find(&self, header: Option<&HeaderProto>) -> Option<Found> {
        let endpoint = header.and_then(|header| header.exec_endpoint.as_deref());
        match endpoint.unwrap_or(Endpoint::DEFAULT) {
            Endpoint::DRY_RUN => None,
            endpoint => self.0.directory.find(endpoint),
        }
    }

    /// The executor's own view of a request's parameters.
    fn parameters(&self, found: Found, sent: Sent<'_>) -> Result<Parameters, Failure> {
        let Shared {
            name, directory, ..
        } = &*self.0;
        let accepts = directory.accepts(found.method);
        self.0.parameters.check(sent, name, accepts)?;
        Ok(Parameters::for_executor(sent.parameters, name)?)
    }

    fn write(&self, request: &mut Envelope, done: Done) -> Result<(), Failure> {
        if request.data.is_some() || !done.documents.is_empty() {
            request.data = Some(done.documents.encode());
        }
        if let Some(results) = done.results {
            let mut parameters = match &request.parameters {
                Some(parameters) => parameters::decode(parameters)?,
                None => Struct::default(),
            };
            put_results(&mut parameters, &self.0.name, &results);
            request.parameters = Some(parameters.encode_to_vec().into());
        }
        Ok(())
    }

    async fn stream(
        &self,
        request: SingleDocumentRequestProto,
        lane: Result<Lane, Failure>,
    ) -> Result<Replies<SingleDocumentRequestProto>, Failure> {
        let mut under_way = self.begin(None, std::iter::empty());
        let found = self.find(request.header.as_ref()).ok_or_else(|| {
            let header = request.header.as_ref();
            let endpoint = header.and_then(|header| header.exec_endpoint.clone());
            let endpoint = endpoint.unwrap_or_default();
            Failure::new(
                Code::Unimplemented,
                format!("no method streams `{endpoint}`"),
            )
        })?;
        let parameters = self.parameters(found, Sent::from(&request))?;
        let raw = request.document.unwrap_or_default();
        let flavour = Flavour::of(&raw).unwrap_or_default();
        let ask = Ask {
            found,
            lane: lane?,
            parameters,
            documents: vec![Document::decode(flavour, raw)?],
            parts: Vec::new(),
        };
        let documents = self.0.admission.stream(ask).await?;
        let (header, name) = (request.header, self.0.name.clone());
        let mut failed = false;
        let replies = ReceiverStream::new(documents).map(move |document| {
            failed |= document.is_err();
            under_way.iter_mut().for_each(|it| it.streams(failed));
            Ok(streamed(header.clone(), &name, document))
        });
        Ok(Box::pin(replies))
    }
}

/// The documents of all parts in a row, and which part is whose, should somebody want them `apart`.
fn gather(first: &Envelope, others: &[Envelope], apart: bool) -> Result<Gathered, Failure> {
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

/// Documents, and how many of them came from where.
type Gathered = (Vec<Document>, Vec<(String, usize)>);

/// The last executor that a part went through, as stock executors name it.
fn source(part: &Envelope) -> String {
    let last = part.routes.last();
    last.map(|route| route.executor.clone()).unwrap_or_default()
}

/// Which queue the caller wants its request to stand in.
fn lane(metadata: &MetadataMap) -> Result<Lane, Failure> {
    match metadata.get(PRIORITY).map(MetadataValue::as_bytes) {
        None | Some(b"interactive") => Ok(Lane::Interactive),
        Some(b"bulk") => Ok(Lane::Bulk),
        Some(other) => {
            let other = String::from_utf8_lossy(other);
            let message = format!("`priority` is `interactive` or `bulk`, not `{other}`");
            Err(Failure::new(Code::BadRequest, message))
        }
    }
}

/// One message of a stream: a document, or why there are no more.
fn streamed(
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

fn respond((reply, failed): (Envelope, bool)) -> Response<Envelope> {
    let mut response = Response::new(reply);
    if failed {
        response.extensions_mut().insert(IsError);
    }
    response
}

#[tonic::async_trait]
impl JinaSingleDataRequestRpc for Wire {
    async fn process_single_data(
        &self,
        request: Request<Envelope>,
    ) -> Result<Response<Envelope>, Status> {
        let lane = lane(request.metadata());
        Ok(respond(self.answer(request.into_inner(), &[], lane).await))
    }
}

#[tonic::async_trait]
impl JinaDataRequestRpc for Wire {
    /// The parts of a join arrive as a list. A method that was bound so gets them apart; others see their
    /// documents one after another.
    async fn process_data(
        &self,
        request: Request<DataRequestListProto>,
    ) -> Result<Response<Envelope>, Status> {
        let lane = lane(request.metadata());
        let mut parts = request.into_inner().requests.into_iter();
        let first = parts.next().unwrap_or_default();
        let others: Vec<Envelope> = parts.collect();
        Ok(respond(self.answer(first, &others, lane).await))
    }
}

#[tonic::async_trait]
impl JinaRpc for Wire {
    type CallStream = Replies<Envelope>;

    async fn call(
        &self,
        request: Request<Streaming<Envelope>>,
    ) -> Result<Response<Self::CallStream>, Status> {
        let wire = self.clone();
        let lane = lane(request.metadata());
        let replies = request
            .into_inner()
            .map(move |request| {
                let (wire, lane) = (wire.clone(), lane.clone());
                async move { Ok(wire.answer(request?, &[], lane).await.0) }
            })
            .buffer_unordered(STREAM_WINDOW);
        Ok(Response::new(Box::pin(replies)))
    }
}

#[tonic::async_trait]
#[allow(
    non_camel_case_types,
    reason = "the generated trait follows the wire's names"
)]
impl JinaSingleDocumentRequestRpc for Wire {
    type stream_docStream = Replies<SingleDocumentRequestProto>;

    async fn stream_doc(
        &self,
        request: Request<SingleDocumentRequestProto>,
    ) -> Result<Response<Self::stream_docStream>, Status> {
        let lane = lane(request.metadata());
        let request = request.into_inner();
        let header = request.header.clone();
        let replies = self.stream(request, lane).await.unwrap_or_else(|failure| {
            let reply = streamed(header, &self.0.name, Err(failure));
            Box::pin(stream::iter([Ok(reply)]))
        });
        Ok(Response::new(replies))
    }
}

#[tonic::async_trait]
impl JinaDiscoverEndpointsRpc for Wire {
    async fn endpoint_discovery(&self, _: Request<()>) -> Result<Response<EndpointsProto>, Status> {
        Ok(Response::new(schema::endpoints(&self.0.directory)))
    }
}

#[tonic::async_trait]
impl JinaInfoRpc for Wire {
    async fn status(&self, _: Request<()>) -> Result<Response<JinaInfoProto>, Status> {
        Ok(Response::new(flow_net::info()))
    }
}

#[cfg(test)]
mod tests;
