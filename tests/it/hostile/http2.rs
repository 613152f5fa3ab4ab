//! Attacks with frames of HTTP/2, and with calls that need only a few of them.

use std::time::Duration;

use flow_core::Deadline;
use flow_tests::raw::{CALL, Connection, SINGLE, compressed_frame, header};
use flow_tests::{client, texts};
use futures_util::future::join_all;
use prost::Message;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{Target, served_within};

const ECHO: &str = "executors: [{name: echo, uses: echo}]";

/// The memory of the gateway for requests and replies.
const SMALL: &str = "gateway: {memory_max: 33554432, decompressed_max: 8388608}\nexecutors: [{name: echo, uses: echo}]";

/// Time in which a gateway reads what it wants to read.
const TAKEN_WITHIN: Duration = Duration::from_millis(500);

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
const PING: u8 = 6;
const CONTINUATION: u8 = 9;
pub(super) const END_HEADERS: u8 = 4;
pub(super) const ACK: u8 = 1;

pub(super) fn frame(kind: u8, flags: u8, stream: u32, content: &[u8]) -> Vec<u8> {
    let len = u32::try_from(content.len()).unwrap().to_be_bytes();
    let head = [len[1], len[2], len[3], kind, flags];
    [&head, &stream.to_be_bytes()[..], content].concat()
}

/// The headers of a gRPC call in HPACK, without compression.
pub(super) fn call_headers(path: &str) -> Vec<u8> {
    let mut block = vec![0x83, 0x86];
    let mut text = |name: &[u8], value: &str| {
        block.extend(name);
        block.push(value.len().try_into().unwrap());
        block.extend(value.as_bytes());
    };
    text(&[0x04], path);
    text(&[0x01], "localhost");
    text(&[0x0f, 0x10], "application/grpc");
    block
}

fn target(yaml: &str) -> Target {
    Target::up(yaml, &["gateway", "echo"])
}

async fn connect(target: &Target) -> TcpStream {
    connect_to(target.flow.port()).await
}

/// A connection whose settings are sent.
pub(super) async fn connect_to(port: u16) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    let preface = [preface, frame(SETTINGS, 0, 0, &[])].concat();
    stream.write_all(&preface).await.unwrap();
    stream
}

/// Sends the parts until the gateway takes no more of them, or closes the connection. Nothing is read.
pub(super) async fn flood(
    target: &Target,
    stream: &mut TcpStream,
    parts: impl Iterator<Item = Vec<u8>>,
) {
    for part in parts {
        target.sends(part.len());
        let sent = timeout(TAKEN_WITHIN, stream.write_all(&part)).await;
        if !matches!(sent, Ok(Ok(()))) {
            return;
        }
    }
}

#[tokio::test]
async fn a_flood_of_http_2_pings_disturbs_no_other_client() {
    let target = target(ECHO);
    let mut stream = connect(&target).await;
    let pings = frame(PING, 0, 0, &[0; 8]).repeat(1000);
    let attack = flood(&target, &mut stream, std::iter::repeat_n(pings, 300));
    tokio::join!(attack, target.survived(32));
    target.survived(32).await;
}

#[tokio::test]
async fn streams_that_are_opened_and_reset_disturb_no_other_client() {
    let target = target(ECHO);
    let mut stream = connect(&target).await;
    let block = call_headers(SINGLE);
    let mut next = 1;
    let parts = std::iter::repeat_with(|| {
        let mut part = Vec::new();
        for _ in 0..1000 {
            part.extend(frame(HEADERS, END_HEADERS, next, &block));
            part.extend(frame(RST_STREAM, 0, next, &[0, 0, 0, 8]));
            next += 2;
        }
        part
    });
    // The first ones, as many as a connection may have at once, take what unoptimized code needs for a request.
    let attack = flood(&target, &mut stream, parts.take(200));
    tokio::join!(attack, target.survived(160));
    target.survived(160).await;
}

#[tokio::test]
async fn endless_empty_frames_of_data_disturb_no_other_client() {
    let target = target(ECHO);
    let mut stream = connect(&target).await;
    let open = frame(HEADERS, END_HEADERS, 1, &call_headers(SINGLE));
    let empty = frame(DATA, 0, 1, &[]).repeat(10_000);
    let parts = std::iter::once(open).chain(std::iter::repeat_n(empty, 100));
    let attack = flood(&target, &mut stream, parts);
    tokio::join!(attack, target.survived(32));
    target.survived(32).await;
}

#[tokio::test]
async fn headers_without_an_end_disturb_no_other_client() {
    let target = target(ECHO);
    let mut stream = connect(&target).await;
    let open = frame(HEADERS, 0, 1, &call_headers(SINGLE));
    // A header of 16,000 bytes in each frame.
    let long = "x".repeat(16_000);
    let mut block = vec![0, 1, b'x', 0x7f, 0x81, 0x7c];
    block.extend(long.as_bytes());
    let more = frame(CONTINUATION, 0, 1, &block);
    let parts = std::iter::once(open).chain(std::iter::repeat_n(more, 10_000));
    let attack = flood(&target, &mut stream, parts);
    tokio::join!(attack, target.survived(32));
    target.survived(32).await;
}

#[tokio::test]
async fn calls_that_are_begun_and_say_nothing_count_in_the_memory_of_all() {
    let target = target(SMALL);
    let mut connections = Vec::new();
    // A header of 15,000 bytes in each call.
    let mut block = call_headers(CALL);
    block.extend([0, 1, b'x', 0x7f, 0x99, 0x74]);
    block.extend("x".repeat(15_000).as_bytes());
    for _ in 0..20 {
        let mut stream = connect(&target).await;
        let calls = (0..1000).map(|call| frame(HEADERS, END_HEADERS, 2 * call + 1, &block));
        flood(&target, &mut stream, calls).await;
        connections.push(stream);
    }
    target.is_healthy().await;
    target.fits(64);
    drop(connections);
    target.survived(96).await;
}

#[tokio::test]
async fn lengths_that_are_announced_reserve_no_memory() {
    let target = target(ECHO);
    let before = target.virtual_memory();
    let announced = [&header(500 << 20)[..], &[0; 1000]].concat();
    let mut connections = Vec::new();
    for _ in 0..4 {
        let mut stream = connect(&target).await;
        let calls = (0..100).map(|call| {
            let open = frame(HEADERS, END_HEADERS, 2 * call + 1, &call_headers(SINGLE));
            [open, frame(DATA, 0, 2 * call + 1, &announced)].concat()
        });
        flood(&target, &mut stream, calls).await;
        connections.push(stream);
    }
    target.survived(32).await;
    let taken = target.virtual_memory().saturating_sub(before) >> 30;
    assert!(taken < 8, "{taken} GiB of addresses");
}

const GZIP: [(&str, &str); 1] = [("grpc-encoding", "gzip")];

#[tokio::test]
async fn replies_to_a_client_with_a_window_of_one_byte_hold_little_memory() {
    let target = target(SMALL);
    // Some kilobytes.
    let request = texts("/any", &[&"x".repeat(7 << 20)]);
    let request = compressed_frame(&request.encode_to_vec());
    let slow = Connection::with_window(target.flow.port(), 1).await;
    let attack = (0..200).map(|_| {
        target.sends(request.len());
        timeout(TAKEN_WITHIN * 4, slow.reply(SINGLE, request.clone(), &GZIP))
    });
    let replies = join_all(attack).await;
    assert!(replies.iter().any(Result::is_ok));
    target.survived(128).await;
}

#[tokio::test]
async fn health_is_answered_while_compressed_requests_are_read() {
    let target = target(ECHO);
    // Sixty mebibytes that are no request.
    let request = compressed_frame(&vec![0; 60 << 20]);
    let attackers = join_all((0..4).map(|_| Connection::open(target.flow.port()))).await;
    target.sends(40 * request.len());
    let calls = [SINGLE, CALL].repeat(5);
    let calls = attackers
        .iter()
        .flat_map(|it| calls.iter().map(move |path| (it, *path)));
    let attack = calls.map(|(attacker, path)| attacker.reply(path, request.clone(), &GZIP));
    let mut attack = Box::pin(join_all(attack));
    loop {
        tokio::select! {
            biased;
            () = target.is_healthy() => {}
            _ = &mut attack => break,
        }
    }
    target.is_healthy().await;
}

impl Target {
    /// Fails if the gateway does not answer a question for its health in time.
    async fn is_healthy(&self) {
        let answer = async {
            let client = client(&self.flow).await;
            client.is_serving(Deadline::NEVER).await
        };
        let answer = timeout(served_within(), answer).await;
        assert!(answer.expect("health is not answered").unwrap());
    }

    /// The addresses that the gateway has reserved at most, in bytes.
    fn virtual_memory(&self) -> u64 {
        super::of_status(self.flow.pid("gateway"), "VmPeak:")
    }
}
