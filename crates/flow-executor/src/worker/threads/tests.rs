//! Requests that share calls, on real threads.

mod cancellation;
mod short_calls;

use std::sync::{Barrier, Mutex};

use flow_core::{Code, Document, Failure};
use futures_util::FutureExt;
use serde_json::{Map, Value, json};

use super::*;
use crate::DocumentArray;
use crate::definition::Definition;
use crate::endpoint_table::{BatchingOverride, EndpointOverrides, EndpointTable};
use crate::queue::{CallOutput, CallRequest, PriorityClass, Timing};
use crate::sdk::{CallError, Executor, LoadContext, Parameters, Tokens};

/// Appends to each text how many documents were in its call; a text that begins with `bad` fails the call.
#[derive(Debug, Clone, Default)]
struct Sizes {
    /// A barrier at which two calls wait for each other.
    barrier: Option<Arc<Barrier>>,
}

impl Executor for Sizes {
    type With = Map<String, Value>;

    fn load(_: Self::With, _: &LoadContext) -> Result<Self, LoadError> {
        Ok(Self::default())
    }

    fn endpoints() -> Endpoints<Self> {
        Endpoints::new()
            .on("/whole", |_: &mut Self, docs, _| mark(docs))
            .on_batch("/batch", |_: &mut Self, docs, _| mark(docs))
            .on_batch("/count", Self::count)
            .on("/drop", Self::drop_one)
            .on("/wait", Self::wait)
            .weigh_by(|_, doc| doc.text().len())
    }

    fn fork(&self) -> Option<Fork<Self>> {
        self.barrier.as_ref().map(|_| Fork::of(self.clone()))
    }
}

impl Sizes {
    fn drop_one(&mut self, docs: &mut DocumentArray, _: &Parameters) -> Result<(), CallError> {
        docs.retain(|doc| doc.text() != "drop");
        Ok(())
    }

    /// As many tokens as letters; one number is missing if there is a text `lost`.
    fn count(&mut self, docs: &mut [Document], _: &Parameters) -> Result<Tokens, CallError> {
        let texts = docs.iter().map(Document::text);
        let counted = texts.filter(|text| text != "lost");
        Ok(counted.map(|text| text.len()).collect())
    }

    fn wait(&mut self, _: &mut DocumentArray, _: &Parameters) -> Result<(), CallError> {
        if let Some(barrier) = &self.barrier {
            barrier.wait();
        }
        Ok(())
    }
}

fn mark(docs: &mut [Document]) -> Result<(), CallError> {
    let size = docs.len();
    for doc in docs {
        match doc.text().as_str() {
            "bad" => return Err(CallError::new("a bad one")),
            text => doc.set_text(format!("{text}{size}")),
        }
    }
    Ok(())
}

/// Workers whose endpoints are batched as `batching` says.
struct Bench {
    admission: Admission,
    table: EndpointTable,
}

impl Bench {
    async fn new(batching: Value) -> Self {
        Self::with(Sizes::default(), &batching, Workers::default())
            .await
            .unwrap()
    }

    async fn with<E: Executor + Send>(
        executor: E,
        batching: &Value,
        workers: Workers,
    ) -> Result<Self, LoadError> {
        let endpoints = Arc::new(E::endpoints());
        let batching = BatchingOverride::all(batching.as_object().unwrap()).unwrap();
        let overrides = EndpointOverrides {
            requests: None,
            batching,
        };
        let table = EndpointTable::new(&endpoints, &overrides).unwrap();
        let config = WorkerConfig {
            name: "sizes".to_owned(),
            endpoints,
            hooks: Definition::<E>::of().hooks,
            workers,
            request_memory_max: usize::MAX,
            exit: ExitPolicy::default(),
            metrics: None,
        };
        let StartedWorkers { admission, loaded } = start(config, || Ok(executor)).unwrap();
        loaded.await.unwrap()?;
        Ok(Self { admission, table })
    }

    async fn call(&self, endpoint: &str, texts: &[&str]) -> Result<Vec<String>, String> {
        let call = CallRequest {
            id: "1".into(),
            trace: None,
            timing: Timing::default(),
            method: self.table.find(endpoint).unwrap(),
            parameters: Parameters::default(),
            documents: texts.iter().map(|text| Document::from_text(text)).collect(),
            parts: Vec::new(),
        };
        match called(&self.admission, call).await {
            Ok(output) => Ok(output.documents.iter().map(Document::text).collect()),
            Err(failure) => Err(failure.message().to_owned()),
        }
    }
}

impl Bench {
    /// The tokens that are reported for a request.
    async fn tokens(&self, texts: &[&str]) -> Result<Option<u64>, String> {
        let call = CallRequest {
            id: "1".into(),
            trace: None,
            timing: Timing::default(),
            method: self.table.find("/count").unwrap(),
            parameters: Parameters::default(),
            documents: texts.iter().map(|text| Document::from_text(text)).collect(),
            parts: Vec::new(),
        };
        let output = called(&self.admission, call).await;
        output
            .map(|output| output.usage.map(|it| it.tokens))
            .map_err(|failure| failure.message().to_owned())
    }
}

async fn called(admission: &Admission, call: CallRequest) -> Result<CallOutput, Failure> {
    let admitted = admission.admit(PriorityClass::default(), 0).await?;
    admission.call(admitted, call).await
}

fn texts(texts: &[&str]) -> Result<Vec<String>, String> {
    Ok(texts.iter().map(|&text| text.to_owned()).collect())
}

#[tokio::test]
async fn each_request_of_a_shared_call_gets_the_tokens_of_its_own_documents() {
    let together = json!({"/count": {"preferred_batch_size": 3, "timeout": 3_600_000}});
    let bench = Bench::new(together).await;
    let (two, one) = tokio::join!(bench.tokens(&["a", "bb"]), bench.tokens(&["ccc"]));
    assert_eq!((two, one), (Ok(Some(3)), Ok(Some(3))));
}

#[tokio::test]
async fn a_method_that_reports_too_few_numbers_of_tokens_fails_its_call() {
    let bench = Bench::new(json!({})).await;
    assert_eq!(bench.tokens(&["a", "bb"]).await, Ok(Some(3)));
    let error = bench.tokens(&["a", "lost"]).await.unwrap_err();
    assert!(error.contains("got 2 documents and reported 1"), "{error}");
}

#[tokio::test]
async fn a_request_may_span_calls_and_is_answered_with_its_last_document() {
    for endpoint in ["/whole", "/batch"] {
        let bench = Bench::new(json!({endpoint: {"timeout": 3_600_000}})).await;
        // The first of them waits for the second; `join!` lets them in in this order.
        let (three, six) = tokio::join!(
            bench.call(endpoint, &["a", "b", "c"]),
            bench.call(endpoint, &["d", "e", "f", "g", "h", "i"]),
        );
        assert_eq!(three, texts(&["a4", "b4", "c4"]));
        assert_eq!(six, texts(&["d4", "e4", "f4", "g4", "h4", "i1"]));
    }
}

#[tokio::test]
async fn everything_that_waits_goes_in_one_call_with_flush_all() {
    let rule = json!({"/whole": {"timeout": 3_600_000, "flush_all": true}});
    let bench = Bench::new(rule).await;
    let (three, six) = tokio::join!(
        bench.call("/whole", &["a", "b", "c"]),
        bench.call("/whole", &["d", "e", "f", "g", "h", "i"]),
    );
    assert_eq!(three, texts(&["a9", "b9", "c9"]));
    assert_eq!(six.unwrap().last().unwrap(), "i9");
}

#[tokio::test]
async fn a_call_that_fails_fails_only_requests_that_have_documents_in_it() {
    let barrier = Arc::new(Barrier::new(2));
    let executor = Sizes {
        barrier: Some(Arc::clone(&barrier)),
    };
    let rule = json!({"/whole": {"timeout": 3_600_000}});
    let bench = Bench::with(executor, &rule, Workers::default());
    let bench = bench.await.unwrap();
    let (_, good, bad, neighbour, _) = tokio::join!(
        // Keeps the worker until all have come.
        bench.call("/wait", &["x"]),
        bench.call("/whole", &["a", "b", "c"]),
        bench.call("/whole", &["d", "bad", "e", "f"]),
        bench.call("/whole", &["g", "h", "i", "j", "k"]),
        async move { barrier.wait() },
    );
    assert_eq!(good, texts(&["a4", "b4", "c4"]));
    assert_eq!(bad, Err("a bad one".to_owned()));
    // Its first document shared the call with the bad one.
    assert_eq!(neighbour, Err("a bad one".to_owned()));
}

#[tokio::test]
async fn requests_of_a_failed_batch_are_tried_alone() {
    let bench = Bench::new(json!({"/batch": {"timeout": 3_600_000}})).await;
    let (bad, neighbour) = tokio::join!(
        bench.call("/batch", &["a", "bad", "b"]),
        bench.call("/batch", &["c"]),
    );
    assert_eq!(bad, Err("a bad one".to_owned()));
    assert_eq!(neighbour, texts(&["c1"]));
}

#[tokio::test]
async fn the_number_of_documents_must_stay_as_it_is() {
    let bench = Bench::new(json!({"/drop": {"timeout": 0}})).await;
    let outcome = bench.call("/drop", &["a", "drop"]).await;
    let expected =
        "a method that is batched must keep the number of documents: it got 2 and returned 1";
    assert_eq!(outcome, Err(expected.to_owned()));
    let plain = Bench::new(json!({})).await;
    assert_eq!(plain.call("/drop", &["a", "drop"]).await, texts(&["a"]));
}

#[tokio::test]
async fn the_executors_own_weights_count_with_a_custom_metric() {
    let rule = json!({"/batch": {"timeout": 3_600_000, "use_custom_metric": true}});
    let bench = Bench::new(rule).await;
    let (one, two) = tokio::join!(
        bench.call("/batch", &["ab"]),
        bench.call("/batch", &["cd", "efgh"]),
    );
    assert_eq!(one, texts(&["ab2"]));
    assert_eq!(two, texts(&["cd2", "efgh1"]));
}

#[tokio::test]
async fn without_a_setting_nothing_waits() {
    let bench = Bench::new(json!({})).await;
    assert_eq!(bench.call("/batch", &["a"]).await, texts(&["a1"]));
    assert_eq!(
        bench.call("/whole", &["a", "b"]).await,
        texts(&["a2", "b2"])
    );
    assert_eq!(bench.call("/batch", &[]).await, texts(&[]));
}

fn number(workers: u16) -> Workers {
    Workers::Number(workers.try_into().unwrap())
}

#[tokio::test]
async fn workers_run_calls_in_parallel() {
    let executor = Sizes {
        barrier: Some(Arc::new(Barrier::new(2))),
    };
    let bench = Bench::with(executor, &json!({}), number(2)).await.unwrap();
    // Neither can end before the other has begun.
    let (one, two) = tokio::join!(bench.call("/wait", &["a"]), bench.call("/wait", &["b"]));
    assert_eq!((one, two), (texts(&["a"]), texts(&["b"])));
}

#[tokio::test]
async fn a_number_of_workers_fails_without_forks_and_auto_uses_one() {
    let error = Bench::with(Sizes::default(), &json!({}), number(2)).await;
    let expected = "it works on one thread only, so `workers` cannot be 2; use `replicas`, which are processes";
    assert_eq!(error.err().unwrap().to_string(), expected);
    let auto = Bench::with(Sizes::default(), &json!({}), Workers::Auto).await;
    assert_eq!(auto.unwrap().call("/batch", &["a"]).await, texts(&["a1"]));
}

#[tokio::test]
async fn waiting_calls_fail_when_the_executor_cannot_be_loaded() {
    let config = WorkerConfig {
        name: "sick".to_owned(),
        endpoints: Arc::new(Sizes::endpoints()),
        hooks: Definition::<Sizes>::of().hooks,
        workers: Workers::default(),
        request_memory_max: usize::MAX,
        exit: ExitPolicy::default(),
        metrics: None,
    };
    let table = EndpointTable::new(&config.endpoints, &EndpointOverrides::default()).unwrap();
    let (go, gone) = std::sync::mpsc::channel::<()>();
    let worker = start(config, move || {
        assert!(gone.recv().is_err());
        Err::<Sizes, _>(LoadError::new("sick"))
    });
    let StartedWorkers { admission, loaded } = worker.unwrap();
    let call = CallRequest {
        id: "1".into(),
        trace: None,
        timing: Timing::default(),
        method: table.find("/batch").unwrap(),
        parameters: Parameters::default(),
        documents: vec![Document::new()],
        parts: Vec::new(),
    };
    let (outcome, loaded, ()) =
        tokio::join!(called(&admission, call), loaded, async move { drop(go) });
    assert_eq!(outcome.unwrap_err().code(), Code::Unavailable);
    assert_eq!(loaded.unwrap().unwrap_err().to_string(), "sick");
}

/// Records the texts of each call, and fails calls with several documents after two waits at its barrier.
#[derive(Debug)]
struct FailsTogether {
    barrier: Arc<Barrier>,
    calls: Arc<Mutex<Vec<Vec<String>>>>,
}

impl Executor for FailsTogether {
    type With = Map<String, Value>;

    fn load(_: Self::With, _: &LoadContext) -> Result<Self, LoadError> {
        Err(LoadError::new("made by its test"))
    }

    fn endpoints() -> Endpoints<Self> {
        Endpoints::new().on_batch("/batch", |this: &mut Self, docs, _| {
            let texts = docs.iter().map(Document::text).collect();
            this.calls.lock().unwrap().push(texts);
            match docs.len() {
                1 => Ok(()),
                _ => {
                    this.barrier.wait();
                    this.barrier.wait();
                    Err(CallError::new("not together"))
                }
            }
        })
    }
}

#[tokio::test]
async fn a_request_whose_caller_has_gone_is_not_tried_alone() {
    let (barrier, calls) = (Arc::new(Barrier::new(2)), Arc::<Mutex<_>>::default());
    let executor = FailsTogether {
        barrier: barrier.clone(),
        calls: calls.clone(),
    };
    let rule = json!({"/batch": {"timeout": 3_600_000, "preferred_batch_size": 2}});
    let bench = Bench::with(executor, &rule, Workers::default());
    let bench = bench.await.unwrap();
    let mut gone = Box::pin(bench.call("/batch", &["gone"]));
    let mut stays = Box::pin(bench.call("/batch", &["stays"]));
    assert!(gone.as_mut().now_or_never().is_none());
    assert!(stays.as_mut().now_or_never().is_none());
    // Both are in the batch now.
    barrier.wait();
    drop(gone);
    barrier.wait();
    assert_eq!(stays.await, texts(&["stays"]));
    let calls = calls.lock().unwrap().clone();
    assert_eq!(calls, [vec!["gone", "stays"], vec!["stays"]]);
}
