//! Requests as they come from the wire, without the socket.

use std::sync::{Arc, Barrier, Mutex};

use serde::Deserialize;

use super::*;
use crate::directory::Overrides;
use crate::exit::ExitOn;
use crate::worker::{self, Plan};
use crate::{CallError, DocsMatrix, Endpoints, Executor, LoadContext, LoadError, Workers};

/// Notes in which order its calls come.
struct Diary {
    meeting: Arc<Barrier>,
    calls: Arc<Mutex<Vec<String>>>,
}

#[derive(Deserialize)]
struct With {}

impl Executor for Diary {
    type With = With;

    fn load(_: With, _: &LoadContext) -> Result<Self, LoadError> {
        Err(LoadError::new("built by its tests"))
    }

    fn endpoints() -> Endpoints<Self> {
        Endpoints::new()
            .on("/meet", Self::meet)
            .on("/note", Self::note)
            .on_matrix("/join", Self::join)
            .accepts("/note", ["colour"])
    }
}

impl Diary {
    fn meet(&mut self, _: &mut DocumentArray, _: &Parameters) -> Result<(), CallError> {
        self.meeting.wait();
        Ok(())
    }

    fn note(&mut self, docs: &mut DocumentArray, _: &Parameters) -> Result<(), CallError> {
        self.calls.lock().unwrap().push(docs[0].text());
        Ok(())
    }

    /// One document for each part: whose it is, and its texts.
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
    wire: Wire,
    meeting: Arc<Barrier>,
    calls: Arc<Mutex<Vec<String>>>,
}

async fn serve() -> Served {
    let (meeting, calls) = (Arc::new(Barrier::new(2)), Arc::default());
    let endpoints = Arc::new(Diary::endpoints());
    let directory = Directory::new(&endpoints, &Overrides::default()).unwrap();
    let plan = Plan {
        name: "diary".to_owned(),
        endpoints,
        workers: Workers::default(),
        exit: ExitOn::default(),
        meter: None,
    };
    let diary = Diary {
        meeting: Arc::clone(&meeting),
        calls: Arc::clone(&calls),
    };
    let worker = worker::start(plan, move || Ok(diary)).unwrap();
    worker.loaded.await.unwrap().unwrap();
    Served {
        wire: Wire::new("diary".to_owned(), directory, worker.admission, None),
        meeting,
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
    let reply = serve().await.wire.process_data(request).await.unwrap();
    texts(reply.get_ref())
}

#[tokio::test]
async fn a_method_that_is_bound_so_gets_the_parts_of_a_join_apart_and_by_name() {
    assert_eq!(joined("/join").await, ["left:ab", "middle:", "right:c"]);
}

#[tokio::test]
async fn other_methods_get_the_documents_of_all_parts_in_a_row() {
    assert_eq!(joined("/note").await, ["a", "b", "c"]);
    assert_eq!(joined("/nobody").await, ["a", "b", "c"]);
}

#[tokio::test]
async fn one_request_is_a_join_of_one_part() {
    let request = Request::new(envelope("/join", &["a"], "left"));
    let reply = serve()
        .await
        .wire
        .process_single_data(request)
        .await
        .unwrap();
    assert_eq!(texts(reply.get_ref()), ["left:a"]);
}

fn with_priority(text: &str, priority: Option<&'static str>) -> Request<Envelope> {
    let mut request = Request::new(envelope("/note", &[text], "client"));
    if let Some(priority) = priority {
        let value = MetadataValue::from_static(priority);
        request.metadata_mut().insert(PRIORITY, value);
    }
    request
}

#[tokio::test]
async fn interactive_requests_overtake_bulk_ones_that_wait() {
    let served = serve().await;
    let send = |text, priority| {
        served
            .wire
            .process_single_data(with_priority(text, priority))
    };
    let meet = envelope("/meet", &["x"], "client");
    let meeting = Arc::clone(&served.meeting);
    // The first keeps the only worker until all others have come, in this order.
    let replies = tokio::join!(
        served.wire.process_single_data(Request::new(meet)),
        send("bulk 1", Some("bulk")),
        send("bulk 2", Some("bulk")),
        send("interactive 1", None),
        send("interactive 2", Some("interactive")),
        async move { meeting.wait() },
    );
    assert!(replies.4.is_ok());
    let order = served.calls.lock().unwrap().clone();
    assert_eq!(
        order,
        ["interactive 1", "interactive 2", "bulk 1", "bulk 2"]
    );
}

#[tokio::test]
async fn a_priority_that_there_is_not_is_told() {
    let request = with_priority("x", Some("urgent"));
    let reply = serve()
        .await
        .wire
        .process_single_data(request)
        .await
        .unwrap();
    let status = reply.get_ref().header.clone().unwrap().status.unwrap();
    assert_eq!(
        status.description,
        "executor `diary`: `priority` is `interactive` or `bulk`, not `urgent`"
    );
    assert_eq!(status.exception.unwrap().name, "BadRequest");
}

/// A request with a parameter: what is wrong with its reply, and whether the method was called.
async fn with_parameter(name: &str, request: Envelope) -> (String, bool) {
    let parameters = Map::from_iter([(name.to_owned(), "red".into())]);
    let request = Envelope {
        parameters: Some(parameters::from_json(&parameters)),
        ..request
    };
    let served = serve().await;
    let reply = served.wire.process_single_data(Request::new(request)).await;
    let status = reply.unwrap().into_inner().header.unwrap().status;
    let called = !served.calls.lock().unwrap().is_empty();
    (status.unwrap_or_default().description, called)
}

#[tokio::test]
async fn a_client_without_a_gateway_is_told_of_a_parameter_that_is_not_accepted() {
    let direct = |endpoint| Envelope {
        routes: Vec::new(),
        ..envelope(endpoint, &["a"], "")
    };
    let said = "executor `diary`: `/note` accepts no parameter `color`; did you mean `colour`?";
    assert_eq!(
        with_parameter("color", direct("/note")).await,
        (said.to_owned(), false)
    );
    for name in ["colour", "diary__colour", "other__color"] {
        let fine = (String::new(), true);
        assert_eq!(with_parameter(name, direct("/note")).await, fine, "{name}");
    }
    // It does not say what `/join` accepts.
    assert_eq!(with_parameter("color", direct("/join")).await.0, "");
}

#[tokio::test]
async fn a_parameter_that_comes_through_a_gateway_may_be_for_another_executor() {
    let said = with_parameter("color", envelope("/note", &["a"], "left")).await;
    assert_eq!(said, (String::new(), true));
}
