//! Compressed WebSocket messages, frame by frame.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress};
use flow_gateway::GatewayLimits;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::fake_executor::FakeExecutor;
use crate::test_gateway::{TestGateway, placement, plan};

const OFFER: &str = "permessage-deflate; client_max_window_bits";

/// A WebSocket whose frames the test makes and reads itself.
struct Raw {
    stream: TcpStream,
    /// The extension that the gateway named in its answer; empty if it named none.
    agreed: String,
}

impl Raw {
    async fn open(gateway: &TestGateway, offer: &str) -> Self {
        let mut stream = TcpStream::connect(gateway.address).await.unwrap();
        let head = format!(
            "GET / HTTP/1.1\r\nhost: {}\r\nconnection: keep-alive, Upgrade\r\nupgrade: WebSocket\r\n\
             sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
             sec-websocket-extensions: {offer}\r\n\r\n",
            gateway.address
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            answer.push(stream.read_u8().await.unwrap());
        }
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 101"), "{answer}");
        let accept = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
        assert!(answer.contains(accept), "{answer}");
        let mut lines = answer.lines().filter_map(|it| it.split_once(": "));
        let agreed = lines.find(|(name, _)| name.eq_ignore_ascii_case("sec-websocket-extensions"));
        let agreed = agreed.map_or("", |(_, value)| value).to_owned();
        Self { stream, agreed }
    }

    async fn send(&mut self, first_byte: u8, payload: &[u8]) {
        let mut frame = vec![first_byte];
        match u8::try_from(payload.len()) {
            Ok(len @ ..126) => frame.push(0x80 | len),
            _ => {
                frame.push(0x80 | 127);
                frame.extend((payload.len() as u64).to_be_bytes());
            }
        }
        // A mask of zeros.
        frame.extend([0; 4]);
        frame.extend(payload);
        self.stream.write_all(&frame).await.unwrap();
    }

    /// The next frame: its first byte, and its payload.
    async fn receive(&mut self) -> (u8, Vec<u8>) {
        let first_byte = self.stream.read_u8().await.unwrap();
        let len = match self.stream.read_u8().await.unwrap() {
            126 => self.stream.read_u16().await.unwrap().into(),
            127 => self.stream.read_u64().await.unwrap(),
            len => len.into(),
        };
        let mut payload = vec![0; usize::try_from(len).unwrap()];
        self.stream.read_exact(&mut payload).await.unwrap();
        (first_byte, payload)
    }

    /// The next message, decompressed; and whether it was compressed.
    async fn message(&mut self) -> (bool, Value) {
        let (first_byte, mut payload) = self.receive().await;
        let is_compressed = first_byte & 0x40 != 0;
        let mut is_last = first_byte & 0x80 != 0;
        while !is_last {
            let (first_byte, more) = self.receive().await;
            assert_eq!(first_byte & 0x7f, 0, "{first_byte:x}");
            payload.extend(more);
            is_last = first_byte & 0x80 != 0;
        }
        let text = match is_compressed {
            true => decompressed(&payload),
            false => payload,
        };
        (is_compressed, serde_json::from_slice(&text).unwrap())
    }

    /// The code with which the gateway closes.
    async fn close_code(&mut self) -> u16 {
        let (first_byte, payload) = self.receive().await;
        assert_eq!(first_byte, 0x88);
        u16::from_be_bytes([payload[0], payload[1]])
    }
}

fn compressed(bytes: &[u8]) -> Vec<u8> {
    let mut compress = Compress::new(Compression::best(), false);
    let mut out = Vec::with_capacity(bytes.len() + 100);
    compress
        .compress_vec(bytes, &mut out, FlushCompress::Sync)
        .unwrap();
    out.truncate(out.len() - 4);
    out
}

fn decompressed(bytes: &[u8]) -> Vec<u8> {
    let bytes = [bytes, &[0, 0, 0xff, 0xff]].concat();
    let mut out = Vec::with_capacity(1 << 20);
    Decompress::new(false)
        .decompress_vec(&bytes, &mut out, FlushDecompress::Sync)
        .unwrap();
    out
}

async fn gateway(limits: GatewayLimits) -> (FakeExecutor, TestGateway) {
    let echo = FakeExecutor::echo().await;
    let placement = placement(plan(&["node"]), &[&echo]);
    let gateway = TestGateway::start_with(placement, limits).await;
    (echo, gateway)
}

fn request(text: &str) -> Vec<u8> {
    json!({"data": [{"text": text}], "execEndpoint": "/any"})
        .to_string()
        .into()
}

#[tokio::test]
async fn messages_are_compressed_both_ways_if_the_client_offers_it() {
    let (_echo, gateway) = gateway(GatewayLimits::default()).await;
    let mut socket = Raw::open(&gateway, OFFER).await;
    let alone = "permessage-deflate; server_no_context_takeover; client_no_context_takeover";
    assert_eq!(socket.agreed, alone);
    let long = "some words that repeat ".repeat(10_000);
    // Whole, in two frames, and not compressed.
    let whole = compressed(&request(&long));
    assert!(whole.len() < 10_000, "{}", whole.len());
    let (begin, end) = whole.split_at(whole.len() / 2);
    for frames in [
        vec![(0xc1, &*whole)],
        vec![(0x41, begin), (0x80, end)],
        vec![(0x81, &*request(&long))],
    ] {
        for (first_byte, payload) in frames {
            socket.send(first_byte, payload).await;
        }
        let (is_compressed, reply) = socket.message().await;
        assert!(is_compressed);
        assert_eq!(reply["data"][0]["text"], long);
    }
    socket.send(0xc1, &compressed(&request("short"))).await;
    let (is_compressed, reply) = socket.message().await;
    assert!(!is_compressed);
    assert_eq!(reply["data"][0]["text"], "short");
    socket.send(0xc1, &compressed(b"{}")).await;
    assert_eq!(socket.close_code().await, 1000);
}

#[tokio::test]
async fn a_client_that_offers_nothing_known_gets_messages_as_they_are() {
    let (_echo, gateway) = gateway(GatewayLimits::default()).await;
    let mut socket = Raw::open(&gateway, "permessage-other").await;
    assert_eq!(socket.agreed, "");
    let long = "x".repeat(10_000);
    socket.send(0x81, &request(&long)).await;
    let (is_compressed, reply) = socket.message().await;
    assert!(!is_compressed);
    assert_eq!(reply["data"][0]["text"], long);
    // A compressed message without the extension is a mistake.
    socket.send(0xc1, &compressed(b"{}")).await;
    assert_eq!(socket.close_code().await, 1002);
}

#[tokio::test]
async fn a_close_of_the_client_is_answered() {
    let (_echo, gateway) = gateway(GatewayLimits::default()).await;
    for offer in [OFFER, "permessage-other"] {
        let mut socket = Raw::open(&gateway, offer).await;
        socket.send(0x88, &1000_u16.to_be_bytes()).await;
        assert_eq!(socket.close_code().await, 1000);
    }
}

#[tokio::test]
async fn messages_that_are_not_valid_or_too_large_close_their_connection_only() {
    let mut limits = GatewayLimits::default();
    limits.messages.decompressed_len_max = 1 << 20;
    let (_echo, gateway) = gateway(limits).await;
    let mut other = Raw::open(&gateway, OFFER).await;
    let bomb = compressed(&vec![b' '; 64 << 20]);
    assert!(bomb.len() < 100 << 10);
    for (payload, code) in [
        (bomb, 1009),
        (vec![0xff; 100], 1002),
        (compressed(&[0xff; 2000]), 1002),
    ] {
        let mut socket = Raw::open(&gateway, OFFER).await;
        socket.send(0xc1, &payload).await;
        assert_eq!(socket.close_code().await, code);
        other.send(0xc1, &compressed(&request("alive"))).await;
        assert_eq!(other.message().await.1["data"][0]["text"], "alive");
    }
}
