//! Silent connections, streams whose replies are not read, and abandoned calls.

use flow_core::Deadline;
use flow_net::PostOptions;
use flow_tests::raw::{Connection, SINGLE, encoded};
use flow_tests::{client, said, texts};
use futures_util::{StreamExt, stream};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use tokio::net::{TcpSocket, TcpStream};

use super::Target;

const ECHO: &str = "executors: [{name: echo, uses: echo}]";

#[tokio::test]
async fn silent_connections_make_room_for_others() {
    let yaml = "gateway: {connections_max: 50}\nexecutors: [{name: echo, uses: echo}]";
    let target = Target::up(yaml, &["gateway", "echo"]);
    let mut silent = Vec::new();
    for _ in 0..200 {
        silent.push(
            TcpStream::connect(("127.0.0.1", target.flow.port()))
                .await
                .unwrap(),
        );
    }
    target.survived(32).await;
}

#[tokio::test]
async fn a_gateway_without_files_for_more_connections_makes_room_and_warns_once() {
    let target = Target::up(ECHO, &["gateway", "echo"]);
    target.flow.expect("cannot accept connections");
    let gateway = target.flow.pid("gateway");
    let open = std::fs::read_dir(format!("/proc/{gateway}/fd")).unwrap();
    let few = Rlimit {
        current: Some(open.count() as u64 + 20),
        maximum: getrlimit(Resource::Nofile).maximum,
    };
    let pid = i32::try_from(gateway).ok().and_then(Pid::from_raw);
    prlimit(pid, Resource::Nofile, few).unwrap();
    let mut silent = Vec::new();
    for _ in 0..200 {
        let stream = TcpStream::connect(("127.0.0.1", target.flow.port()));
        silent.push(stream.await.unwrap());
    }
    target.flow.program().line("cannot accept connections");
    for _ in 0..5 {
        target.survived(32).await;
    }
    let lines = target.flow.program().lines();
    let warnings = lines
        .iter()
        .filter(|it| it.text.contains("cannot accept connections"));
    assert_eq!(warnings.count(), 1);
}

#[tokio::test]
async fn an_address_has_a_limit_of_connections_of_its_own() {
    let yaml = "gateway: {connections_per_address_max: 20}\nexecutors: [{name: echo, uses: echo}]";
    let target = Target::up(yaml, &["gateway", "echo"]);
    let mut silent = Vec::new();
    for _ in 0..100 {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
        let gateway = ([127, 0, 0, 1], target.flow.port()).into();
        silent.push(socket.connect(gateway).await.unwrap());
    }
    target.survived(32).await;
}

#[tokio::test]
async fn a_stream_that_reads_no_replies_holds_little_memory() {
    let yaml = "gateway: {memory_max: 33554432}\nexecutors: [{name: echo, uses: echo}]";
    let target = Target::up(yaml, &["gateway", "echo"]);
    let large = "x".repeat(1 << 20);
    let requests = stream::repeat_with(move || texts("/any", &[&large]));
    let options = PostOptions {
        prefetch: Some(10_000),
        ..PostOptions::default()
    };
    let client = client(&target.flow).await;
    let mut replies = client.post(&options, requests.take(400)).await.unwrap();
    target.sends(400 << 20);
    // The first reply is there, so the others are on their way.
    assert!(replies.next().await.unwrap().is_ok());
    for _ in 0..20 {
        target.survived(160).await;
    }
    // Once they are read, all of them come.
    assert_eq!(replies.count().await, 399);
}

#[tokio::test]
async fn calls_that_are_given_up_fail_no_others() {
    let target = Target::up(ECHO, &["gateway", "echo"]);
    let attacker = Connection::open(target.flow.port()).await;
    let request = encoded(&texts("/any", &["x"]));
    target.sends(2000 * request.len());
    let timeouts = ["1u", "50u", "200u", "1m"];
    let attack = stream::iter(0..2000)
        .map(|call| {
            let (attacker, request) = (&attacker, request.clone());
            let headers = [("grpc-timeout", timeouts[call % timeouts.len()])];
            async move { attacker.call_with(SINGLE, request, &headers).await }
        })
        .buffer_unordered(200)
        .for_each(|_| std::future::ready(()));
    let client = client(&target.flow).await;
    let bystander = async {
        for call in 0..1000 {
            let reply = client
                .single(texts("/any", &["well"]), Deadline::NEVER)
                .await;
            let reply = reply.unwrap_or_else(|failure| panic!("call {call}: {failure}"));
            assert_eq!(said(&reply).failure, None, "call {call}");
        }
    };
    tokio::join!(attack, bystander);
    target.survived(128).await;
}
