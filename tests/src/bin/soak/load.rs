//! Requests on a timetable: each leaves when it is due, whatever happened to those before it.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use crate::account::Class;
use crate::bulk;
use crate::grpc::{Streams, Unary};
use crate::http::Http;
use crate::run::Run;

/// Requests a second, without bulk.
const RATE: u32 = 200;

/// How the requests of a tenth of a second are sent.
const CLASSES: [Class; 20] = {
    use Class::{Grpc as G, Http as H, Stream as S};
    [G, S, H, G, S, H, G, S, H, G, S, H, G, S, H, G, S, H, G, G]
};

/// Connections over HTTP/1.1, on each of which one request is in progress; more are made while all are busy.
const HTTP_CONNECTIONS: usize = 8;

/// Milliseconds for which the executor `work` works on a call.
const WORK_MS: &str = "2";

/// The texts of a request: what `work` reads, the id, and as many others as are asked for.
pub(crate) fn texts(id: &str, others: usize) -> Vec<&str> {
    let mut texts = vec![WORK_MS, id];
    texts.extend(std::iter::repeat_n("some words of a longer text", others));
    texts
}

/// Sends requests until the run is over, and waits for the last reply.
pub(crate) async fn send_all(run: &Arc<Run>) {
    let mut tasks = JoinSet::new();
    tasks.spawn(bulk::over_grpc(run.clone()));
    tasks.spawn(bulk::over_http(run.clone()));
    send_single_ones(run, &mut tasks).await;
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
}

async fn send_single_ones(run: &Arc<Run>, tasks: &mut JoinSet<()>) {
    let unary = Unary::connect(run).await;
    let mut streams = Streams::new(run.clone());
    let http = Arc::new(Http::connect(run.port, HTTP_CONNECTIONS).await);
    for number in 0.. {
        let due = Duration::from_secs(1) * number / RATE;
        if due >= run.phases.end {
            break;
        }
        tokio::time::sleep_until(run.instant(due).into()).await;
        let class = CLASSES[number as usize % CLASSES.len()];
        let once = (number as usize / CLASSES.len()).is_multiple_of(2);
        let ticket = run.issue(class, once, due);
        match class {
            Class::Stream => streams.send(ticket, tasks).await,
            Class::Http => {
                let (run, http) = (run.clone(), http.clone());
                tasks.spawn(async move {
                    let outcome = http.post(&ticket, 0).await;
                    run.settle(&ticket, outcome);
                });
            }
            _ => unary.send(run.clone(), ticket, tasks),
        }
        while tasks.try_join_next().is_some_and(|ended| {
            ended.unwrap();
            true
        }) {}
    }
}
