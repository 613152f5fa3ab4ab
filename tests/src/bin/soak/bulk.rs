//! Large requests in addition to the small ones: streams over gRPC with low priority, and single ones over HTTP.

use std::sync::Arc;
use std::time::Duration;

use flow_net::{Metadata, PostOptions};
use tokio::sync::mpsc;

use crate::account::Class;
use crate::grpc;
use crate::http::Http;
use crate::run::Run;

/// Documents of a request besides the two that each has.
const DOCUMENTS: usize = 62;

/// Requests of a stream.
const STREAM_REQUESTS: u32 = 200;

/// From one request of a stream to the next.
const GRPC_EVERY: Duration = Duration::from_millis(50);

/// From one request over HTTP to the next.
const HTTP_EVERY: Duration = Duration::from_millis(200);

/// Requests of a stream in progress.
const PREFETCH: usize = 8;

/// Sends streams, one after another, until the run is over.
pub(crate) async fn over_grpc(run: Arc<Run>) {
    let metadata = [("priority".to_owned(), "bulk".to_owned())];
    let options = PostOptions {
        prefetch: Some(PREFETCH),
        metadata: Metadata::parse(&metadata).unwrap(),
        ..PostOptions::default()
    };
    while !run.is_over() {
        let (sender, tickets) = mpsc::channel(1);
        let stream = grpc::one_stream(run.clone(), tickets, options.clone(), DOCUMENTS);
        let feed = async {
            for number in 0..STREAM_REQUESTS {
                tokio::time::sleep(GRPC_EVERY).await;
                if run.is_over() || sender.is_closed() {
                    break;
                }
                let ticket = run.issue(Class::BulkGrpc, number.is_multiple_of(2), run.now());
                if sender.send(ticket).await.is_err() {
                    run.settle(&ticket, Err("its stream had ended".to_owned()));
                }
            }
            drop(sender);
        };
        tokio::join!(stream, feed);
    }
}

/// Sends one request after another until the run is over.
pub(crate) async fn over_http(run: Arc<Run>) {
    let http = Http::connect(run.port, 1).await;
    let mut number = 0_u32;
    while !run.is_over() {
        tokio::time::sleep(HTTP_EVERY).await;
        let ticket = run.issue(Class::BulkHttp, number.is_multiple_of(2), run.now());
        let outcome = http.post(&ticket, DOCUMENTS).await;
        run.settle(&ticket, outcome);
        number += 1;
    }
}
