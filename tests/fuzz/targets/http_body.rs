//! Whatever body a client sends to any route of the HTTP APIs, the answer is no error of the gateway's own, what it says is
//! JSON where it says so, and another client is answered.
//!
//! The first byte of an input chooses the route, the second says whether the JSON of a binary request ends early; the rest
//! is the body.
#![no_main]

mod gateway;

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use self::gateway::GATEWAY;

/// The routes that take bodies.
const ROUTES: [&str; 14] = [
    "/post",
    "/index",
    "/any/endpoint",
    "/v1/embeddings",
    "/v1/rerank",
    "/embed",
    "/similarity",
    "/tokenize",
    "/decode",
    "/rerank",
    "/v2/embed",
    "/v2/rerank",
    "/v2/models/a/infer",
    "/_console/api/actions",
];

/// The only errors of a server that are right here: the flow's executor cannot be reached.
const UNREACHABLE: [u16; 2] = [503, 424];

const ANSWERED_WITHIN: Duration = Duration::from_secs(5);

fuzz_target!(|input: &[u8]| {
    let [route, json_len, body @ ..] = input else {
        return;
    };
    let route = ROUTES[usize::from(*route) % ROUTES.len()];
    let json_len = match json_len {
        0 => String::new(),
        len => format!("inference-header-content-length: {len}\r\n"),
    };
    let head = format!(
        "POST {route} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
         x-flow-console: 1\r\n{json_len}content-length: {}\r\n\r\n",
        body.len()
    );
    GATEWAY.runtime.block_on(async {
        let mut stream = GATEWAY.connect().await;
        stream.write_all(head.as_bytes()).await.expect("it reads");
        // The gateway may answer before it has read all.
        drop(stream.write_all(body).await);
        let mut answer = Vec::new();
        let read = timeout(ANSWERED_WITHIN, stream.read_to_end(&mut answer)).await;
        drop(read.expect("the request is answered"));
        check(&answer);
        GATEWAY.answers_others().await;
    });
});

fn check(answer: &[u8]) {
    let answer = String::from_utf8_lossy(answer);
    let (head, body) = answer.split_once("\r\n\r\n").expect("a reply of HTTP");
    let status = head.split(' ').nth(1).and_then(|it| it.parse::<u16>().ok());
    let status = status.expect("a status");
    assert!(status < 500 || UNREACHABLE.contains(&status), "{answer}");
    let is_whole = !head.to_lowercase().contains("transfer-encoding");
    if is_whole && head.contains("application/json") {
        serde_json::from_str::<serde_json::Value>(body).expect("the body is JSON");
    }
}
