//! No input of a connection makes the gateway panic or stops it from answering another client.
//!
//! The first byte of an input says how the rest is sent: as it is, after the beginning of HTTP/2, as frames of HTTP/2
//! whose lengths are right, or after the beginning of a WebSocket.
#![no_main]

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use flow_core::Deadline;
use flow_gateway::{Config, Gateway, GatewayLimits};
use flow_net::{Client, Drain};
use flow_otlp::ExportSettings;
use flow_spec::{NodeAddresses, Placement, Plan, TextFile, Variables};
use libfuzzer_sys::fuzz_target;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::runtime::Runtime;
use tokio::time::timeout;

/// Time in which another client is answered.
const ANSWERED_WITHIN: Duration = Duration::from_secs(5);

/// How long the gateway's answers are read. Most connections end much earlier.
const READ_FOR: Duration = Duration::from_millis(20);

/// An executor that refuses connections: what passes the gateway fails at once.
const FLOW: &str = "jtype: Flow\nexecutors: [{name: a, uses: echo, retries: 0}]";

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00";

const UPGRADE: &[u8] =
    b"GET / HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
    sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

struct Target {
    runtime: Runtime,
    gateway: SocketAddr,
    bystander: Client,
}

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let runtime = Runtime::new().expect("a runtime");
    let (gateway, bystander) = runtime.block_on(start());
    Target {
        runtime,
        gateway,
        bystander,
    }
});

async fn start() -> (SocketAddr, Client) {
    let file = TextFile {
        path: "fuzz.yml".as_ref(),
        text: FLOW,
    };
    let checked = flow_spec::load(file, &Variables::default()).expect("the flow is valid");
    let nobody = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    let placement = Placement::new(Plan::from(checked.flow), |_| {
        NodeAddresses::replicas(vec![nobody.into()])
    });
    let config = Config {
        host: "127.0.0.1".to_owned(),
        port: 0,
        more_ports: Vec::new(),
        limits: GatewayLimits::default(),
        monitoring: None,
        tls: None,
        export: ExportSettings::default(),
        api_keys: None,
        jwt: None,
        supervisor: None,
    };
    let gateway = Gateway::bind(&config, placement)
        .await
        .expect("a port is free");
    let address = gateway.local_addr();
    tokio::spawn(async move { gateway.serve(&Drain::new(Duration::ZERO)).await });
    let url = format!("grpc://{address}");
    (
        address,
        Client::connect(&url).await.expect("the gateway is there"),
    )
}

/// A connection from one of many addresses of this machine, so that no address runs out of ports.
async fn connect(to: SocketAddr) -> TcpStream {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let [_, b, c, d] = NUMBER.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    let socket = TcpSocket::new_v4().expect("a socket");
    let from = Ipv4Addr::new(127, b.max(1), c, d.clamp(1, 254));
    socket
        .bind((from, 0).into())
        .expect("an address of this machine");
    socket.connect(to).await.expect("the gateway accepts")
}

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
    let bytes = match kind % 4 {
        0 => rest.to_vec(),
        1 => [PREFACE, rest].concat(),
        2 => frames(rest),
        _ => [UPGRADE, rest].concat(),
    };
    let target = &*TARGET;
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
