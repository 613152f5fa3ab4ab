//! Executors whose behaviour a test defines, on ports of their own.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use flow_core::{Code, Document, DocumentArray, Failure, to_struct};
use flow_net::grpc::jina_data_request_rpc_server::{JinaDataRequestRpc, JinaDataRequestRpcServer};
use flow_net::grpc::jina_discover_endpoints_rpc_server::{
    JinaDiscoverEndpointsRpc, JinaDiscoverEndpointsRpcServer,
};
use flow_net::grpc::jina_single_data_request_rpc_server::{
    JinaSingleDataRequestRpc, JinaSingleDataRequestRpcServer,
};
use flow_net::grpc::jina_single_document_request_rpc_server::{
    JinaSingleDocumentRequestRpc, JinaSingleDocumentRequestRpcServer,
};
use flow_proto::Envelope;
use flow_proto::jina::{DataRequestListProto, EndpointsProto, SingleDocumentRequestProto};
use futures_util::stream;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tonic::codec::CompressionEncoding;
use tonic::metadata::MetadataMap;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

/// A call that an executor got.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) parts: Vec<Envelope>,
    pub(crate) metadata: MetadataMap,
}

/// A document of a stream.
type Streamed = Result<SingleDocumentRequestProto, Status>;
pub(crate) type Answer = Pin<Box<dyn Future<Output = Result<Response<Envelope>, Status>> + Send>>;
type Behaviour = Arc<dyn Fn(Call) -> Answer + Send + Sync>;

/// A running executor. It ends when it is dropped, as if it had been killed.
#[derive(Debug)]
pub(crate) struct FakeExecutor {
    pub(crate) address: SocketAddr,
    calls: Arc<Mutex<Vec<Call>>>,
    count: watch::Receiver<usize>,
    _server: JoinSet<()>,
}

#[derive(Clone)]
struct Service {
    behaviour: Behaviour,
    /// What it reports about itself.
    offered: EndpointsProto,
    calls: Arc<Mutex<Vec<Call>>>,
    count: watch::Sender<usize>,
}

impl FakeExecutor {
    /// An executor that answers each call as `behave` says.
    pub(crate) async fn start<F>(behave: impl Fn(Call) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Response<Envelope>, Status>> + Send + 'static,
    {
        let behaviour: Behaviour = Arc::new(move |call| Box::pin(behave(call)));
        Self::offering(&["/default"], behaviour).await
    }

    /// The same with these endpoints only.
    pub(crate) async fn offering(endpoints: &[&str], behaviour: Behaviour) -> Self {
        let offered = EndpointsProto {
            endpoints: endpoints.iter().map(|&it| it.to_owned()).collect(),
            ..EndpointsProto::default()
        };
        Self::describing(offered, behaviour).await
    }

    /// An executor that returns documents unchanged, and names the parameters that each endpoint accepts.
    pub(crate) async fn accepting(endpoints: &[(&str, &[&str])]) -> Self {
        let schema = |(endpoint, names): &(&str, &[&str])| {
            let schema = json!({ "parameters": { "accepts": names } });
            ((*endpoint).to_owned(), schema)
        };
        let offered = EndpointsProto {
            endpoints: endpoints.iter().map(|(it, _)| (*it).to_owned()).collect(),
            schemas: Some(to_struct(&endpoints.iter().map(schema).collect())),
            ..EndpointsProto::default()
        };
        let echo: Behaviour = Arc::new(|call| Box::pin(async { Ok(first(call)) }));
        Self::describing(offered, echo).await
    }

    /// An executor that returns documents unchanged, and names the class of its documents, or takes any.
    pub(crate) async fn describing_documents(endpoints: &[&str], class: Option<&str>) -> Self {
        let class = class.unwrap_or("FlowDoc");
        let schema = |endpoint: &&str| {
            let schema = json!({ "input": { "name": class }, "output": { "name": class } });
            ((*endpoint).to_owned(), schema)
        };
        let offered = EndpointsProto {
            endpoints: endpoints.iter().map(|&it| it.to_owned()).collect(),
            schemas: Some(to_struct(&endpoints.iter().map(schema).collect())),
            ..EndpointsProto::default()
        };
        let echo: Behaviour = Arc::new(|call| Box::pin(async { Ok(first(call)) }));
        Self::describing(offered, echo).await
    }

    /// An executor that returns documents unchanged, also as a stream at this endpoint.
    pub(crate) async fn generating(endpoint: &str) -> Self {
        let schema = json!({ "is_generator": true });
        let offered = EndpointsProto {
            endpoints: vec![endpoint.to_owned(), "/default".to_owned()],
            schemas: Some(to_struct(
                &[(endpoint.to_owned(), schema)].into_iter().collect(),
            )),
            ..EndpointsProto::default()
        };
        let echo: Behaviour = Arc::new(|call| Box::pin(async { Ok(first(call)) }));
        Self::describing(offered, echo).await
    }

    /// An executor that reports this about itself.
    pub(crate) async fn describing(offered: EndpointsProto, behaviour: Behaviour) -> Self {
        let at = SocketAddr::from(([127, 0, 0, 1], 0));
        Self::describing_at(at, offered, behaviour).await
    }

    async fn describing_at(at: SocketAddr, offered: EndpointsProto, behaviour: Behaviour) -> Self {
        let listener = TcpListener::bind(at).await.unwrap();
        let address = listener.local_addr().unwrap();
        let calls = Arc::<Mutex<Vec<Call>>>::default();
        let (count, counted) = watch::channel(0);
        let service = Service {
            behaviour,
            offered,
            calls: calls.clone(),
            count,
        };
        let single = JinaSingleDataRequestRpcServer::new(service.clone())
            .accept_compressed(CompressionEncoding::Gzip)
            .accept_compressed(CompressionEncoding::Deflate);
        let list = JinaDataRequestRpcServer::new(service.clone())
            .accept_compressed(CompressionEncoding::Gzip);
        let server = tonic::transport::Server::builder()
            .add_service(single)
            .add_service(list)
            .add_service(JinaSingleDocumentRequestRpcServer::new(service.clone()))
            .add_service(JinaDiscoverEndpointsRpcServer::new(service));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let incoming = TcpIncoming::from(listener);
            server.serve_with_incoming(incoming).await.unwrap();
        });
        Self {
            address,
            calls,
            count: counted,
            _server: tasks,
        }
    }

    /// An executor that returns documents unchanged.
    pub(crate) async fn echo() -> Self {
        Self::start(|call| async { Ok(first(call)) }).await
    }

    /// The same at the address of one that has ended.
    pub(crate) async fn echo_at(at: SocketAddr) -> Self {
        let echo: Behaviour = Arc::new(|call| Box::pin(async { Ok(first(call)) }));
        Self::describing_at(at, EndpointsProto::default(), echo).await
    }

    /// An executor that sets a tag.
    pub(crate) async fn tag(name: &'static str) -> Self {
        Self::start(move |call| async move { Ok(tagged(first(call), name)) }).await
    }

    /// An executor that takes a permit for each call.
    pub(crate) async fn gated(gate: Arc<Semaphore>) -> Self {
        Self::start(move |call| {
            let gate = gate.clone();
            async move {
                gate.acquire().await.unwrap().forget();
                Ok(first(call))
            }
        })
        .await
    }

    /// An executor that fails.
    pub(crate) async fn failing(status: Status) -> Self {
        Self::start(move |_| std::future::ready(Err(status.clone()))).await
    }

    /// The calls so far.
    pub(crate) fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }

    /// Waits for this number of calls.
    pub(crate) async fn was_called(&self, times: usize) {
        let mut count = self.count.clone();
        count.wait_for(|count| *count >= times).await.unwrap();
    }
}

/// The status of a call that an executor of ours refused before it ran.
pub(crate) fn did_not_run(message: &str) -> Status {
    flow_net::status::from_failure(&Failure::new(Code::Unavailable, message))
}

pub(crate) fn first(call: Call) -> Response<Envelope> {
    Response::new(call.parts.into_iter().next().unwrap())
}

pub(crate) fn tagged(mut reply: Response<Envelope>, name: &str) -> Response<Envelope> {
    let envelope = reply.get_mut();
    let mut documents = documents(envelope);
    for document in &mut documents {
        let mut tags = document.tags();
        tags.insert(name.to_owned(), json!(true));
        document.set_tags(&tags);
    }
    envelope.data = Some(documents.encode());
    reply
}

/// Documents with these ids and texts.
pub(crate) fn with_ids(ids: &[&str]) -> DocumentArray {
    let document = |id: &&str| {
        let mut document = Document::from_text(id);
        document.set_id(id);
        document
    };
    ids.iter().map(document).collect()
}

pub(crate) fn documents(envelope: &Envelope) -> DocumentArray {
    let data = envelope.data.as_ref();
    data.map(|data| DocumentArray::decode(data).unwrap())
        .unwrap_or_default()
}

pub(crate) fn ids(envelope: &Envelope) -> Vec<String> {
    documents(envelope).iter().map(Document::id).collect()
}

impl Service {
    async fn answer(
        &self,
        metadata: MetadataMap,
        parts: Vec<Envelope>,
    ) -> Result<Response<Envelope>, Status> {
        let call = Call { parts, metadata };
        self.calls.lock().unwrap().push(call.clone());
        self.count.send_modify(|count| *count += 1);
        (self.behaviour)(call).await
    }
}

#[tonic::async_trait]
impl JinaSingleDataRequestRpc for Service {
    async fn process_single_data(
        &self,
        request: Request<Envelope>,
    ) -> Result<Response<Envelope>, Status> {
        let (metadata, _, part) = request.into_parts();
        self.answer(metadata, vec![part]).await
    }
}

#[tonic::async_trait]
impl JinaDataRequestRpc for Service {
    async fn process_data(
        &self,
        request: Request<DataRequestListProto>,
    ) -> Result<Response<Envelope>, Status> {
        let (metadata, _, list) = request.into_parts();
        self.answer(metadata, list.requests).await
    }
}

#[tonic::async_trait]
impl JinaSingleDocumentRequestRpc for Service {
    type stream_docStream = stream::Iter<std::option::IntoIter<Streamed>>;

    async fn stream_doc(
        &self,
        request: Request<SingleDocumentRequestProto>,
    ) -> Result<Response<Self::stream_docStream>, Status> {
        let (metadata, _, document) = request.into_parts();
        let header = document.header.clone();
        let part = Envelope {
            header,
            ..Envelope::default()
        };
        self.answer(metadata, vec![part]).await?;
        Ok(Response::new(stream::iter(Some(Ok(document)))))
    }
}

#[tonic::async_trait]
impl JinaDiscoverEndpointsRpc for Service {
    async fn endpoint_discovery(&self, _: Request<()>) -> Result<Response<EndpointsProto>, Status> {
        Ok(Response::new(self.offered.clone()))
    }
}
