//! Executors that do as the test says, on ports of their own.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use flow_core::{Document, DocumentArray, to_struct};
use flow_proto::Envelope;
use flow_proto::jina::jina_data_request_rpc_server::{
    JinaDataRequestRpc, JinaDataRequestRpcServer,
};
use flow_proto::jina::jina_discover_endpoints_rpc_server::{
    JinaDiscoverEndpointsRpc, JinaDiscoverEndpointsRpcServer,
};
use flow_proto::jina::jina_single_data_request_rpc_server::{
    JinaSingleDataRequestRpc, JinaSingleDataRequestRpcServer,
};
use flow_proto::jina::{DataRequestListProto, EndpointsProto};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tonic::metadata::MetadataMap;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

/// One call, in its parts.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) parts: Vec<Envelope>,
    pub(crate) metadata: MetadataMap,
}

type Answer = Pin<Box<dyn Future<Output = Result<Response<Envelope>, Status>> + Send>>;
type Behaviour = Arc<dyn Fn(Asked) -> Answer + Send + Sync>;

/// A running executor; it ends when dropped, as if it had been killed.
#[derive(Debug)]
pub(crate) struct Fake {
    pub(crate) address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    count: watch::Receiver<usize>,
    _server: JoinSet<()>,
}

#[derive(Clone)]
struct Wire {
    behaviour: Behaviour,
    /// What it says of itself.
    said: EndpointsProto,
    asked: Arc<Mutex<Vec<Asked>>>,
    count: watch::Sender<usize>,
}

impl Fake {
    /// Answers each call as `behave` says.
    pub(crate) async fn start<F>(behave: impl Fn(Asked) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Response<Envelope>, Status>> + Send + 'static,
    {
        let behaviour: Behaviour = Arc::new(move |asked| Box::pin(behave(asked)));
        Self::offering(&["/default"], behaviour).await
    }

    /// The same for these endpoints alone.
    pub(crate) async fn offering(endpoints: &[&str], behaviour: Behaviour) -> Self {
        let said = EndpointsProto {
            endpoints: endpoints.iter().map(|&it| it.to_owned()).collect(),
            ..EndpointsProto::default()
        };
        Self::saying(said, behaviour).await
    }

    /// Gives documents back as they are, and says which parameters each of its endpoints accepts.
    pub(crate) async fn accepting(endpoints: &[(&str, &[&str])]) -> Self {
        let schema = |(endpoint, names): &(&str, &[&str])| {
            let schema = json!({ "parameters": { "accepts": names } });
            ((*endpoint).to_owned(), schema)
        };
        let said = EndpointsProto {
            endpoints: endpoints.iter().map(|(it, _)| (*it).to_owned()).collect(),
            schemas: Some(to_struct(&endpoints.iter().map(schema).collect())),
            ..EndpointsProto::default()
        };
        Self::saying(said, Arc::new(|asked| Box::pin(async { Ok(first(asked)) }))).await
    }

    async fn saying(said: EndpointsProto, behaviour: Behaviour) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::<Mutex<Vec<Asked>>>::default();
        let (count, counted) = watch::channel(0);
        let wire = Wire {
            behaviour,
            said,
            asked: asked.clone(),
            count,
        };
        let server = tonic::transport::Server::builder()
            .add_service(JinaSingleDataRequestRpcServer::new(wire.clone()))
            .add_service(JinaDataRequestRpcServer::new(wire.clone()))
            .add_service(JinaDiscoverEndpointsRpcServer::new(wire));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let incoming = TcpIncoming::from(listener);
            server.serve_with_incoming(incoming).await.unwrap();
        });
        Self {
            address,
            asked,
            count: counted,
            _server: tasks,
        }
    }

    /// Gives documents back as they are.
    pub(crate) async fn echo() -> Self {
        Self::start(|asked| async { Ok(first(asked)) }).await
    }

    /// Sets a tag.
    pub(crate) async fn tag(name: &'static str) -> Self {
        Self::start(move |asked| async move { Ok(tagged(first(asked), name)) }).await
    }

    /// Answers each call as soon as there is a permit for it.
    pub(crate) async fn held(gate: Arc<Semaphore>) -> Self {
        Self::start(move |asked| {
            let gate = gate.clone();
            async move {
                gate.acquire().await.unwrap().forget();
                Ok(first(asked))
            }
        })
        .await
    }

    /// Never does the work.
    pub(crate) async fn failing(status: Status) -> Self {
        Self::start(move |_| std::future::ready(Err(status.clone()))).await
    }

    /// Calls so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// Waits until it was called so often.
    pub(crate) async fn was_asked(&self, times: usize) {
        let mut count = self.count.clone();
        count.wait_for(|count| *count >= times).await.unwrap();
    }
}

pub(crate) fn first(asked: Asked) -> Response<Envelope> {
    Response::new(asked.parts.into_iter().next().unwrap())
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

/// Documents with these ids, which are their texts too.
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

impl Wire {
    async fn answer(
        &self,
        metadata: MetadataMap,
        parts: Vec<Envelope>,
    ) -> Result<Response<Envelope>, Status> {
        let asked = Asked { parts, metadata };
        self.asked.lock().unwrap().push(asked.clone());
        self.count.send_modify(|count| *count += 1);
        (self.behaviour)(asked).await
    }
}

#[tonic::async_trait]
impl JinaSingleDataRequestRpc for Wire {
    async fn process_single_data(
        &self,
        request: Request<Envelope>,
    ) -> Result<Response<Envelope>, Status> {
        let (metadata, _, part) = request.into_parts();
        self.answer(metadata, vec![part]).await
    }
}

#[tonic::async_trait]
impl JinaDataRequestRpc for Wire {
    async fn process_data(
        &self,
        request: Request<DataRequestListProto>,
    ) -> Result<Response<Envelope>, Status> {
        let (metadata, _, list) = request.into_parts();
        self.answer(metadata, list.requests).await
    }
}

#[tonic::async_trait]
impl JinaDiscoverEndpointsRpc for Wire {
    async fn endpoint_discovery(&self, _: Request<()>) -> Result<Response<EndpointsProto>, Status> {
        Ok(Response::new(self.said.clone()))
    }
}
