//! Decoded requests, without a socket.

use std::sync::{Arc, Barrier, Mutex};

use serde::Deserialize;

use flow_core::Workers;
use flow_net::RequestThread;
use flow_proto::jina::RouteProto;
use futures_util::FutureExt;

use super::*;
use crate::definition::Definition;
use crate::endpoint_table::EndpointOverrides;
use crate::sdk::{CallError, DocsMatrix, Endpoints, Executor, LoadContext, LoadError};
use crate::worker::{self, ExitPolicy, WorkerConfig};

/// Records the order of its calls.
struct Recorder {
    barrier: Arc<Barrier>,
    calls: Arc<Mutex<Vec<String>>>,
}

#[derive(Deserialize)]
struct With {}

impl Executor for Recorder {
    type With = With;

    fn load(_: With, _: &LoadContext) -> Result<Self, LoadError> {
        Err(LoadError::new("built by its tests"))
    }

    fn endpoints() -> Endpoints<Self> {
        Endpoints::new()
            .on("/wait", Self::wait)
            .on("/record", Self::record)
            .on_matrix("/join", Self::join)
            .accepts("/record", ["colour"])
    }
}

impl Recorder {
    fn wait(&mut self, _: &mut DocumentArray, _: &Parameters) -> Result<(), CallError> {
        self.barrier.wait();
        Ok(())
    }

    fn record(&mut self, docs: &mut DocumentArray, _: &Parameters) -> Result<(), CallError> {
        self.calls.lock().unwrap().push(docs[0].text());
        Ok(())
    }

    /// One document for each part: its name and texts.
    fn join(&mut self, parts: DocsMatrix, _: &Parameters) -> Result<DocumentArray, CallError> {
        let names: Vec<String> = parts.by_name().map(|(name, _)| name.to_owned()).collect();
        let said = names.iter().zip(parts.into_parts()).map(|(name, docs)| {
            let texts: String = docs.iter().map(Document::text).collect();
            Document::from_text(&format!("{name}:{texts}"))
        });
        Ok(said.collect())
    }
}

struct Served {
    service: JinaService,
    _thread: RequestThread,
    barrier: Arc<Barrier>,
    calls: Arc<Mutex<Vec<String>>>,
}

async fn serve() -> Served {
    serve_with(usize::MAX).await
}

async fn serve_with(request_memory_max: usize) -> Served {
    let (barrier, calls) = (Arc::new(Barrier::new(2)), Arc::default());
    let endpoints = Arc::new(Recorder::endpoints());
    let table = EndpointTable::new(&endpoints, &EndpointOverrides::default()).unwrap();
    let config = WorkerConfig {
        name: "recorder".to_owned(),
        endpoints,
        hooks: Definition::<Recorder>::of().hooks,
        workers: Workers::default(),
        request_memory_max,
        exit: ExitPolicy::default(),
        metrics: None,
    };
    let recorder = Recorder {
        barrier: Arc::clone(&barrier),
        calls: Arc::clone(&calls),
    };
    let worker = worker::start(config, move || Ok(recorder)).unwrap();
    worker.loaded.await.unwrap().unwrap();
    let thread = RequestThread::start().unwrap();
    Served {
        service: JinaService::new(ServiceParts {
            tracer: None,
            name: "recorder".to_owned(),
            endpoints: table,
            admission: worker.admission,
            metrics: None,
            limits: RequestLimits::default(),
            spawner: thread.spawner(),
        }),
        _thread: thread,
        barrier,
        calls,
    }
}

fn envelope(endpoint: &str, texts: &[&str], from: &str) -> Envelope {
    let documents: DocumentArray = texts.iter().map(|text| Document::from_text(text)).collect();
    let routes = ["gateway", from].map(|executor| RouteProto {
        executor: executor.to_owned(),
        ..RouteProto::default()
    });
    Envelope {
        header: Some(HeaderProto {
            exec_endpoint: Some(endpoint.to_owned()),
            ..HeaderProto::default()
        }),
        data: Some(documents.encode()),
        routes: routes.into(),
        ..Envelope::default()
    }
}

fn texts(reply: &Envelope) -> Vec<String> {
    let documents = DocumentArray::decode(reply.data.as_ref().unwrap()).unwrap();
    documents.iter().map(Document::text).collect()
}

async fn joined(endpoint: &str) -> Vec<String> {
    let requests = vec![
        envelope(endpoint, &["a", "b"], "left"),
        envelope(endpoint, &[], "middle"),
        envelope(endpoint, &["c"], "right"),
    ];
    let request = Request::new(DataRequestListProto { requests });
    let reply = serve().await.service.process_data(request).await.unwrap();
    texts(reply.get_ref())
}

#[tokio::test]
async fn a_matrix_method_gets_the_parts_of_a_join_separately_and_by_name() {
    assert_eq!(joined("/join").await, ["left:ab", "middle:", "right:c"]);
}

#[tokio::test]
async fn other_methods_get_the_documents_of_all_parts_one_after_another() {
    assert_eq!(joined("/record").await, ["a", "b", "c"]);
    assert_eq!(joined("/nobody").await, ["a", "b", "c"]);
}

#[tokio::test]
async fn one_request_is_a_join_of_one_part() {
    let request = Request::new(envelope("/join", &["a"], "left"));
    let reply = serve()
        .await
        .service
        .process_single_data(request)
        .await
        .unwrap();
    assert_eq!(texts(reply.get_ref()), ["left:a"]);
}

#[tokio::test]
async fn a_request_is_not_decoded_before_it_is_admitted() {
    let served = serve_with(2 * 1024).await;
    let bytes = |len| Envelope {
        data: Some(vec![0xff; len].into()),
        ..envelope("/record", &[], "client")
    };
    let admission = &served.service.0.parts.admission;
    let other = admission
        .admit(crate::queue::PriorityClass::Interactive, 1024)
        .await;
    let request = served.service.process_single_data(Request::new(bytes(8)));
    let mut request = std::pin::pin!(request);
    // Bytes that are not documents are an error, as soon as they are decoded.
    assert!(request.as_mut().now_or_never().is_none());
    drop(other);
    let reply = request.await.unwrap().into_inner();
    let failure = reply.header.unwrap().status.unwrap().description;
    assert!(
        failure.contains("is not a valid protobuf message"),
        "{failure}"
    );
}

/// The failure of a request with this `data` and these parameters, as the exception's name and the message.
async fn refused(data: Vec<u8>, parameters: usize) -> [String; 2] {
    let request = Envelope {
        data: Some(data.into()),
        parameters: Some(vec![0; parameters].into()),
        ..envelope("/record", &[], "client")
    };
    let served = serve().await;
    let reply = served.service.process_single_data(Request::new(request));
    let status = reply
        .await
        .unwrap()
        .into_inner()
        .header
        .unwrap()
        .status
        .unwrap();
    assert!(served.calls.lock().unwrap().is_empty());
    [status.exception.unwrap().name, status.description]
}

/// Field `number` of a message.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut field = vec![number << 3 | 2];
    prost::encoding::encode_varint(content.len() as u64, &mut field);
    [field, content.to_vec()].concat()
}

#[tokio::test]
async fn documents_that_are_nested_too_deep_are_refused() {
    const CHUNKS: u8 = 14;
    let deep = (0..100).fold(Vec::new(), |document, _| field(CHUNKS, &document));
    let [name, message] = refused(field(1, &field(1, &deep)), 0).await;
    assert_eq!(name, "BadRequest");
    assert!(
        message.contains("nested more than 64 levels deep"),
        "{message}"
    );
}

#[tokio::test]
async fn too_many_documents_are_refused() {
    let documents = field(1, &[]).repeat(250_001);
    let [name, message] = refused(field(1, &documents), 0).await;
    assert_eq!(name, "BadRequest");
    assert!(message.contains("more than 250000 documents"), "{message}");
}

#[tokio::test]
async fn parameters_that_are_too_long_are_refused() {
    let [name, message] = refused(Vec::new(), (1 << 20) + 1).await;
    assert_eq!(name, "BadRequest");
    assert!(
        message.contains("`parameters` has 1048577 bytes"),
        "{message}"
    );
}

fn with_priority(text: &str, priority: Option<&'static str>) -> Request<Envelope> {
    let mut request = Request::new(envelope("/record", &[text], "client"));
    if let Some(priority) = priority {
        let value = tonic::metadata::MetadataValue::from_static(priority);
        request.metadata_mut().insert("priority", value);
    }
    request
}

#[tokio::test]
async fn interactive_requests_overtake_bulk_ones_that_wait() {
    let served = serve().await;
    let send = |text, priority| {
        served
            .service
            .process_single_data(with_priority(text, priority))
    };
    let wait = envelope("/wait", &["x"], "client");
    let barrier = Arc::clone(&served.barrier);
    // The first keeps the only worker busy until all others have arrived, in this order.
    let replies = tokio::join!(
        served.service.process_single_data(Request::new(wait)),
        send("bulk 1", Some("bulk")),
        send("bulk 2", Some("bulk")),
        send("interactive 1", None),
        send("interactive 2", Some("interactive")),
        async move { barrier.wait() },
    );
    assert!(replies.4.is_ok());
    let order = served.calls.lock().unwrap().clone();
    assert_eq!(
        order,
        ["interactive 1", "interactive 2", "bulk 1", "bulk 2"]
    );
}

#[tokio::test]
async fn an_unknown_priority_is_an_error() {
    let request = with_priority("x", Some("urgent"));
    let reply = serve()
        .await
        .service
        .process_single_data(request)
        .await
        .unwrap();
    let status = reply.get_ref().header.clone().unwrap().status.unwrap();
    assert_eq!(
        status.description,
        "executor `recorder`: `priority` must be `interactive` or `bulk`, is `urgent`"
    );
    assert_eq!(status.exception.unwrap().name, "BadRequest");
}

/// Sends a request with a parameter. Returns the error of its reply, and whether the method was called.
async fn with_parameter(name: &str, request: Envelope) -> (String, bool) {
    let parameters = Map::from_iter([(name.to_owned(), "red".into())]);
    let request = Envelope {
        parameters: Some(parameters::from_json(&parameters)),
        ..request
    };
    let served = serve().await;
    let reply = served
        .service
        .process_single_data(Request::new(request))
        .await;
    let status = reply.unwrap().into_inner().header.unwrap().status;
    let called = !served.calls.lock().unwrap().is_empty();
    (status.unwrap_or_default().description, called)
}

#[tokio::test]
async fn a_parameter_that_is_not_accepted_is_refused_without_a_gateway() {
    let direct = |endpoint| Envelope {
        routes: Vec::new(),
        ..envelope(endpoint, &["a"], "")
    };
    let said =
        "executor `recorder`: `/record` accepts no parameter `color`; did you mean `colour`?";
    assert_eq!(
        with_parameter("color", direct("/record")).await,
        (said.to_owned(), false)
    );
    for name in ["colour", "recorder__colour", "other__color"] {
        let fine = (String::new(), true);
        assert_eq!(
            with_parameter(name, direct("/record")).await,
            fine,
            "{name}"
        );
    }
    // The parameters of `/join` are not declared.
    assert_eq!(with_parameter("color", direct("/join")).await.0, "");
}

#[tokio::test]
async fn a_parameter_from_a_gateway_may_be_for_another_executor() {
    let said = with_parameter("color", envelope("/record", &["a"], "left")).await;
    assert_eq!(said, (String::new(), true));
}
