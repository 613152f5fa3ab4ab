//! No body of an HTTP request makes the gateway panic, and each gets an answer of its API: never an internal error.
//!
//! The first byte of an input chooses the route, and the rest is the body.
#![no_main]

mod gateway;
mod models;

use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
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

/// A connection that takes further requests, kept because the machine remembers each one that was closed for minutes.
static CONNECTION: Mutex<Option<TcpStream>> = Mutex::new(None);

fuzz_target!(|input: &[u8]| {
    let Some((route, body)) = input.split_first() else {
        return;
    };
    let route = ROUTES[usize::from(*route) % ROUTES.len()];
    let head = format!(
        "POST {route} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
        content-length: {}\r\n\r\n",
        body.len()
    );
    let request = [head.as_bytes(), body].concat();
    let target = &*TARGET;
    let mut connection = CONNECTION.lock().expect("no input has failed");
    let answer = target.runtime.block_on(async {
        let answered = timeout(ANSWERED_WITHIN, answer(target, &mut connection, &request));
        answered.await.expect("the request is answered in time")
    });
    let answer = String::from_utf8_lossy(&answer);
    let status = answer.split(' ').nth(1).and_then(|it| it.parse::<u16>().ok());
    let status = status.expect("the answer is HTTP");
    assert!(status != 500 && answer.starts_with("HTTP/1.1"), "{route}: {answer}");
});

/// The answer to a request, on the kept connection if the gateway has not closed it.
async fn answer(target: &Target, kept: &mut Option<TcpStream>, request: &[u8]) -> Vec<u8> {
    if let Some(mut stream) = kept.take() {
        let answer = exchange(&mut stream, request).await;
        if !answer.is_empty() {
            *kept = Some(stream).filter(|_| is_kept(&answer));
            return answer;
        }
    }
    let mut stream = connect(target.gateway).await;
    let answer = exchange(&mut stream, request).await;
    *kept = Some(stream).filter(|_| is_kept(&answer));
    answer
}

/// Sends a request, and reads its answer: as long as its head says, or all until the end of the connection.
async fn exchange(stream: &mut TcpStream, request: &[u8]) -> Vec<u8> {
    // The gateway may answer and close before it has read all.
    drop(stream.write_all(request).await);
    let mut answer = Vec::new();
    while !is_whole(&answer) {
        match stream.read_buf(&mut answer).await {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
    }
    answer
}

fn is_whole(answer: &[u8]) -> bool {
    len(answer).is_some_and(|len| answer.len() >= len)
}

/// Whether the connection takes another request after this answer.
fn is_kept(answer: &[u8]) -> bool {
    let closes = head(answer).is_none_or(|head| head.contains("connection: close"));
    !closes && len(answer) == Some(answer.len())
}

/// The length of an answer, if its head is complete and has the length of the body.
fn len(answer: &[u8]) -> Option<usize> {
    let head = head(answer)?;
    let body = head.split("\r\n").find_map(|line| line.strip_prefix("content-length: "))?;
    Some(head.len() + body.parse::<usize>().ok()?)
}

/// The head of an answer, with the empty line after it, in small letters.
fn head(answer: &[u8]) -> Option<String> {
    let end = answer.windows(4).position(|it| it == b"\r\n\r\n")? + 4;
    Some(String::from_utf8_lossy(&answer[..end]).to_lowercase())
}
