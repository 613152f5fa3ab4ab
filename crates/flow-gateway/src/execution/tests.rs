use std::time::Duration;

use flow_core::Code;
use flow_core::query::Query;
use flow_proto::jina::EndpointsProto;
use serde_json::json;
use tokio::sync::{Semaphore, oneshot};

use crate::node::GatewayNode;
use crate::request;
use crate::snapshot_store::SnapshotStore;
use crate::tests::in_memory::{
    InMemory, documents, error, flow, flow_of, ids, in_memory, plan, request, route_names,
};

use super::*;

async fn run(flow: &SnapshotStore, envelope: Envelope) -> Finished {
    request::run(&flow.newest(), envelope, CallOptions::default()).await
}

const JOIN: [&str; 3] = [
    "a, needs: gateway",
    "b, needs: gateway",
    "joined, needs: [a, b]",
];

#[tokio::test]
async fn nodes_of_a_chain_run_one_after_another() {
    let (a, b) = (InMemory::tag("a"), InMemory::tag("b"));
    let flow = flow(plan(&["a", "b"]), &[&a, &b]);
    let finished = run(&flow, request("/x", &["1"])).await;
    assert_eq!(route_names(&finished.reply), ["a", "b"]);
    let tags = documents(&finished.reply)[0].tags();
    assert_eq!(json!(tags), json!({"a": true, "b": true}));
    let tags = documents(&b.calls()[0].parts[0])[0].tags();
    assert_eq!(json!(tags), json!({"a": true}));
}

#[tokio::test]
async fn a_request_that_one_node_has_run_is_not_reported_as_one_that_did_not_run() {
    let unavailable = InMemory::failing(Failure::new(Code::Unavailable, "no replica"));
    let code = |finished: Finished| finished.failure.unwrap().code();
    let first = flow(plan(&["a", "b"]), &[&unavailable, &InMemory::echo()]);
    let finished = run(&first, request("/x", &["1"])).await;
    assert_eq!(code(finished), Code::Unavailable);
    let second = flow(plan(&["a", "b"]), &[&InMemory::echo(), &unavailable]);
    let finished = run(&second, request("/x", &["1"])).await;
    assert_eq!(code(finished), Code::Lost);
}

#[tokio::test]
async fn a_request_beyond_its_limits_calls_no_node() {
    let node = InMemory::echo();
    let flow = flow(plan(&["a"]), &[&node]);
    let mut long = request("/x", &["1"]);
    long.header.as_mut().unwrap().exec_endpoint = Some("x".repeat(2000));
    let finished = run(&flow, long).await;
    let expected = "`exec_endpoint` has 2000 bytes; at most 1024 are allowed";
    assert_eq!(error(&finished.reply), expected);
    let header = finished.reply.header.unwrap();
    assert_eq!(header.exec_endpoint.unwrap().len(), 64);
    assert!(node.calls().is_empty());
}

#[tokio::test]
async fn branches_run_concurrently_and_a_join_waits_for_both() {
    // Each branch answers only after the other was called.
    let gates = [Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0))];
    let branch = |own: &Arc<Semaphore>, other: &Arc<Semaphore>| {
        let (own, other) = (own.clone(), other.clone());
        InMemory::new(move |request| {
            other.add_permits(1);
            let own = own.clone();
            async move {
                own.acquire().await.unwrap().forget();
                Ok(request)
            }
        })
    };
    let (a, b) = (branch(&gates[0], &gates[1]), branch(&gates[1], &gates[0]));
    let joined = InMemory::echo();
    let flow = flow(plan(&JOIN), &[&a, &b, &joined]);
    let finished = run(&flow, request("/x", &["1"])).await;
    assert_eq!(error(&finished.reply), "");
    assert_eq!(ids(&finished.reply), ["1"]);
    assert_eq!(joined.calls().len(), 1);
}

#[tokio::test]
async fn a_join_without_reduce_gets_one_part_for_each_branch() {
    let (a, b, joined) = (InMemory::tag("a"), InMemory::tag("b"), InMemory::echo());
    let mut plan = plan(&JOIN);
    plan.nodes[2].calls.reduce = false;
    run(&flow(plan, &[&a, &b, &joined]), request("/x", &["1"])).await;
    let calls = joined.calls();
    let last = |part: &Envelope| part.routes.last().unwrap().executor.clone();
    let names: Vec<String> = calls[0].parts.iter().map(last).collect();
    assert_eq!(names, ["a", "b"]);
}

#[tokio::test]
async fn a_node_whose_parent_failed_does_not_run() {
    let failed = InMemory::failing(Failure::new(Code::Lost, "gone"));
    let (b, joined) = (InMemory::echo(), InMemory::echo());
    let flow = flow(plan(&JOIN), &[&failed, &b, &joined]);
    let finished = run(&flow, request("/x", &["1"])).await;
    assert_eq!(error(&finished.reply), "executor `a`: gone");
    assert_eq!(finished.failure.unwrap().code(), Code::Lost);
    assert_eq!((b.calls().len(), joined.calls().len()), (1, 0));
}

#[tokio::test]
async fn a_failure_that_an_executor_reports_ends_the_request_as_a_reply() {
    let refusing = InMemory::new(|mut request: Envelope| async move {
        let failure = Failure::new(Code::ExecutorFailed, "no such index");
        request.header.get_or_insert_default().status = Some(failure.to_status());
        Ok(request)
    });
    let next = InMemory::echo();
    let flow = flow(plan(&["a", "b"]), &[&refusing, &next]);
    let finished = run(&flow, request("/x", &["1"])).await;
    assert_eq!(error(&finished.reply), "no such index");
    assert!(finished.failure.is_none());
    assert!(next.calls().is_empty());
}

#[tokio::test]
async fn nodes_that_the_request_does_not_address_pass_documents_on() {
    let (a, b) = (InMemory::tag("a"), InMemory::tag("b"));
    let flow = flow(plan(&["a", "b"]), &[&a, &b]);
    let mut envelope = request("/x", &["1"]);
    envelope.header.as_mut().unwrap().target_executor = Some("b".to_owned());
    let finished = run(&flow, envelope).await;
    assert!(a.calls().is_empty());
    assert_eq!(route_names(&finished.reply), ["a", "b"]);
    let route = &finished.reply.routes[1];
    assert!(route.end_time.is_some() && route.start_time == route.end_time);
    // The gateway has selected the nodes: executors must not do it again.
    let header = b.calls()[0].parts[0].header.clone().unwrap();
    assert_eq!(header.target_executor.as_deref(), Some(""));
}

#[tokio::test]
async fn a_node_without_the_endpoint_is_skipped() {
    let node = InMemory::echo();
    let flow = flow(plan(&["a"]), &[&node]);
    let snapshot = flow.newest();
    let (_, known) = snapshot.nodes().next().unwrap();
    let offered = EndpointsProto {
        endpoints: vec!["/index".to_owned()],
        ..EndpointsProto::default()
    };
    known.endpoints.set(&offered, 0);
    run(&flow, request("/search", &["1"])).await;
    assert!(node.calls().is_empty());
    run(&flow, request("/index", &["1"])).await;
    assert_eq!(node.calls().len(), 1);
}

#[tokio::test]
async fn a_condition_selects_documents_and_their_order_returns() {
    let (a, b, joined) = (InMemory::echo(), InMemory::echo(), InMemory::echo());
    let mut plan = plan(&JOIN);
    let when = |text: &str| Some(Query::parse(&json!({"text": {"$eq": text}})).unwrap());
    plan.nodes[0].calls.when = when("2");
    plan.nodes[1].calls.when = when("1");
    let flow = flow(plan, &[&a, &b, &joined]);
    let finished = run(&flow, request("/x", &["1", "2"])).await;
    assert_eq!(ids(&a.calls()[0].parts[0]), ["2"]);
    assert_eq!(ids(&b.calls()[0].parts[0]), ["1"]);
    assert_eq!(ids(&joined.calls()[0].parts[0]), ["1", "2"]);
    assert_eq!(ids(&finished.reply), ["1", "2"]);
}

#[tokio::test]
async fn the_deadline_of_a_call_is_the_earlier_of_the_clients_and_the_nodes() {
    let node = InMemory::echo();
    let deadline_of = async |own: Option<Duration>, client: Deadline| {
        let mut plan = plan(&["a"]);
        plan.nodes[0].calls.timeout = own;
        let flow = flow(plan, &[&node]);
        let options = CallOptions {
            deadline: client,
            ..CallOptions::default()
        };
        request::run(&flow.newest(), request("/x", &["1"]), options).await;
        node.calls().pop().unwrap().options.deadline
    };
    let hour = Duration::from_secs(3600);
    let client = Deadline::after(Instant::now(), Some(hour));
    assert_eq!(deadline_of(None, client).await, client);
    assert_eq!(deadline_of(Some(hour * 2), client).await, client);
    let own = deadline_of(Some(hour / 2), client).await;
    assert!(own.instant() < client.instant());
    assert_eq!(deadline_of(None, Deadline::NEVER).await, Deadline::NEVER);
}

#[tokio::test]
async fn a_floating_node_runs_after_the_reply() {
    let (called, was_called) = oneshot::channel();
    let called = std::sync::Mutex::new(Some(called));
    let gate = Arc::new(Semaphore::new(0));
    let open = gate.clone();
    let floating = InMemory::new(move |request| {
        let (called, gate) = (called.lock().unwrap().take(), gate.clone());
        async move {
            gate.acquire().await.unwrap().forget();
            if let Some(called) = called {
                called.send(()).unwrap();
            }
            Ok(request)
        }
    });
    let awaited = InMemory::echo();
    let executors = ["a, needs: gateway", "f, needs: gateway, floating: true"];
    let flow = flow(plan(&executors), &[&awaited, &floating]);
    let finished = run(&flow, request("/x", &["1"])).await;
    assert_eq!(ids(&finished.reply), ["1"]);
    open.add_permits(1);
    was_called.await.unwrap();
}

#[tokio::test]
async fn a_request_that_could_not_be_decoded_gets_a_reply_that_says_so() {
    let node = InMemory::echo();
    let flow = flow(plan(&["a"]), &[&node]);
    let mut invalid = request("/x", &[]);
    let failure = Failure::new(Code::BadRequest, "not protobuf");
    invalid.header.as_mut().unwrap().status = Some(failure.to_status());
    let finished = run(&flow, invalid).await;
    assert_eq!(error(&finished.reply), "not protobuf");
    assert!(node.calls().is_empty());
}

#[tokio::test]
async fn all_shards_are_called_and_their_replies_joined() {
    let (first, second) = (InMemory::tag("first"), InMemory::tag("second"));
    let plan = plan(&["a, shards: 2, polling: ALL"]);
    let shards = vec![in_memory(&first), in_memory(&second)];
    let flow = flow_of(plan, vec![GatewayNode::new(shards, None, None)]);
    let finished = run(&flow, request("/x", &["1"])).await;
    let tags = documents(&finished.reply)[0].tags();
    // `tags` is one field, and the first shard wins.
    assert_eq!(json!(tags), json!({"first": true}));
    assert_eq!((first.calls().len(), second.calls().len()), (1, 1));
    let shards = finished.shards.unwrap();
    assert_eq!((shards.total, shards.failed), (2, 0));
}

#[tokio::test]
async fn one_shard_in_turn_is_called_by_default() {
    let (first, second) = (InMemory::echo(), InMemory::echo());
    let shards = vec![in_memory(&first), in_memory(&second)];
    let nodes = vec![GatewayNode::new(shards, None, None)];
    let flow = flow_of(plan(&["a, shards: 2"]), nodes);
    for _ in 0..4 {
        run(&flow, request("/x", &["1"])).await;
    }
    assert_eq!((first.calls().len(), second.calls().len()), (2, 2));
}

#[tokio::test]
async fn uses_before_and_uses_after_surround_the_shards() {
    let [before, shard, after] = ["before", "shard", "after"].map(InMemory::tag);
    let node = GatewayNode::new(
        vec![in_memory(&shard), in_memory(&shard)],
        Some(in_memory(&before)),
        Some(in_memory(&after)),
    );
    let flow = flow_of(plan(&["a, shards: 2, polling: ALL"]), vec![node]);
    let finished = run(&flow, request("/x", &["1"])).await;
    assert_eq!(error(&finished.reply), "");
    let counts = [&before, &shard, &after].map(|it| it.calls().len());
    assert_eq!(counts, [1, 2, 1]);
    assert_eq!(after.calls()[0].parts.len(), 2);
    let tags = documents(&finished.reply)[0].tags();
    let expected = json!({"before": true, "shard": true, "after": true});
    assert_eq!(json!(tags), expected);
}

#[tokio::test]
async fn a_call_that_no_reply_waits_for_ends_after_ten_minutes() {
    let (awaited, floating) = (InMemory::echo(), InMemory::echo());
    let limit = async |option: &str| {
        let executors = [
            "a, needs: gateway".to_owned(),
            format!("f, needs: gateway, floating: true{option}"),
        ];
        let executors = executors.each_ref().map(String::as_str);
        let flow = flow(plan(&executors), &[&awaited, &floating]);
        run(&flow, request("/x", &["1"])).await;
        flow.newest().floating.tasks.close();
        flow.newest().floating.tasks.wait().await;
        let left = |node: &InMemory| {
            let deadline = node.calls().pop().unwrap().options.deadline;
            let left = deadline.instant().map(|it| it - Instant::now());
            left.map(|left| left.as_secs().div_ceil(10) * 10)
        };
        (left(&awaited), left(&floating))
    };
    assert_eq!(limit("").await, (None, Some(600)));
    assert_eq!(limit(", timeout_send: 1h").await, (None, Some(3600)));
}
