//! Whatever a client sends to the gateway's port: it answers or closes the connection, panics nowhere, and waits for nothing.
#![no_main]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::OnceLock;
use std::time::Duration;

use flow_gateway::{Config, Gateway, GatewayLimits};
use flow_net::Drain;
use flow_spec::{NodeAddresses, Placement, TextFile, Variables};
use libfuzzer_sys::fuzz_target;
use tokio::runtime::Runtime;

/// Time in which the gateway has answered, or closed the connection.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Routes that read JSON.
const ROUTES: [&str; 8] = [
    "/post",
    "/search",
    "/v1/embeddings",
    "/embed",
    "/similarity",
    "/v2/embed",
    "/v2/models/x/infer",
    "/status",
];

fuzz_target!(|data: &[u8]| {
    let Some((kind, data)) = data.split_first() else {
        return;
    };
    let mut stream = TcpStream::connect(gateway()).expect("the gateway listens");
    stream.set_read_timeout(Some(ANSWER_MAX)).expect("it can be set");
    // The gateway may close the connection before it has read all.
    drop(stream.write_all(&sent(*kind, data)));
    drop(stream.shutdown(Shutdown::Write));
    let mut answer = Vec::new();
    if let Err(error) = stream.read_to_end(&mut answer) {
        let is_late = error.kind() == std::io::ErrorKind::WouldBlock;
        assert!(!is_late, "no answer, and the connection stays open");
    }
});

/// The bytes on the connection: as they are, as the body of a request, or as a message of a WebSocket.
fn sent(kind: u8, data: &[u8]) -> Vec<u8> {
    match usize::from(kind) % (ROUTES.len() + 2) {
        0 => data.to_vec(),
        1 => websocket(data),
        route => request(ROUTES[route - 2], data),
    }
}

fn request(path: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

fn websocket(message: &[u8]) -> Vec<u8> {
    let head = b"GET / HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
        sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    let len = u16::try_from(message.len()).expect("inputs are short").to_be_bytes();
    // A text with a mask of zeros, and the end.
    let frame = [&[0x81, 0xfe][..], &len, &[0; 4], message].concat();
    let end = [&[0x81, 0x82, 0, 0, 0, 0][..], b"{}"].concat();
    [&head[..], &frame, &end].concat()
}

/// The address of a gateway that serves as long as this process lives. Its flow has no executors.
fn gateway() -> SocketAddr {
    static SERVING: OnceLock<(SocketAddr, Runtime)> = OnceLock::new();
    SERVING.get_or_init(serve).0
}

fn serve() -> (SocketAddr, Runtime) {
    // A panic in a task would only end that task.
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::abort();
    }));
    let file = TextFile { path: "flow.yml".as_ref(), text: "jtype: Flow\nexecutors: []" };
    let flow = flow_spec::load(file, &Variables::default()).expect("it is valid").flow;
    let placement = Placement::new(flow.into(), |_| NodeAddresses::replicas(Vec::new()));
    let config = Config {
        host: "127.0.0.1".to_owned(),
        port: 0,
        more_ports: Vec::new(),
        limits: GatewayLimits::default(),
        monitoring: None,
        tls: None,
        api_keys: None,
    };
    let runtime = Runtime::new().expect("threads can be started");
    let gateway = runtime.block_on(Gateway::bind(&config, placement)).expect("a port is free");
    let address = gateway.local_addr();
    runtime.spawn(async move { gateway.serve(&Drain::new(Duration::ZERO)).await });
    (address, runtime)
}
