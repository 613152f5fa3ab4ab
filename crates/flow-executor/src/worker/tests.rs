//! Requests that share calls, on real threads.

use std::sync::Barrier;

use flow_core::{Code, Document, Failure};
use serde_json::{Map, Value, json};

use super::*;
use crate::admission::Ask;
use crate::batch::Lane;
use crate::directory::{Directory, Overrides};
use crate::reply::Done;
use crate::rules::Written;
use crate::{CallError, DocumentArray, LoadContext, Parameters};

/// Appends to each text how many documents were in its call; a text that begins with `bad` fails the call.
#[derive(Debug, Clone, Default)]
struct Sizes {
    /// Where two calls meet, if they run side by side.
    meeting: Option<Arc<Barrier>>,
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
            .on("/drop", Self::drop_one)
            .on("/meet", Self::meet)
            .weigh_by(|_, doc| doc.text().len())
    }

    fn fork(&self) -> Option<Fork<Self>> {
        self.meeting.as_ref().map(|_| Fork::of(self.clone()))
    }
}

impl Sizes {
    fn drop_one(&mut self, docs: &mut DocumentArray, _: &Parameters) -> Result<(), CallError> {
        docs.retain(|doc| doc.text() != "drop");
        Ok(())
    }

    fn meet(&mut self, _: &mut DocumentArray, _: &Parameters) -> Result<(), CallError> {
        if let Some(meeting) = &self.meeting {
            meeting.wait();
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
    directory: Directory,
}

impl Bench {
    async fn new(batching: Value) -> Self {
        Self::with(Sizes::default(), &batching, Workers::default())
            .await
            .unwrap()
    }

    async fn with(executor: Sizes, batching: &Value, workers: Workers) -> Result<Self, LoadError> {
        let endpoints = Arc::new(Sizes::endpoints());
        let batching = Written::all(batching.as_object().unwrap()).unwrap();
        let overrides = Overrides {
            requests: None,
            batching,
        };
        let directory = Directory::new(&endpoints, &overrides).unwrap();
        let plan = Plan {
            name: "sizes".to_owned(),
            endpoints,
            workers,
            exit: ExitOn::default(),
            meter: None,
        };
        let Worker { admission, loaded } = start(plan, || Ok(executor)).unwrap();
        loaded.await.unwrap()?;
        Ok(Self {
            admission,
            directory,
        })
    }

    async fn call(&self, endpoint: &str, texts: &[&str]) -> Result<Vec<String>, String> {
        let ask = Ask {
            found: self.directory.find(endpoint).unwrap(),
            lane: Lane::default(),
            parameters: Parameters::default(),
            documents: texts.iter().map(|text| Document::from_text(text)).collect(),
            parts: Vec::new(),
        };
        let done: Result<Done, Failure> = self.admission.call(ask).await;
        match done {
            Ok(done) => Ok(done.documents.iter().map(Document::text).collect()),
            Err(failure) => Err(failure.message().to_owned()),
        }
    }
}

fn texts(texts: &[&str]) -> Result<Vec<String>, String> {
    Ok(texts.iter().map(|&text| text.to_owned()).collect())
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
async fn all_that_gathered_goes_in_one_call_with_flush_all() {
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
    let meeting = Arc::new(Barrier::new(2));
    let executor = Sizes {
        meeting: Some(Arc::clone(&meeting)),
    };
    let rule = json!({"/whole": {"timeout": 3_600_000}});
    let bench = Bench::with(executor, &rule, Workers::default());
    let bench = bench.await.unwrap();
    let (_, good, bad, neighbour, _) = tokio::join!(
        // Keeps the worker until all have come.
        bench.call("/meet", &["x"]),
        bench.call("/whole", &["a", "b", "c"]),
        bench.call("/whole", &["d", "bad", "e", "f"]),
        bench.call("/whole", &["g", "h", "i", "j", "k"]),
        async move { meeting.wait() },
    );
    assert_eq!(good, texts(&["a4", "b4", "c4"]));
    assert_eq!(bad, Err("a bad one".to_owned()));
    // Its first document shared the call with the bad one.
    assert_eq!(neighbour, Err("a bad one".to_owned()));
}

#[tokio::test]
async fn a_method_that_can_be_tried_again_fails_the_bad_request_alone() {
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
        "a method that is batched must keep the number of documents: it got 2 and left 1";
    assert_eq!(outcome, Err(expected.to_owned()));
    let plain = Bench::new(json!({})).await;
    assert_eq!(plain.call("/drop", &["a", "drop"]).await, texts(&["a"]));
}

#[tokio::test]
async fn the_executors_own_weights_count_where_they_are_asked_for() {
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
async fn workers_run_calls_side_by_side() {
    let executor = Sizes {
        meeting: Some(Arc::new(Barrier::new(2))),
    };
    let bench = Bench::with(executor, &json!({}), number(2)).await.unwrap();
    // Neither can end before the other has begun.
    let (one, two) = tokio::join!(bench.call("/meet", &["a"]), bench.call("/meet", &["b"]));
    assert_eq!((one, two), (texts(&["a"]), texts(&["b"])));
}

#[tokio::test]
async fn an_executor_that_cannot_be_forked_says_so_unless_the_number_is_its_own() {
    let error = Bench::with(Sizes::default(), &json!({}), number(2)).await;
    let expected = "it works on one thread only, so `workers` cannot be 2; ask for `replicas`, which are processes";
    assert_eq!(error.err().unwrap().to_string(), expected);
    let auto = Bench::with(Sizes::default(), &json!({}), Workers::Auto).await;
    assert_eq!(auto.unwrap().call("/batch", &["a"]).await, texts(&["a1"]));
}

#[tokio::test]
async fn whoever_waits_is_told_when_the_executor_could_not_be_loaded() {
    let plan = Plan {
        name: "sick".to_owned(),
        endpoints: Arc::new(Sizes::endpoints()),
        workers: Workers::default(),
        exit: ExitOn::default(),
        meter: None,
    };
    let directory = Directory::new(&plan.endpoints, &Overrides::default()).unwrap();
    let (go, gone) = std::sync::mpsc::channel::<()>();
    let worker = start(plan, move || {
        assert!(gone.recv().is_err());
        Err::<Sizes, _>(LoadError::new("sick"))
    });
    let Worker { admission, loaded } = worker.unwrap();
    let ask = Ask {
        found: directory.find("/batch").unwrap(),
        lane: Lane::Bulk,
        parameters: Parameters::default(),
        documents: vec![Document::new()],
        parts: Vec::new(),
    };
    let (outcome, loaded, ()) = tokio::join!(admission.call(ask), loaded, async move { drop(go) });
    assert_eq!(outcome.unwrap_err().code(), Code::Unavailable);
    assert_eq!(loaded.unwrap().unwrap_err().to_string(), "sick");
}
