//! Connections that say nothing, streams that read nothing, calls that are given up.

use flow_core::Deadline;
use flow_net::PostOptions;
use flow_tests::raw::{Connection, SINGLE, encoded};
use flow_tests::{client, said, texts};
use futures_util::{StreamExt, stream};
use tokio::net::{TcpSocket, TcpStream};

use super::Target;

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
async fn an_address_has_only_so_many_connections_and_others_have_theirs() {
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
    let yaml = "executors: [{name: echo, uses: echo}]";
    let target = Target::up(yaml, &["gateway", "echo"]);
    let attacker = Connection::open(target.flow.port()).await;
    let request = encoded(&texts("/any", &["x"]));
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
