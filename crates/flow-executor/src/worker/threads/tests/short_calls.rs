//! Calls on the threads of their callers.

use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use futures_util::future::join_all;

use super::*;
use crate::sdk::ShortCalls;

/// Sizes of requests whose calls have something in common.
const SHORT: usize = 1;
const HALF_A_MS: usize = 10;
const LONG: usize = 100;

/// More calls than are ever needed until one is known to be short.
const TRIES: usize = 100_000;

/// Says on which thread each call ran: puts its id into the documents.
#[derive(Debug)]
struct Threads(Arc<Barrier>);

impl Executor for Threads {
    type With = Map<String, Value>;

    fn load(_: Self::With, _: &LoadContext) -> Result<Self, LoadError> {
        Ok(Self(Arc::new(Barrier::new(2))))
    }

    fn endpoints() -> Endpoints<Self> {
        Endpoints::new()
            .on("/short", |_: &mut Self, docs, _| say_thread(docs))
            .on("/half", |_: &mut Self, docs, _| {
                busy(Duration::from_micros(500));
                say_thread(docs)
            })
            .on("/long", |_: &mut Self, docs, _| {
                busy(Duration::from_millis(5));
                say_thread(docs)
            })
            .on("/wait", |it: &mut Self, docs, _| {
                it.0.wait();
                say_thread(docs)
            })
            .on_batch("/batch", |_: &mut Self, docs, _| say_thread(docs))
    }

    fn short_calls(&self) -> ShortCalls<Self> {
        ShortCalls::where_read()
    }
}

fn busy(time: Duration) {
    let began = Instant::now();
    while began.elapsed() < time {
        std::hint::spin_loop();
    }
}

fn say_thread(docs: &mut [Document]) -> Result<(), CallError> {
    let count = docs.len();
    for doc in docs {
        doc.set_text(format!("{:?} {count}", thread::current().id()));
    }
    Ok(())
}

/// The thread of a call, and the documents of the call.
async fn ran(bench: &Bench, endpoint: &str, len: usize, documents: usize) -> (String, String) {
    let call = CallRequest {
        id: "1".into(),
        trace: None,
        timing: Timing::default(),
        method: bench.table.find(endpoint).unwrap(),
        parameters: Parameters::default(),
        documents: vec![Document::from_text("x"); documents],
        parts: Vec::new(),
    };
    let class = PriorityClass::default();
    let admitted = bench.admission.admit(class, len).await.unwrap();
    let output = bench.admission.call(admitted, call).await.unwrap();
    let text = output.documents.iter().next().unwrap().text();
    let (thread, count) = text.rsplit_once(' ').unwrap();
    (thread.to_owned(), count.to_owned())
}

fn name(thread: ThreadId) -> String {
    format!("{thread:?}")
}

fn here() -> String {
    name(thread::current().id())
}

async fn bench(batching: Value) -> (Bench, Arc<Barrier>) {
    let barrier = Arc::new(Barrier::new(2));
    let executor = Threads(Arc::clone(&barrier));
    let bench = Bench::with(executor, &batching, Workers::default());
    (bench.await.unwrap(), barrier)
}

/// Calls until a call runs here.
async fn until_here(bench: &Bench, endpoint: &str, len: usize, documents: usize) {
    for _ in 0..TRIES {
        if ran(bench, endpoint, len, documents).await.0 == here() {
            return;
        }
    }
    panic!("none of {TRIES} short calls ran on the thread of its caller");
}

#[tokio::test]
async fn a_call_runs_here_once_it_is_known_to_be_short() {
    let (bench, _) = bench(json!({})).await;
    assert_ne!(ran(&bench, "/short", SHORT, 1).await.0, here());
    until_here(&bench, "/short", SHORT, 1).await;
    // Nothing is known of other methods and sizes.
    assert_ne!(ran(&bench, "/half", SHORT, 1).await.0, here());
    assert_ne!(ran(&bench, "/short", LONG, 1).await.0, here());
}

#[tokio::test]
async fn a_long_call_runs_on_the_worker() {
    let (bench, _) = bench(json!({})).await;
    for _ in 0..20 {
        assert_ne!(ran(&bench, "/long", LONG, 1).await.0, here());
    }
}

#[tokio::test]
async fn calls_that_take_long_together_wake_the_worker() {
    let (bench, _) = bench(json!({})).await;
    until_here(&bench, "/half", HALF_A_MS, 1).await;
    let calls = (0..20).map(|_| ran(&bench, "/half", HALF_A_MS, 1));
    let threads = join_all(calls).await;
    assert!(threads.iter().any(|(thread, _)| *thread != here()));
}

#[tokio::test]
async fn a_call_waits_for_others_here_as_on_the_worker() {
    let rule = json!({"/batch": {"preferred_batch_size": 4, "timeout": 3_600_000}});
    let (bench, _) = bench(rule).await;
    until_here(&bench, "/batch", SHORT, 4).await;
    let (first, second) = tokio::join!(
        ran(&bench, "/batch", SHORT, 2),
        ran(&bench, "/batch", SHORT, 2)
    );
    assert_eq!((first.1.as_str(), second.1.as_str()), ("4", "4"));
}

#[tokio::test]
async fn a_short_call_waits_while_the_worker_uses_the_executor() {
    let (bench, barrier) = bench(json!({})).await;
    until_here(&bench, "/short", SHORT, 1).await;
    let (waited, _short, _) = tokio::join!(
        ran(&bench, "/wait", SHORT, 1),
        ran(&bench, "/short", SHORT, 1),
        async move { barrier.wait() },
    );
    assert_ne!(waited.0, here());
}

#[tokio::test]
async fn a_call_that_is_dropped_before_it_runs_leaves_nothing_behind() {
    let (bench, _) = bench(json!({})).await;
    until_here(&bench, "/short", SHORT, 1).await;
    let usage = bench.admission.usage();
    assert!(
        ran(&bench, "/short", SHORT, 1).now_or_never().is_none(),
        "others would have been decoded first"
    );
    // The worker has to find out that it was dropped.
    ran(&bench, "/long", LONG, 1).await;
    assert_eq!(usage.requests(), 0);
}
