//! A gateway in the test's own process that misbehaves on request.
//!
//! What it does with a stream is named by the endpoint of its first request.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use flow_core::{Code, DocArrayVersion, Document, DocumentArray, Failure, to_struct};
use flow_net::grpc::jina_discover_endpoints_rpc_server::{
    JinaDiscoverEndpointsRpc, JinaDiscoverEndpointsRpcServer,
};
use flow_net::grpc::jina_rpc_server::{JinaRpc, JinaRpcServer};
use flow_proto::Envelope;
use flow_proto::jina::EndpointsProto;
use futures_util::{Stream, StreamExt, stream};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tonic::codec::CompressionEncoding;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};

/// Requests that `/backwards` gathers before it answers the last of them first.
pub(crate) const GATHERED: usize = 4;

/// A running gateway.
pub(crate) struct Gateway {
    address: SocketAddr,
    seen: Arc<Seen>,
    _runtime: Runtime,
}

/// What came in.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) requests: Mutex<Vec<Envelope>>,
    pub(crate) documents: AtomicUsize,
    /// Of the first document that came.
    pub(crate) version: Mutex<Option<DocArrayVersion>>,
    pub(crate) in_flight: AtomicUsize,
    pub(crate) in_flight_most: AtomicUsize,
}

type Replies = Pin<Box<dyn Stream<Item = Result<Envelope, Status>> + Send>>;

impl Gateway {
    /// One that does not tell which endpoints there are.
    pub(crate) fn start() -> Self {
        Self::saying(None)
    }

    /// One whose executors offer these endpoints, for documents of this class.
    pub(crate) fn offering(endpoints: &[&str], class: &str) -> Self {
        let schema = json!({ "input": { "name": class } });
        let schemas = endpoints
            .iter()
            .map(|it| ((*it).to_owned(), schema.clone()));
        Self::saying(Some(EndpointsProto {
            endpoints: endpoints.iter().map(|&it| it.to_owned()).collect(),
            schemas: Some(to_struct(&schemas.collect())),
            ..EndpointsProto::default()
        }))
    }

    fn saying(said: Option<EndpointsProto>) -> Self {
        let runtime = Runtime::new().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Seen::default());
        let service = JinaRpcServer::new(Wire(Arc::clone(&seen)))
            .accept_compressed(CompressionEncoding::Gzip);
        let server = tonic::transport::Server::builder()
            .add_service(service)
            .add_service(JinaDiscoverEndpointsRpcServer::new(Discovery(said)));
        runtime.spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
        Self {
            address,
            seen,
            _runtime: runtime,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("grpc://{}", self.address)
    }

    pub(crate) fn seen(&self) -> &Seen {
        &self.seen
    }
}

/// The endpoints that it reports.
struct Discovery(Option<EndpointsProto>);

#[tonic::async_trait]
impl JinaDiscoverEndpointsRpc for Discovery {
    async fn endpoint_discovery(&self, _: Request<()>) -> Result<Response<EndpointsProto>, Status> {
        let said = self.0.clone().map(Response::new);
        said.ok_or_else(|| Status::unimplemented("endpoint_discovery"))
    }
}

struct Wire(Arc<Seen>);

#[tonic::async_trait]
impl JinaRpc for Wire {
    type CallStream = Replies;

    async fn call(
        &self,
        request: Request<Streaming<Envelope>>,
    ) -> Result<Response<Replies>, Status> {
        let seen = Arc::clone(&self.0);
        let mut requests = Box::pin(request.into_inner().inspect(move |it| seen.note(it)));
        let Some(first) = requests.next().await else {
            return Ok(Response::new(Box::pin(stream::empty())));
        };
        let endpoint = first.as_ref().map_or("", |it| endpoint(it)).to_owned();
        let requests = stream::iter([first]).chain(requests);
        let seen = Arc::clone(&self.0);
        let replies = behave(&endpoint, requests).inspect(move |_| {
            seen.in_flight.fetch_sub(1, Ordering::Relaxed);
        });
        Ok(Response::new(Box::pin(replies)))
    }
}

impl Seen {
    fn note(&self, request: &Result<Envelope, Status>) {
        let Ok(request) = request else { return };
        let now = self.in_flight.fetch_add(1, Ordering::Relaxed) + 1;
        self.in_flight_most.fetch_max(now, Ordering::Relaxed);
        self.documents
            .fetch_add(texts(request).len(), Ordering::Relaxed);
        let data = request.data.as_ref();
        let documents = data.map(|data| DocumentArray::decode(data).unwrap());
        let mut version = self.version.lock().unwrap();
        *version = version.or(documents.map(|it| it.version()));
        let header_only = Envelope {
            data: None,
            ..request.clone()
        };
        self.requests.lock().unwrap().push(header_only);
    }
}

fn behave(
    endpoint: &str,
    requests: impl Stream<Item = Result<Envelope, Status>> + Send + 'static,
) -> Replies {
    match endpoint {
        "/backwards" => Box::pin(
            requests
                .chunks(GATHERED)
                .flat_map(|group| stream::iter(group.into_iter().rev())),
        ),
        "/fail" => Box::pin(requests.map(|request| request.map(fail_bad))),
        "/break" => Box::pin(requests.enumerate().map(|(at, request)| match at {
            0 => request,
            _ => Err(Status::unavailable("the machine is on fire")),
        })),
        "/stop" => Box::pin(requests.take(1)),
        "/found" => Box::pin(requests.map(|request| request.map(with_matches))),
        "/results" => Box::pin(requests.map(|request| request.map(with_results))),
        "/undecodable" => Box::pin(requests.map(|request| request.map(undecodable))),
        "/never" => Box::pin(
            requests
                .filter(|_| async { false })
                .chain(stream::pending()),
        ),
        _ => Box::pin(requests),
    }
}

/// Each document gets twelve matches.
fn with_matches(request: Envelope) -> Envelope {
    let mut documents = DocumentArray::decode(request.data.as_ref().unwrap()).unwrap();
    for document in &mut documents {
        let query = document.id();
        let matches = (0..12u8).map(|number| {
            let mut found = Document::from_text(&format!("match {number}"));
            found.set_id(&format!("id-{number}"));
            found.set_tags(json!({ "page": number }).as_object().unwrap());
            found.set_score("cosine", 1.0 - f32::from(number) / 16.0, &query);
            found
        });
        *document.matches_mut().unwrap() = matches.collect();
    }
    Envelope {
        data: Some(documents.encode()),
        ..request
    }
}

/// An executor returns something besides documents.
fn with_results(request: Envelope) -> Envelope {
    let results = json!({ "__results__": { "index/rep-0": { "count": 3 } } });
    Envelope {
        parameters: Some(flow_core::parameters::from_json(
            results.as_object().unwrap(),
        )),
        ..request
    }
}

/// As stock executors fail that cannot read the documents.
fn undecodable(request: Envelope) -> Envelope {
    let failure = Failure::new(Code::ExecutorFailed, "DecodeError('Error parsing message')");
    let mut reply = request;
    reply.header.as_mut().unwrap().status = Some(failure.to_status());
    reply
}

/// Requests with a text `bad` fail.
fn fail_bad(request: Envelope) -> Envelope {
    if !texts(&request).iter().any(|text| text == "bad") {
        return request;
    }
    let mut reply = request;
    let failure = Failure::new(Code::ExecutorFailed, "this text is bad").at("encoder");
    reply.header.as_mut().unwrap().status = Some(failure.to_status());
    reply
}

fn endpoint(request: &Envelope) -> &str {
    request
        .header
        .as_ref()
        .and_then(|header| header.exec_endpoint.as_deref())
        .unwrap_or_default()
}

fn texts(request: &Envelope) -> Vec<String> {
    let documents = request
        .data
        .as_ref()
        .map(|data| DocumentArray::decode(data).unwrap());
    documents
        .unwrap_or_default()
        .iter()
        .map(flow_core::Document::text)
        .collect()
}
