//! The cost of idle connections at the gateway.

use flow_tests::TestFlow;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const EACH: usize = 1000;

/// What a thousand idle connections of each kind may take together.
const BYTES_MAX: usize = 60_000_000;

const KEEP_ALIVE: &str = "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";
const WEBSOCKET: &str = "GET / HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
                         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

#[tokio::test]
async fn a_thousand_idle_connections_and_a_thousand_websockets_take_less_than_60_mb() {
    let _files = flow_net::raise_open_files();
    let flow = TestFlow::up("executors: [{name: echo, uses: echo}]");
    let gateway = flow.pid("gateway");
    let mut open = vec![
        begin(&flow, KEEP_ALIVE).await,
        begin(&flow, WEBSOCKET).await,
    ];
    let before = anonymous_memory(gateway);
    for _ in 0..EACH {
        open.push(begin(&flow, KEEP_ALIVE).await);
        open.push(begin(&flow, WEBSOCKET).await);
    }
    let taken = anonymous_memory(gateway).saturating_sub(before);
    println!("{} connections take {} kB", open.len(), taken / 1000);
    assert!(taken < BYTES_MAX, "they take {taken} bytes");
}

/// Opens a connection, and reads the head of the reply to its first request.
async fn begin(flow: &TestFlow, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", flow.port()))
        .await
        .unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut reply = vec![0; 4096];
    let mut len = 0;
    while !reply[..len].windows(4).any(|it| it == b"\r\n\r\n") {
        let read = stream.read(&mut reply[len..]).await.unwrap();
        assert!(read > 0, "{}", String::from_utf8_lossy(&reply[..len]));
        len += read;
    }
    stream
}

/// Memory of a process that no file backs, in bytes.
fn anonymous_memory(pid: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|it| it.strip_prefix("RssAnon:"));
    let kilobytes: usize = line
        .unwrap()
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .unwrap();
    kilobytes << 10
}
