//! `flow gateway` as a launcher runs it: placements on its standard input, lines on its standard output.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;

use flow_core::{Document, DocumentArray, RequestId};
use flow_net::grpc::jina_single_data_request_rpc_server::{
    JinaSingleDataRequestRpc, JinaSingleDataRequestRpcServer,
};
use flow_net::{Client, PostOptions};
use flow_proto::Envelope;
use flow_proto::jina::HeaderProto;
use flow_spec::{Address, NodeAddresses, Placement, Plan, TextFile, Variables};
use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

/// A running gateway; killed when dropped.
struct Gateway {
    process: Child,
    stdin: Option<ChildStdin>,
    out: BufReader<ChildStdout>,
}

impl Gateway {
    fn start() -> Self {
        Self::spawn(Command::new(env!("CARGO_BIN_EXE_flow")).stderr(Stdio::null()))
    }

    /// A gateway that may have only this many files open, and whose log can be read.
    fn start_with_open_files(max: u32) -> Self {
        let limited = format!("ulimit -n {max} && exec \"$0\" \"$@\"");
        let mut shell = Command::new("sh");
        shell.args(["-c", &limited, env!("CARGO_BIN_EXE_flow")]);
        Self::spawn(shell.stderr(Stdio::piped()))
    }

    fn spawn(command: &mut Command) -> Self {
        command.args(["gateway", "--placement", "-", "--host", "127.0.0.1"]);
        command.args([
            "--port",
            "0",
            "--parent-pid",
            &std::process::id().to_string(),
        ]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let stdin = process.stdin.take();
        let out = BufReader::new(process.stdout.take().unwrap());
        Self {
            process,
            stdin,
            out,
        }
    }

    fn write(&mut self, line: &str) {
        let mut stdin = self.stdin.as_ref().unwrap();
        writeln!(stdin, "{line}").unwrap();
    }

    fn place(&mut self, port: u16) {
        self.write(&serde_json::to_string(&placement(port)).unwrap());
    }

    /// The next line on standard output.
    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: `{line}`"))
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// A flow of one executor.
fn placement(port: u16) -> Placement {
    let file = TextFile {
        path: "test.yml".as_ref(),
        text: "jtype: Flow\nexecutors: [{name: node, uses: echo}]",
    };
    let plan = Plan::from(flow_spec::load(file, &Variables::default()).unwrap().flow);
    Placement::new(plan, |_| {
        NodeAddresses::replicas(vec![Address::new("127.0.0.1", port)])
    })
}

/// The event after which no request uses an earlier placement.
fn placed(number: u64) -> Value {
    json!({"event": "placed", "placement": number})
}

#[test]
fn a_placement_is_confirmed_when_earlier_ones_are_no_longer_used() {
    let mut gateway = Gateway::start();
    gateway.place(9);
    assert!(gateway.line()["address"].is_string());
    assert_eq!(gateway.line(), placed(1));
    gateway.place(10);
    assert_eq!(gateway.line(), placed(2));
    // A line that is no placement has a number, too; the gateway goes on with what it had.
    gateway.write("{}");
    gateway.place(11);
    assert_eq!(gateway.line(), placed(4));
}

#[test]
fn a_gateway_outlives_its_standard_input() {
    let mut gateway = Gateway::start();
    gateway.place(9);
    let address = gateway.line()["address"].as_str().unwrap().to_owned();
    assert_eq!(gateway.line(), placed(1));
    gateway.stdin = None;
    assert!(TcpStream::connect(address).is_ok());
    assert_eq!(gateway.process.try_wait().unwrap(), None);
}

#[test]
fn more_silent_connections_than_file_descriptors_keep_no_client_out() {
    let mut gateway = Gateway::start_with_open_files(64);
    gateway.place(9);
    let address = gateway.line()["address"].as_str().unwrap().to_owned();
    let mut log = BufReader::new(gateway.process.stderr.take().unwrap());
    let connect = |_| TcpStream::connect(&address).unwrap();
    let silent: Vec<TcpStream> = (0..100).map(connect).collect();

    let mut client = TcpStream::connect(&address).unwrap();
    client.set_read_timeout(Some(SERVED_WITHIN)).unwrap();
    client
        .write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut response = String::new();
    client.read_to_string(&mut response).unwrap();
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    drop(silent);

    drop(gateway);
    let mut rest = String::new();
    log.read_to_string(&mut rest).unwrap();
    let warnings = rest.matches("cannot accept connections").count();
    assert!(warnings <= 1, "{rest}");
}

/// Silent connections are closed for others after a second each round; a machine may be busy.
const SERVED_WITHIN: std::time::Duration = std::time::Duration::from_secs(60);

/// An executor that holds all calls until the test releases them.
#[derive(Clone)]
struct Held {
    calls: watch::Sender<usize>,
    gate: Arc<Semaphore>,
}

#[tonic::async_trait]
impl JinaSingleDataRequestRpc for Held {
    async fn process_single_data(
        &self,
        request: Request<Envelope>,
    ) -> Result<Response<Envelope>, Status> {
        self.calls.send_modify(|calls| *calls += 1);
        drop(self.gate.acquire().await);
        Ok(Response::new(request.into_inner()))
    }
}

impl Held {
    /// Serves on a port of its own, as long as the tasks are kept.
    async fn start() -> (Self, u16, JoinSet<()>) {
        let (calls, gate) = (watch::Sender::new(0), Arc::new(Semaphore::new(0)));
        let held = Self { calls, gate };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = tonic::transport::Server::builder()
            .max_concurrent_streams(u32::MAX)
            // Room for all of them: the connection of an executor holds back what it has no window for.
            .initial_connection_window_size(Some(64 << 20))
            .add_service(JinaSingleDataRequestRpcServer::new(held.clone()));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let incoming = TcpIncoming::from(listener);
            server.serve_with_incoming(incoming).await.unwrap();
        });
        (held, port, tasks)
    }
}

fn request() -> Envelope {
    let header = HeaderProto {
        request_id: RequestId::random().into(),
        exec_endpoint: Some("/x".to_owned()),
        ..HeaderProto::default()
    };
    let documents: DocumentArray = [Document::from_text(&"x".repeat(1024))]
        .into_iter()
        .collect();
    Envelope {
        header: Some(header),
        data: Some(documents.encode()),
        ..Envelope::default()
    }
}

/// Memory that the process has for itself, in kB. Pages of its program, which the kernel shares and drops, do not
/// count, and what is counted is what there is now: a peak depends on how the scheduler mixes what comes after.
fn anonymous_memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|it| it.starts_with("RssAnon")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn ten_thousand_requests_in_progress_fit_into_300_mb() {
    const STREAMS: usize = 100;
    const REQUESTS: usize = 100;
    let (held, port, _server) = Held::start().await;
    let mut gateway = Gateway::start();
    gateway.place(port);
    let ready = gateway.line();
    let url = format!("grpc://{}", ready["address"].as_str().unwrap());
    let client = Client::connect(&url).await.unwrap();
    let options = PostOptions::default();
    let posted = (0..STREAMS).map(|_| async {
        let requests = stream::iter((0..REQUESTS).map(|_| request()));
        let replies = client.post(&options, requests).await.unwrap();
        replies.map(Result::unwrap).count().await
    });
    let under_way = async {
        let mut calls = held.calls.subscribe();
        let all = |calls: &usize| *calls == STREAMS * REQUESTS;
        calls.wait_for(all).await.unwrap();
        let memory = anonymous_memory(gateway.process.id());
        held.gate.close();
        memory
    };
    let (answered, memory) = tokio::join!(join_all(posted), under_way);
    assert_eq!(answered, vec![REQUESTS; STREAMS]);
    assert!(memory < 300_000, "{memory} kB with all requests under way");
    // The replies came all at once, and their buffers with them: 187 to 302 MB in 20 runs, as fast as the client read them and the
    // allocator returned memory.
    let memory = anonymous_memory(gateway.process.id());
    assert!(memory < 330_000, "{memory} kB after the replies");
}
