//! No body of an HTTP request makes the gateway panic, and each gets an answer of its API: never an internal error.
//!
//! The first byte of an input chooses the route, and the rest is the body.
#![no_main]

mod gateway;
mod models;

use std::sync::LazyLock;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use gateway::{Target, connect};

/// Time in which a request is answered.
const ANSWERED_WITHIN: Duration = Duration::from_secs(5);

const FLOW: &str = "jtype: Flow\nexecutors: [{name: a, uses: echo, retries: 0}]";

/// The routes that read a body.
const ROUTES: &[&str] = &[
    "/post",
    "/search",
    "/v1/embeddings",
    "/embed",
    "/similarity",
    "/tokenize",
    "/decode",
    "/rerank",
    "/v2/embed",
    "/v1/rerank",
    "/v2/rerank",
    "/v2/models/m/infer",
    "/embed_all",
    "/predict",
    "/",
    "/v2/models/c/infer",
    "/embed_sparse",
];

static TARGET: LazyLock<Target> = LazyLock::new(|| Target::with_executor(FLOW, models::start()));

fuzz_target!(|input: &[u8]| {
    let Some((route, body)) = input.split_first() else {
        return;
    };
    let route = ROUTES[usize::from(*route) % ROUTES.len()];
    let head = format!(
        "POST {route} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
        connection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let target = &*TARGET;
    let answer = target.runtime.block_on(async {
        let mut stream = connect(target.gateway).await;
        // The gateway may answer and close before it has read all.
        drop(stream.write_all(&[head.as_bytes(), body].concat()).await);
        let mut answer = Vec::new();
        let read = timeout(ANSWERED_WITHIN, stream.read_to_end(&mut answer));
        drop(read.await.expect("the request is answered in time"));
        answer
    });
    let answer = String::from_utf8_lossy(&answer);
    let status = answer.split(' ').nth(1).and_then(|it| it.parse::<u16>().ok());
    let status = status.expect("the answer is HTTP");
    assert!(status != 500 && answer.starts_with("HTTP/1.1"), "{route}: {answer}");
});
