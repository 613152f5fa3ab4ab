//! Executors that panic, hang, exit or are killed with requests in progress: each request that needed them fails with the
//! reason, and no other request is affected.

use std::time::{Duration, Instant};

use flow_core::{Code, Deadline};
use flow_proto::Envelope;
use flow_tests::raw::{CALL, Connection, encoded};
use flow_tests::{
    PlainReply, TestFlow, client, eventually, is_alive, post, request, said, send, texts,
};
use rustix::process::Signal;
use serde_json::json;

use crate::FAULTY;

fn faulty(options: &str) -> TestFlow {
    TestFlow::up(&format!(
        "executors: [{{name: faulty, uses: {FAULTY}{options}}}]"
    ))
}

fn failure(said: &PlainReply) -> &str {
    said.failure
        .as_deref()
        .unwrap_or_else(|| panic!("it did not fail: {said:?}"))
}

/// A request that is being worked on until the file `until` is there, and its reply to come.
async fn under_way(flow: &TestFlow) -> impl Future<Output = Result<PlainReply, String>> + use<> {
    let (began, until) = (flow.folder().join("began"), flow.folder().join("until"));
    let waits = request("/wait", &["x"], &json!({ "began": began, "until": until }));
    let client = client(flow).await;
    let (begin, begun) = tokio::sync::oneshot::channel();
    let mut task = tokio::task::JoinSet::new();
    task.spawn(async move {
        let reply = client.single(waits, Deadline::NEVER).await;
        drop(
            begin.send(
                reply
                    .map(|reply| said(&reply))
                    .map_err(|failure| failure.to_string()),
            ),
        );
    });
    tokio::task::spawn_blocking(move || eventually("the work has begun", || began.exists()))
        .await
        .unwrap();
    async move {
        let begun = begun.await;
        drop(task);
        begun.unwrap()
    }
}

#[tokio::test]
async fn a_panic_fails_its_own_request_and_not_the_process() {
    let flow = faulty("");
    flow.expect("panicked");
    let pid = flow.pid("faulty");
    let said = post(&flow, vec![texts("/panic", &["a"]), texts("/mark", &["b"])]).await;
    assert_eq!(
        failure(&said[0]),
        "executor `faulty`: panicked: this is too much"
    );
    assert_eq!(said[0].exception.as_deref(), Some("ExecutorError"));
    assert_eq!(said[1].texts, ["b"]);
    assert!(is_alive(pid));
}

#[tokio::test]
async fn a_failure_stops_the_nodes_below_it() {
    let flow = TestFlow::up(&format!(
        "executors: [{{name: first, uses: {FAULTY}}}, {{name: second, uses: {FAULTY}}}]"
    ));
    let said = post(&flow, vec![texts("/fail", &["a"])]).await;
    assert_eq!(failure(&said[0]), "executor `first`: not today");
    assert_eq!(said[0].routes, ["gateway", "first"]);
}

#[tokio::test]
async fn a_hanging_executor_fails_its_own_requests_at_their_deadline() {
    let flow = TestFlow::up(&format!(
        "executors:
  - {{name: faulty, uses: {FAULTY}, timeout_send: 300}}
  - {{name: echo, uses: echo}}"
    ));
    let mut for_echo = texts("/any", &["b"]);
    for_echo.header.as_mut().unwrap().target_executor = Some("echo".to_owned());
    let said = post(&flow, vec![texts("/hang", &["a"]), for_echo]).await;
    assert!(
        failure(&said[0]).contains("executor `faulty`: the deadline passed"),
        "{said:?}"
    );
    assert_eq!(said[0].exception.as_deref(), Some("TimeoutError"));
    assert_eq!(said[1].texts, ["b"]);
}

/// Jina's clients raise one error for a stream that ends late, and another one for a reply that says so.
#[tokio::test]
async fn a_stream_ends_at_its_timeout_without_a_reply_that_says_so() {
    let flow = faulty("");
    let connection = Connection::open(flow.port()).await;
    let request = encoded(&texts("/hang", &["a"]));
    let answer = connection
        .call_with(CALL, request, &[("grpc-timeout", "50m")])
        .await;
    assert_eq!(answer.status, 4, "{}", answer.message);
    assert!(answer.messages.is_empty(), "{:?}", answer.messages);
}

#[tokio::test]
async fn an_executor_that_exits_fails_its_request_and_comes_back_at_its_port() {
    let flow = faulty("");
    flow.expect("replica cannot be reached").expect("faulty");
    let address = flow
        .program()
        .line("faulty@")
        .rsplit(' ')
        .next()
        .unwrap()
        .to_owned();
    let lines = flow.program().lines().len();
    let said = post(&flow, vec![texts("/exit", &["a"])]).await;
    assert_eq!(
        said[0].exception.as_deref(),
        Some("ConnectionError"),
        "{said:?}"
    );
    assert!(
        failure(&said[0]).starts_with("executor `faulty`: "),
        "{said:?}"
    );
    let again = flow.program().line_from(lines, "faulty@");
    assert!(again.ends_with(&address), "{again} is not at {address}");
    assert_eq!(
        post(&flow, vec![texts("/mark", &["b"])]).await[0].texts,
        ["b"]
    );
}

#[tokio::test]
async fn an_executor_that_cannot_continue_says_so_and_is_restarted() {
    let flow = faulty("");
    flow.expect("replica cannot be reached").expect("faulty");
    flow.program().line("faulty@");
    let lines = flow.program().lines().len();
    let said = post(&flow, vec![texts("/last", &["x"])]).await;
    assert!(failure(&said[0]).contains("nothing works any more"));
    flow.program().line_from(lines, "faulty@");
    let said = post(&flow, vec![texts("/mark", &["y"])]).await;
    assert_eq!(said[0].texts, ["y"]);
}

#[tokio::test]
async fn a_killed_executor_fails_the_requests_in_progress_with_a_reason() {
    let flow = faulty("");
    flow.expect("replica cannot be reached").expect("faulty");
    let reply = under_way(&flow).await;
    send(flow.pid("faulty"), Signal::KILL);
    let failure = reply.await.unwrap_err();
    assert!(failure.contains("executor `faulty`"), "{failure}");
    // Requests wait for it to come back rather than fail.
    let said = post(&flow, vec![texts("/mark", &["b"])]).await;
    assert_eq!(said[0].texts, ["b"], "{said:?}");
}

#[tokio::test]
async fn idempotent_requests_are_retried_on_another_replica() {
    let flow = faulty(", replicas: 2, idempotent: true");
    flow.expect("replica cannot be reached").expect("faulty");
    let reply = under_way(&flow).await;
    // One of the two works on it: the other, idle, may go too, and then comes back.
    std::fs::write(flow.folder().join("until"), "").unwrap();
    send(flow.pid("faulty/rep-0"), Signal::KILL);
    assert_eq!(reply.await.unwrap().texts, ["x"]);
}

#[tokio::test]
async fn a_dead_replica_is_not_noticed_by_requests_that_come_later() {
    let flow = faulty(", replicas: 2");
    flow.expect("replica cannot be reached").expect("faulty");
    let dead = flow.pid("faulty/rep-0");
    send(dead, Signal::KILL);
    eventually("it is dead", || !is_alive(dead));
    let requests: Vec<Envelope> = (0..40).map(|_| texts("/count", &["x"])).collect();
    for said in post(&flow, requests).await {
        assert_eq!(said.failure, None);
    }
}

#[tokio::test]
async fn a_dead_executor_fails_only_the_requests_that_needed_it() {
    let flow = TestFlow::up(&format!(
        "executors:
  - {{name: faulty, uses: {FAULTY}, retries: 0}}
  - {{name: echo, uses: echo}}"
    ));
    flow.expect("replica cannot be reached").expect("faulty");
    let mut requests = vec![texts("/exit", &["a"])];
    requests.extend((0..20).map(|number| {
        let mut request = texts("/any", &[&number.to_string()]);
        request.header.as_mut().unwrap().target_executor = Some("echo".to_owned());
        request
    }));
    let said = post(&flow, requests).await;
    assert!(said[0].failure.is_some());
    for (number, said) in said[1..].iter().enumerate() {
        assert_eq!(said.texts, [number.to_string()]);
    }
}

#[tokio::test]
async fn a_client_that_hangs_up_costs_no_further_work() {
    let flow = faulty("");
    let reply = under_way(&flow).await;
    let client = client(&flow).await;
    let give_up = async |limit| {
        let limit = Deadline::after(Instant::now(), Some(Duration::from_millis(limit)));
        let failure = client.single(texts("/count", &["x"]), limit).await;
        assert_eq!(failure.unwrap_err().code(), Code::DeadlineExceeded);
    };
    // These wait behind it until their client gives up. When the last of them does, long after, all on
    // the way have seen the others go; of the last itself they may not have heard yet.
    futures_util::future::join_all((0..5).map(|_| give_up(50))).await;
    give_up(500).await;
    std::fs::write(flow.folder().join("until"), "").unwrap();
    assert_eq!(reply.await.unwrap().texts, ["x"]);
    let said = post(&flow, vec![texts("/count", &["x"])]).await;
    let calls = said[0].results["faulty"]["calls"].as_u64().unwrap();
    assert!(calls <= 2, "{calls} calls, and five clients had hung up");
}

#[tokio::test]
async fn a_process_that_hangs_is_restarted_while_others_do_its_work() {
    // What the process had may have run; that it may run again is said.
    let flow = faulty(", replicas: 2, idempotent: true");
    flow.expect("process does not answer health checks and is killed")
        .expect("process died and is restarted")
        .expect("replica cannot be reached");
    let pid = flow.pid("faulty/rep-0");
    send(pid, Signal::STOP);
    let requests = (0..8).map(|_| texts("/mark", &["a"])).collect();
    let said = post(&flow, requests).await;
    assert!(said.iter().all(|it| it.failure.is_none()), "{said:?}");
    flow.program()
        .line("process does not answer health checks and is killed");
    eventually("there is another process", || {
        flow.pid("faulty/rep-0") != pid
    });
    assert!(!is_alive(pid));
}
