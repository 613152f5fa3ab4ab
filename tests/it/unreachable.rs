//! Replicas whose machine does not answer at all: nothing refuses a connection to them, and nothing accepts one.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use flow_core::Deadline;
use flow_net::Client;
use flow_tests::{Line, Program, flow_command, said, texts};
use tokio::net::{TcpListener, TcpSocket};

/// What a client allows a request.
const DEADLINE: Duration = Duration::from_secs(5);

/// How long no request may go to the silent replica: many times what it takes.
const NOTICED: Duration = Duration::from_secs(60);

/// After this time without an answer, the kernel has dropped what asks for a connection.
const DROPPED: Duration = Duration::from_millis(500);

/// An address at which connections are neither made nor refused: its queue of connections to accept is full.
struct Silent {
    listener: TcpListener,
    _queue: Vec<TcpStream>,
}

impl Silent {
    fn new() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        socket.bind(any_port).unwrap();
        let listener = socket.listen(1).unwrap();
        let address = listener.local_addr().unwrap();
        let mut queue = Vec::new();
        loop {
            match TcpStream::connect_timeout(&address, DROPPED) {
                Ok(stream) => queue.push(stream),
                Err(error) if error.kind() == io::ErrorKind::TimedOut => break,
                Err(error) => panic!("{error}"),
            }
        }
        Self {
            listener,
            _queue: queue,
        }
    }

    fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap()
    }
}

fn executor() -> Program {
    let mut command = flow_command();
    command.args(["executor", "--uses", "echo", "--log", "json"]);
    Program::start(command)
}

fn gateway(folder: &tempfile::TempDir, replicas: [SocketAddr; 2]) -> Program {
    let file = folder.path().join("flow.yml");
    std::fs::write(&file, "jtype: Flow\nexecutors: [{name: echo, uses: echo}]").unwrap();
    let [silent, executor] = replicas.map(|it| format!("grpc://{it}"));
    let mut command = flow_command();
    command.arg("gateway").arg(file).args(["--port", "0"]);
    command.args(["--log", "json", "--addresses"]);
    command.arg(format!(r#"{{"echo": ["{silent}", "{executor}"]}}"#));
    Program::start(command)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_are_answered_in_time_while_a_replica_cannot_be_connected_to() {
    let silent = Silent::new();
    let executor = executor();
    let folder = tempfile::tempdir().unwrap();
    let gateway = gateway(
        &folder,
        [silent.address(), executor.ready().address.tcp().unwrap()],
    );
    let url = format!("grpc://{}", gateway.ready().address);
    let client = Client::connect(&url).await.unwrap();
    let is_it = |line: &Line| line.text.contains("replica cannot be reached");
    let said_so = || gateway.lines().iter().any(is_it);
    let begun = Instant::now();
    // Replicas that are equally busy take turns. Until the gateway has learnt what the silent one offers, that one is busy.
    while !said_so() {
        assert!(begun.elapsed() < NOTICED, "no request went to it");
        let deadline = Deadline::after(Instant::now(), Some(DEADLINE));
        let reply = client.single(texts("/any", &["a"]), deadline).await;
        let reply = said(&reply.unwrap());
        assert_eq!((reply.failure, reply.texts), (None, vec!["a".to_owned()]));
    }
}
