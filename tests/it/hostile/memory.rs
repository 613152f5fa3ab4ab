//! Clients that together send more than the gateway may hold: it stays near the budget that it prints at start.

use flow_net::PostOptions;
use flow_tests::{client, texts};
use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::Target;
use super::http::{TEXT, connect, frame_head, taken_at_once, websocket};

const MEBIBYTE: u64 = 1 << 20;

/// The gateway prints it in mebibytes.
const YAML: &str = "gateway: {memory_max: 268435456}\nexecutors: [{name: echo, uses: echo}]";

/// Connections of each kind. Each sends 6 MiB, so that one kind alone fills the budget.
const CONNECTIONS: usize = 60;

/// The budget that the gateway has printed, in bytes.
fn printed_budget(target: &Target) -> u64 {
    let line = target.flow.program().line("of requests and replies");
    let (before, _) = line.split_once(" MiB of requests and replies").unwrap();
    let number = before.rsplit_once(' ').unwrap().1;
    number.parse::<u64>().unwrap() * MEBIBYTE
}

async fn begun_body(target: &Target, part: &[u8]) -> TcpStream {
    let mut stream = connect(target).await;
    let head = "POST /post HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                content-length: 8000000\r\n\r\n";
    send(target, &mut stream, head.as_bytes(), part).await;
    stream
}

async fn begun_frame(target: &Target, part: &[u8]) -> TcpStream {
    let mut stream = websocket(target).await;
    send(target, &mut stream, &frame_head(TEXT, 8_000_000), part).await;
    stream
}

/// Sends what the gateway accepts at once. It stops reading when its budget is full.
async fn send(target: &Target, stream: &mut TcpStream, head: &[u8], part: &[u8]) {
    target.sends(head.len() + part.len());
    let send = async {
        stream.write_all(head).await?;
        stream.write_all(part).await
    };
    drop(taken_at_once(send).await);
}

#[tokio::test]
async fn attacks_at_the_same_time_take_a_quarter_more_than_the_printed_budget_at_most() {
    let target = Target::up(YAML, &["gateway", "echo"]);
    let budget = printed_budget(&target);
    assert_eq!(budget, 256 * MEBIBYTE);
    let part = vec![b' '; 6 << 20];
    let bodies = join_all((0..CONNECTIONS).map(|_| begun_body(&target, &part)));
    let frames = join_all((0..CONNECTIONS).map(|_| begun_frame(&target, &part)));
    // A stream whose replies are not read.
    let large = "x".repeat(1 << 20);
    let requests = stream::repeat_with(move || texts("/any", &[&large]));
    let options = PostOptions {
        prefetch: Some(10_000),
        ..PostOptions::default()
    };
    target.sends(400 << 20);
    let unread = async {
        let client = client(&target.flow).await;
        let mut replies = client.post(&options, requests.take(400)).await.unwrap();
        drop(taken_at_once(replies.next()).await);
        replies
    };
    let attacks = tokio::join!(bodies, frames, unread);
    let max = (budget + budget / 4) / MEBIBYTE;
    target.fits(max);
    drop(attacks);
    target.survived(max).await;
}
