//! Methods that ask whether their callers have gone.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use super::*;
use crate::sdk::Cancellation;

/// How long a method works if its callers stay.
const LONG: Duration = Duration::from_secs(20);

/// Works until its callers have gone.
struct Works {
    begun: Sender<usize>,
    ended: Sender<Result<(), Duration>>,
}

impl Executor for Works {
    type With = Map<String, Value>;

    fn load(_: Self::With, _: &LoadContext) -> Result<Self, LoadError> {
        Err(LoadError::new("the test makes it"))
    }

    fn endpoints() -> Endpoints<Self> {
        Endpoints::new().on_batch("/work", Self::work)
    }
}

impl Works {
    fn work(&mut self, docs: &mut [Document], _: &Parameters) -> Result<(), CallError> {
        let (started, cancellation) = (Instant::now(), Cancellation::current());
        self.begun.send(docs.len()).ok();
        while !cancellation.is_cancelled() {
            if docs.iter().any(|doc| doc.text() == "short") || started.elapsed() > LONG {
                self.ended.send(Err(started.elapsed())).ok();
                return Ok(());
            }
            thread::yield_now();
        }
        self.ended.send(Ok(())).ok();
        Err(CallError::cancelled())
    }
}

async fn bench(batching: &Value) -> (Bench, Receiver<usize>, Receiver<Result<(), Duration>>) {
    let (begun, has_begun) = channel();
    let (ended, has_ended) = channel();
    let works = Works { begun, ended };
    let bench = Bench::with(works, batching, Workers::default()).await;
    (bench.unwrap(), has_begun, has_ended)
}

/// Waits on another thread, so that the calls of a test go on meanwhile.
async fn received<T: Send + 'static>(receiver: Receiver<T>) -> (T, Receiver<T>) {
    let waits = tokio::task::spawn_blocking(move || (receiver.recv().unwrap(), receiver));
    waits.await.unwrap()
}

#[tokio::test]
async fn a_method_learns_that_its_caller_has_gone() {
    let (bench, begun, ended) = bench(&json!({})).await;
    tokio::select! {
        _ = bench.call("/work", &["long"]) => panic!("it works until the caller has gone"),
        _ = received(begun) => {}
    }
    assert_eq!(received(ended).await.0, Ok(()));
    // The worker goes on with other calls.
    assert_eq!(bench.call("/work", &["short"]).await, texts(&["short"]));
}

#[tokio::test]
async fn a_shared_call_is_cancelled_when_its_last_caller_has_gone() {
    let together = json!({"/work": {"preferred_batch_size": 2, "timeout": 3_600_000}});
    let (bench, begun, ended) = bench(&together).await;
    let mut first = Box::pin(bench.call("/work", &["a"]));
    let mut second = Box::pin(bench.call("/work", &["b"]));
    let docs = tokio::select! {
        _ = &mut first => panic!("it works until the callers have gone"),
        _ = &mut second => panic!("it works until the callers have gone"),
        (docs, _) = received(begun) => docs,
    };
    assert_eq!(docs, 2, "they share a call");
    drop(first);
    assert!(ended.try_recv().is_err(), "the second caller still waits");
    drop(second);
    assert_eq!(received(ended).await.0, Ok(()));
}
