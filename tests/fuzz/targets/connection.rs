//! No input of a connection makes the gateway panic or stops it from answering another client.
//!
//! The first byte of an input says how the rest is sent: as it is, after the beginning of HTTP/2, as frames of HTTP/2
//! whose lengths are right, after the beginning of a WebSocket with compression, or as it is to a gateway that expects TLS.
#![no_main]

mod gateway;

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use flow_core::Deadline;
use libfuzzer_sys::fuzz_target;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use gateway::{Target, connect};

/// Time in which another client is answered.
const ANSWERED_WITHIN: Duration = Duration::from_secs(5);

/// How long the gateway's answers are read. Most connections end much earlier.
const READ_FOR: Duration = Duration::from_millis(20);

/// An executor that refuses connections: what passes the gateway fails at once.
const FLOW: &str = "jtype: Flow\nexecutors: [{name: a, uses: echo, retries: 0}]";

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00";

const UPGRADE: &[u8] =
    b"GET / HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
    sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
    sec-websocket-extensions: permessage-deflate\r\n\r\n";

static TARGET: LazyLock<Target> = LazyLock::new(|| Target::start(FLOW));

static ENCRYPTED: LazyLock<Target> = LazyLock::new(|| Target::encrypted(FLOW));

/// Frames of HTTP/2 with the lengths that they say: type, flags, stream and length are a byte each.
fn frames(mut input: &[u8]) -> Vec<u8> {
    let mut bytes = PREFACE.to_vec();
    while let [kind, flags, stream, len, rest @ ..] = input {
        let (payload, rest) = rest.split_at(usize::from(*len).min(rest.len()));
        bytes.extend([0, 0, payload.len() as u8, *kind, *flags, 0, 0, 0, *stream]);
        bytes.extend(payload);
        input = rest;
    }
    bytes
}

fuzz_target!(|input: &[u8]| {
    let Some((kind, rest)) = input.split_first() else {
        return;
    };
    let bytes = match kind % 5 {
        0 | 4 => rest.to_vec(),
        1 => [PREFACE, rest].concat(),
        2 => frames(rest),
        _ => [UPGRADE, rest].concat(),
    };
    let target = if kind % 5 == 4 { &*ENCRYPTED } else { &*TARGET };
    target.runtime.block_on(async {
        let mut stream = connect(target.gateway).await;
        // The gateway may close before it has read all.
        drop(stream.write_all(&bytes).await);
        drop(stream.shutdown().await);
        let mut answer = Vec::new();
        drop(timeout(READ_FOR, stream.read_to_end(&mut answer)).await);
        let deadline = Deadline::after(Instant::now(), Some(ANSWERED_WITHIN));
        let answered = target.bystander.is_serving(deadline).await;
        answered.expect("another client is answered");
    });
});
