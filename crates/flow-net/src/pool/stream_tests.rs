//! Streams of documents that are tried again on another replica, until the first document.

use std::pin::Pin;
use std::sync::atomic::AtomicUsize;

use flow_core::Deadline;
use futures_util::StreamExt;
use tokio::task::JoinSet;
use tonic::{Request, Response, Status};

use super::*;
use crate::grpc::jina_single_document_request_rpc_server::{
    JinaSingleDocumentRequestRpc, JinaSingleDocumentRequestRpcServer,
};
use crate::{Drain, GrpcService, Limits, Listener, Server};

/// What an executor does with a request.
#[derive(Debug, Clone, Copy)]
enum Behaviour {
    /// It is not ready.
    Refuses,
    /// It sends a document and fails.
    FailsAfterOne,
    /// It sends two documents.
    SendsTwo,
}

/// An executor that makes documents.
#[derive(Debug, Clone)]
struct Generator {
    behaviour: Behaviour,
    calls: Arc<AtomicUsize>,
}

type Documents =
    Pin<Box<dyn futures_util::Stream<Item = Result<SingleDocumentRequestProto, Status>> + Send>>;

#[tonic::async_trait]
#[allow(
    non_camel_case_types,
    reason = "the generated trait has the names of the proto file"
)]
impl JinaSingleDocumentRequestRpc for Generator {
    type stream_docStream = Documents;

    async fn stream_doc(
        &self,
        request: Request<SingleDocumentRequestProto>,
    ) -> Result<Response<Documents>, Status> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let document = request.into_inner();
        let replies = match self.behaviour {
            // With the trailer that says that it did not run.
            Behaviour::Refuses => {
                let failure = Failure::new(Code::Unavailable, "it is starting");
                return Err(crate::status::from_failure(&failure));
            }
            Behaviour::FailsAfterOne => vec![Ok(document), Err(Status::unavailable("it stops"))],
            Behaviour::SendsTwo => vec![Ok(document.clone()), Ok(document)],
        };
        Ok(Response::new(Box::pin(stream::iter(replies))))
    }
}

/// A pool of executors, how often each was called, and their tasks.
async fn pool(behaviours: &[Behaviour]) -> (Pool, Vec<Arc<AtomicUsize>>, JoinSet<()>) {
    let mut servers = JoinSet::new();
    let mut replicas = Vec::new();
    let mut calls = Vec::new();
    for behaviour in behaviours {
        let listener = Listener::bind("127.0.0.1", 0).await.unwrap();
        let uri = format!("http://{}", listener.local_addr());
        replicas.push(Arc::new(Replica::new(&uri, Limits::default()).unwrap()));
        let generator = Generator {
            behaviour: *behaviour,
            calls: Arc::default(),
        };
        calls.push(generator.calls.clone());
        let service = JinaSingleDocumentRequestRpcServer::new(generator);
        let routes = crate::GrpcRoutes::new(service);
        servers.spawn(async move {
            let server = Server::new(listener, GrpcService::new(routes));
            server.serve(&Drain::new(Duration::ZERO), async {}).await;
        });
    }
    let pool = Pool::new(replicas, Policy::default(), Metadata::new());
    (pool, calls, servers)
}

/// Whether each document of a stream came, up to its end.
async fn received(pool: &Pool) -> Vec<Result<(), Code>> {
    let options = CallOptions {
        deadline: Deadline::after(Instant::now(), Some(Duration::from_secs(30))),
        ..CallOptions::default()
    };
    let request = SingleDocumentRequestProto::default();
    let documents = pool.stream(&request, &options).await.unwrap();
    let documents = documents.map(|it| it.map(drop).map_err(|failure| failure.code()));
    documents.collect().await
}

#[tokio::test]
async fn a_stream_that_is_refused_is_opened_at_another_replica() {
    let (pool, calls, _servers) = pool(&[Behaviour::Refuses, Behaviour::SendsTwo]).await;
    // Of two streams, one begins at each replica.
    for _ in 0..2 {
        assert_eq!(received(&pool).await, [Ok(()), Ok(())]);
    }
    let calls: Vec<usize> = calls.iter().map(|it| it.load(Ordering::Relaxed)).collect();
    assert!(1 <= calls[0], "the first one was not asked: {calls:?}");
    assert_eq!(calls[1], 2);
}

#[tokio::test]
async fn a_stream_that_has_begun_is_not_opened_again() {
    let (pool, calls, _servers) = pool(&[Behaviour::FailsAfterOne]).await;
    let received = received(&pool).await;
    assert!(
        matches!(received.as_slice(), [Ok(()), Err(_)]),
        "{received:?}"
    );
    assert_eq!(calls[0].load(Ordering::Relaxed), 1);
}
