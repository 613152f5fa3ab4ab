//! The same cases as in `case_table.rs` for the routes of models that do more than make one vector of a text: vectors of tokens,
//! sparse vectors, cosines, labels, and the order of texts.

use std::sync::Arc;
use std::time::Duration;

use flow_core::{Code, Document, ModelInfo, ModelKind, Tensor, discovery};
use flow_gateway::auth::{ApiKeys, KeyEntry, KeyFile};
use flow_proto::Envelope;
use flow_proto::jina::EndpointsProto;
use flow_spec::ModelTarget;
use serde_json::{Map, Value, json};
use tempfile::NamedTempFile;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tonic::{Response, Status};

use crate::behaviour::{failing, no_keys, outcome, permitted, until_cancelled};
use crate::fake_executor::{Answer, Call, FakeExecutor, documents, first};
use crate::http_client::{get, post, request};
use crate::test_gateway::{TestGateway, placement, plan};

/// A route: its path, what it calls a model in this flow, the entries of its reply, and the field of its errors.
#[derive(Debug, Clone, Copy)]
struct Route {
    path: &'static str,
    model: &'static str,
    entries: &'static str,
    error: &'static str,
}

const ROUTES: [Route; 7] = [
    tei("/embed_all", "m"),
    tei("/embed_sparse", "s"),
    tei("/similarity", "m"),
    tei("/predict", "c"),
    tei("/rerank", "r"),
    cohere("/v1/rerank"),
    cohere("/v2/rerank"),
];

const fn tei(path: &'static str, model: &'static str) -> Route {
    Route {
        path,
        model,
        entries: "",
        error: "error_type",
    }
}

const fn cohere(path: &'static str) -> Route {
    Route {
        path,
        model: "r",
        entries: "/results",
        error: "message",
    }
}

impl Route {
    fn body(self, texts: &[&str], model: &str) -> Value {
        match self.path {
            "/similarity" => {
                json!({"inputs": {"source_sentence": "q", "sentences": texts}, "model": model})
            }
            "/predict" => {
                let inputs: Vec<[&str; 1]> = texts.iter().map(|&text| [text]).collect();
                json!({"inputs": inputs, "model": model})
            }
            "/rerank" => json!({"query": "q", "texts": texts, "model": model}),
            "/v1/rerank" | "/v2/rerank" => {
                json!({"query": "q", "documents": texts, "model": model})
            }
            _ => json!({"inputs": texts, "model": model}),
        }
    }

    /// Sends one request: the number of entries that came back, or the error in its shape.
    async fn ask(self, gateway: &TestGateway, texts: &[&str], model: &str) -> String {
        let answer = post(gateway, self.path, &self.body(texts, model)).await;
        let json = answer.json();
        match answer.status {
            200 => {
                let entries = json.pointer(self.entries).and_then(Value::as_array);
                entries.map_or_else(|| format!("200 {json}"), |it| it.len().to_string())
            }
            status if json[self.error].is_null() => format!("{status} {json}"),
            status => format!("{status} {}", self.error),
        }
    }
}

/// Checks a case: what a client of each route sees, in the order of [`ROUTES`].
async fn check(run: impl AsyncFn(Route) -> String, expected: [&str; 7]) {
    let mut found = Vec::new();
    for route in ROUTES {
        found.push(format!("{}: {}", route.path, run(route).await));
    }
    let expected = ROUTES.iter().zip(expected);
    let expected: Vec<String> = expected
        .map(|(route, it)| format!("{}: {it}", route.path))
        .collect();
    assert_eq!(found, expected);
}

/// The same if all routes of TEI see the same, and those of Cohere.
async fn check_both(run: impl AsyncFn(Route) -> String, tei: &str, cohere: &str) {
    check(run, [tei, tei, tei, tei, tei, cohere, cohere]).await;
}

/// An executor with a model of each kind, which computes after `before`.
async fn models<F>(before: impl Fn() -> F + Send + Sync + 'static) -> FakeExecutor
where
    F: Future<Output = Result<(), Status>> + Send + 'static,
{
    let behave = move |call: Call| -> Answer {
        let before = before();
        Box::pin(async move {
            before.await?;
            Ok(computed(call))
        })
    };
    FakeExecutor::describing(offered(), Arc::new(behave)).await
}

async fn ready_models() -> FakeExecutor {
    models(|| std::future::ready(Ok(()))).await
}

fn offered() -> EndpointsProto {
    let models = [
        ("/encode", "m", ModelKind::Embedding),
        ("/sparse", "s", ModelKind::SparseEmbedding),
        ("/classify", "c", ModelKind::Classifier),
        ("/rank", "r", ModelKind::Reranker),
    ];
    let described = models.map(|(endpoint, name, kind)| {
        let info = ModelInfo {
            name: name.to_owned(),
            kind,
            dimensions: 1,
            labels: vec!["good".to_owned()],
            ..ModelInfo::default()
        };
        (endpoint.to_owned(), json!({ discovery::MODEL: info }))
    });
    let endpoints = models.iter().map(|(endpoint, ..)| *endpoint);
    let endpoints = endpoints.chain(["/token_vectors"]);
    EndpointsProto {
        endpoints: endpoints.map(str::to_owned).collect(),
        schemas: Some(flow_core::to_struct(&Map::from_iter(described))),
        ..EndpointsProto::default()
    }
}

fn computed(call: Call) -> Response<Envelope> {
    let mut reply = first(call);
    let header = reply.get_ref().header.clone().unwrap_or_default();
    let endpoint = header.exec_endpoint.unwrap_or_default();
    let mut documents = documents(reply.get_ref());
    for document in &mut documents {
        compute(document, &endpoint);
    }
    reply.get_mut().data = Some(documents.encode());
    reply
}

fn compute(document: &mut Document, endpoint: &str) {
    match endpoint {
        "/token_vectors" => document.set_embedding(&Tensor::matrix(&[1.0, 1.0], 1)),
        "/sparse" => {
            let weights = json!({"indices": [3], "values": [0.5]});
            document.set_tags(&Map::from_iter([("sparse_embedding".to_owned(), weights)]));
        }
        "/from_tokens" => document.set_text("a"),
        "/classify" => document.set_scores([("good", Some(0.5))], ""),
        "/rank" => {
            for found in document.matches_mut().unwrap() {
                found.set_score("relevance", 0.5, "");
            }
        }
        _ => document.set_embedding(&Tensor::vector(&[1.0])),
    }
}

/// A gateway that knows the models of an executor.
async fn start(executor: &FakeExecutor) -> TestGateway {
    let gateway = TestGateway::start(placement(plan(&["node"]), &[executor])).await;
    assert_eq!(get(&gateway, "/v1/models").await.status, 200);
    gateway
}

#[tokio::test]
async fn every_text_of_a_request_gets_its_result() {
    for (texts, count) in [(&["a"][..], "1"), (&["a", "b", "c"], "3")] {
        let run = async |route: Route| {
            let executor = ready_models().await;
            route.ask(&start(&executor).await, texts, route.model).await
        };
        check(run, [count; 7]).await;
    }
}

#[tokio::test]
async fn a_name_of_the_flow_file_chooses_the_endpoint_of_an_executor_that_reports_no_model() {
    let behave = |call: Call| -> Answer { Box::pin(async { Ok(computed(call)) }) };
    let executor = FakeExecutor::offering(&["/mine"], Arc::new(behave)).await;
    let mut plan = plan(&["node"]);
    let target = ModelTarget {
        node: plan.nodes[0].name.clone(),
        endpoint: Some("/mine".to_owned()),
    };
    plan.gateway.models.insert("small".to_owned(), target);
    let gateway = TestGateway::start(placement(plan, &[&executor])).await;
    let body = json!({"input": ["a"], "model": "small"});
    let answer = post(&gateway, "/v1/embeddings", &body).await;
    assert_eq!(
        answer.json()["data"][0]["embedding"],
        json!([1.0]),
        "{answer:?}"
    );
    let header = executor.calls()[0].parts[0].header.clone().unwrap();
    assert_eq!(header.exec_endpoint.as_deref(), Some("/mine"));
}

#[tokio::test]
async fn a_model_that_is_not_there_is_a_404() {
    let run = async |route: Route| {
        let executor = ready_models().await;
        route.ask(&start(&executor).await, &["a"], "nowhere").await
    };
    check_both(run, "404 error_type", "404 message").await;
}

/// What a client sees when the executor fails with this code.
fn failed(code: Code) -> impl AsyncFn(Route) -> String {
    async move |route: Route| {
        let executor = models(failing(code)).await;
        let gateway = start(&executor).await;
        route.ask(&gateway, &["a"], route.model).await
    }
}

#[tokio::test]
async fn a_failure_of_the_executor_is_reported_as_each_api_does() {
    let run = failed(Code::ExecutorFailed);
    check_both(run, "424 error_type", "500 message").await;
}

#[tokio::test]
async fn an_executor_that_is_not_available_is_a_503() {
    let run = failed(Code::Unavailable);
    check_both(run, "503 error_type", "503 message").await;
}

#[tokio::test]
async fn a_call_that_takes_too_long_is_a_504() {
    let run = async |route: Route| {
        let executor = models(std::future::pending).await;
        let mut plan = plan(&["node"]);
        plan.nodes[0].calls.timeout = Some(Duration::from_millis(50));
        let gateway = TestGateway::start(placement(plan, &[&executor])).await;
        assert_eq!(get(&gateway, "/v1/models").await.status, 200);
        route.ask(&gateway, &["a"], route.model).await
    };
    check_both(run, "504 error_type", "504 message").await;
}

#[tokio::test]
async fn a_client_that_leaves_cancels_the_call() {
    let run = async |route: Route| {
        let ended = Arc::new(Semaphore::new(0));
        let executor = models(until_cancelled(&ended)).await;
        let gateway = Arc::new(start(&executor).await);
        let mut client = JoinSet::new();
        let asked = gateway.clone();
        client.spawn(async move { route.ask(&asked, &["a"], route.model).await });
        executor.was_called(1).await;
        client.shutdown().await;
        outcome(&ended).await
    };
    check(run, ["cancelled"; 7]).await;
}

#[tokio::test]
async fn more_texts_than_are_allowed_are_refused_before_the_executor_sees_them() {
    let run = async |route: Route| {
        let executor = ready_models().await;
        let placement = placement(plan(&["node"]), &[&executor]);
        let limit = |config: &mut flow_gateway::Config| {
            config.limits.requests.documents.documents_max = 3;
        };
        let gateway = TestGateway::configured(placement, limit).await;
        assert_eq!(get(&gateway, "/v1/models").await.status, 200);
        let texts = ["a", "b", "c", "d"];
        let said = route.ask(&gateway, &texts, route.model).await;
        format!("{said}, {} calls", executor.calls().len())
    };
    check_both(run, "422 error_type, 0 calls", "400 message, 0 calls").await;
}

#[tokio::test]
async fn a_client_without_a_key_is_refused_in_the_shape_of_its_api() {
    let run = async |route: Route| {
        let executor = ready_models().await;
        let (_file, keys) = no_keys();
        let placement = placement(plan(&["node"]), &[&executor]);
        let gateway = TestGateway::with_keys(placement, keys).await;
        route.ask(&gateway, &["a"], route.model).await
    };
    check_both(run, "401 error_type", "401 message").await;
}

#[tokio::test]
async fn a_request_in_progress_is_answered_while_the_gateway_drains() {
    let run = async |route: Route| {
        let gate = Arc::new(Semaphore::new(0));
        let executor = models(permitted(&gate)).await;
        let gateway = start(&executor).await;
        let drain = async {
            executor.was_called(1).await;
            gateway.drain.begin();
            gate.add_permits(1);
        };
        let ask = route.ask(&gateway, &["a"], route.model);
        let (said, ()) = tokio::join!(ask, drain);
        said
    };
    check(run, ["1"; 7]).await;
}

#[tokio::test]
async fn a_call_of_many_texts_leaves_room_for_others() {
    let gate = Arc::new(Semaphore::new(0));
    let executor = models(permitted(&gate)).await;
    let gateway = start(&executor).await;
    let many = json!({"input": vec!["a"; 640], "model": "m"});
    let other = async {
        // As many pieces as one call may have in progress.
        executor.was_called(4).await;
        let body = json!({"input": ["other"], "model": "m"});
        let answered = post(&gateway, "/v1/embeddings", &body);
        let release = async {
            executor.was_called(5).await;
            let call = &executor.calls()[4];
            let texts: Vec<String> = documents(&call.parts[0])
                .iter()
                .map(Document::text)
                .collect();
            gate.add_permits(100);
            texts
        };
        let (answer, fifth) = tokio::join!(answered, release);
        assert_eq!(answer.status, 200, "{answer:?}");
        fifth
    };
    let (answer, fifth) = tokio::join!(post(&gateway, "/v1/embeddings", &many), other);
    assert_eq!(answer.json()["data"].as_array().unwrap().len(), 640);
    assert_eq!(fifth, ["other"]);
}

#[tokio::test]
async fn token_ids_are_not_decoded_for_a_key_that_may_not_have_their_vectors() {
    let behave = |call: Call| -> Answer { Box::pin(async { Ok(computed(call)) }) };
    let offered = EndpointsProto {
        endpoints: ["/encode", "/from_tokens"].map(str::to_owned).to_vec(),
        ..offered()
    };
    let executor = FakeExecutor::describing(offered, Arc::new(behave)).await;
    let file = NamedTempFile::new().unwrap();
    let every = KeyEntry::new("every", "flow_every");
    let other = KeyEntry {
        endpoints: Some(vec!["/other".to_owned()]),
        ..KeyEntry::new("other", "flow_other")
    };
    let keys = KeyFile {
        keys: vec![every, other],
    };
    std::fs::write(file.path(), keys.to_yaml()).unwrap();
    let keys = ApiKeys {
        file: file.path().to_owned(),
        for_health: false,
    };
    let placement = placement(plan(&["node"]), &[&executor]);
    let gateway = TestGateway::with_keys(placement, keys).await;
    for (name, status, calls) in [("other", 403, 0), ("every", 200, 2)] {
        let bearer = format!("Bearer flow_{name}");
        let headers = [
            ("authorization", &*bearer),
            ("content-type", "application/json"),
        ];
        let body = json!({"input": [[7]], "model": "m"}).to_string();
        let path = "/v1/embeddings";
        let answer = request(&gateway, "POST", path, &headers, body.as_bytes()).await;
        let found = (answer.status, executor.calls().len());
        assert_eq!(found, (status, calls), "{name}: {answer:?}");
    }
}
