//! Clients that behave badly: they hang up, cancel, and do not read.
//!
//! Their replies are not awaited. What they ask for runs at most once, as everything else does.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use flow_core::Deadline;
use flow_net::{Client, PostOptions};
use flow_tests::texts;
use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::http;
use crate::run::Run;

/// A call that is cancelled takes this long in the executor, longer than its client waits.
const WORK_MS: &str = "30";

/// How long a client waits before it cancels.
const CANCEL_AFTER: Duration = Duration::from_millis(5);

/// Documents of a large reply, and the length of each: more than the buffers of a connection hold.
const LARGE_DOCUMENTS: usize = 2_000;
const LARGE_TEXT: usize = 1_000;

/// Large requests on a stream that is not read.
const LARGE_REQUESTS: usize = 4;

/// Numbers the requests, so that each has a text of its own.
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// The nodes that these requests go to. `book` records its runs.
const TARGET: &str = "^(work|book)$";

fn id() -> String {
    format!("a-{}", NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// A request over HTTP as bytes.
fn http_request(others: &[&str]) -> Vec<u8> {
    let id = id();
    let mut words = vec![WORK_MS, &id];
    words.extend(others);
    let body = http::body(&id, TARGET, &words).to_string();
    let head = format!(
        "POST /post HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    (head + &body).into_bytes()
}

/// Every second one sends all of its request, the others half of it; then they close the connection.
pub(crate) async fn hang_up(run: &Arc<Run>, clients: u64) {
    join_all((0..clients).map(|number| async move {
        let bytes = http_request(&[]);
        let length = if number % 2 == 0 {
            bytes.len()
        } else {
            bytes.len() / 2
        };
        let mut stream = TcpStream::connect(("127.0.0.1", run.port)).await.unwrap();
        stream.write_all(&bytes[..length]).await.unwrap();
        tokio::time::sleep(CANCEL_AFTER).await;
    }))
    .await;
}

/// Each calls over gRPC, and cancels.
pub(crate) async fn cancel(run: &Arc<Run>, clients: u64) {
    let client = Client::connect(&run.url()).await.unwrap();
    join_all((0..clients).map(|_| async {
        let mut request = texts("/slow", &[WORK_MS, &id()]);
        if let Some(header) = request.header.as_mut() {
            header.target_executor = Some(TARGET.to_owned());
        }
        let deadline = Deadline::after(Instant::now(), Some(Duration::from_secs(60)));
        let call = client.single(request, deadline);
        drop(tokio::time::timeout(CANCEL_AFTER, call).await);
    }))
    .await;
}

/// Half of them ask over HTTP and half over gRPC for large replies, and do not read them.
pub(crate) async fn read_slowly(run: &Arc<Run>, clients: u64, pause: Duration) {
    join_all((0..clients).map(|number| async move {
        if number % 2 == 0 {
            slow_http(run, pause).await;
        } else {
            slow_stream(run, pause).await;
        }
    }))
    .await;
}

async fn slow_http(run: &Arc<Run>, pause: Duration) {
    let text = "x".repeat(LARGE_TEXT);
    let bytes = http_request(&vec![text.as_str(); LARGE_DOCUMENTS]);
    let stream = TcpStream::connect(("127.0.0.1", run.port)).await.unwrap();
    let (mut reader, mut writer) = stream.into_split();
    writer.write_all(&bytes).await.unwrap();
    // What comes is not looked at: that it comes is enough.
    let mut first = [0; 1_000];
    drop(reader.read(&mut first).await);
    tokio::time::sleep(pause).await;
}

async fn slow_stream(run: &Arc<Run>, pause: Duration) {
    let text = "x".repeat(LARGE_TEXT);
    let requests = (0..LARGE_REQUESTS).map(|_| {
        let id = id();
        let mut words = vec![WORK_MS, &id];
        words.extend(vec![text.as_str(); LARGE_DOCUMENTS]);
        let mut request = texts("/slow", &words);
        if let Some(header) = request.header.as_mut() {
            header.target_executor = Some(TARGET.to_owned());
        }
        request
    });
    let requests: Vec<_> = requests.collect();
    let client = Client::connect(&run.url()).await.unwrap();
    let options = PostOptions::default();
    let replies = client.post(&options, stream::iter(requests)).await;
    let mut replies = replies.unwrap();
    drop(replies.next().await);
    tokio::time::sleep(pause).await;
}
