//! Branches, joins, conditions, and nodes that a request does not address.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use flow_core::query::Query;
use flow_proto::Envelope;
use flow_spec::DocumentSource;
use serde_json::{Value, json};
use tonic::Response;

use crate::fake_executor::{Call, FakeExecutor, documents, first, ids, tagged, with_ids};
use crate::test_gateway::{TestGateway, error, placement, plan, request, routes};

const JOIN: [&str; 3] = [
    "a, needs: gateway",
    "b, needs: gateway",
    "joined, needs: [a, b]",
];

fn tags(reply: &Envelope) -> Vec<Value> {
    let tags = documents(reply);
    tags.iter().map(|it| Value::Object(it.tags())).collect()
}

#[tokio::test]
async fn a_join_without_reduce_gets_each_branch_with_its_name() {
    let (a, b, joined) = (
        FakeExecutor::tag("a").await,
        FakeExecutor::tag("b").await,
        FakeExecutor::echo().await,
    );
    let mut plan = plan(&JOIN);
    plan.nodes[2].calls.reduce = false;
    let gateway = TestGateway::start(placement(plan, &[&a, &b, &joined])).await;
    gateway.single(request("/x", &["1"])).await.unwrap();

    let calls = joined.calls();
    let seen: Vec<_> = calls[0].parts.iter().map(tags).collect();
    assert_eq!(seen, [[json!({"a": true})], [json!({"b": true})]]);
    let last = |part: &Envelope| part.routes.last().unwrap().executor.clone();
    let names: Vec<_> = calls[0].parts.iter().map(last).collect();
    assert_eq!(names, ["a", "b"]);
}

#[tokio::test]
async fn a_join_has_the_same_result_whichever_branch_is_faster() {
    // The delays make a different branch the last one each time.
    let late = |name: &'static str, step: u64| {
        let calls = AtomicU64::new(0);
        FakeExecutor::start(move |call| {
            let number = calls.fetch_add(1, Ordering::Relaxed);
            let delay = Duration::from_micros(number * step % 3000);
            async move {
                tokio::time::sleep(delay).await;
                Ok(tagged(first(call), name))
            }
        })
    };
    let (a, b, joined) = (
        late("a", 1009).await,
        late("b", 757).await,
        FakeExecutor::echo().await,
    );
    let gateway = TestGateway::start(placement(plan(&JOIN), &[&a, &b, &joined])).await;
    let requests = vec![request("/x", &["1", "2"]); 1000];
    for reply in gateway.post(requests).await {
        assert_eq!(
            (ids(&reply), tags(&reply)),
            (
                vec!["1".to_owned(), "2".to_owned()],
                vec![json!({"a": true}); 2]
            )
        );
    }
}

#[tokio::test]
async fn a_join_that_is_not_addressed_passes_every_part_on() {
    let (a, b, joined) = (
        FakeExecutor::tag("a").await,
        FakeExecutor::tag("b").await,
        FakeExecutor::echo().await,
    );
    let gateway = TestGateway::start(placement(plan(&JOIN), &[&a, &b, &joined])).await;
    let mut addressed = request("/x", &["1"]);
    addressed.header.as_mut().unwrap().target_executor = Some("(a|b)".to_owned());
    let reply = gateway.single(addressed).await.unwrap();
    let seen = &tags(&reply)[0];
    assert_eq!(
        seen,
        &json!({"a": true}),
        "`tags` is one field, and the first branch wins"
    );
    assert_eq!(ids(&reply), ["1"]);
    assert!(joined.calls().is_empty());
    assert_eq!(routes(&reply).len(), 3, "all three are named");
}

#[tokio::test]
async fn documents_go_to_the_matching_nodes_and_return_in_order() {
    let (q, d, joined) = (
        FakeExecutor::tag("q").await,
        FakeExecutor::tag("d").await,
        FakeExecutor::echo().await,
    );
    let mut plan = plan(&JOIN);
    for (node, first) in plan.nodes.iter_mut().zip(["q", "d"]) {
        let query = json!({"text": {"$regex": format!("^{first}")}});
        node.calls.when = Some(Query::parse(&query).unwrap());
    }
    let gateway = TestGateway::start(placement(plan, &[&q, &d, &joined])).await;
    let reply = gateway
        .single(request("/x", &["d1", "q1", "x", "q2", "d2"]))
        .await
        .unwrap();
    assert_eq!(ids(&q.calls()[0].parts[0]), ["q1", "q2"]);
    assert_eq!(ids(&joined.calls()[0].parts[0]), ["d1", "q1", "q2", "d2"]);
    assert_eq!(ids(&reply), ["d1", "q1", "q2", "d2"]);

    let reply = gateway.single(request("/x", &["q1"])).await.unwrap();
    assert_eq!(ids(&reply), ["q1"]);
    assert_eq!(d.calls().len(), 1, "a node without documents is not called");
}

#[tokio::test]
async fn several_exits_are_merged_in_their_order() {
    let (a, b) = (
        FakeExecutor::tag("a").await,
        FakeExecutor::start(|_| async {
            let data = Some(with_ids(&["1", "2"]).encode());
            Ok(Response::new(Envelope {
                data,
                ..Envelope::default()
            }))
        })
        .await,
    );
    let mut plan = plan(&["a, needs: gateway", "b, needs: gateway"]);
    let exit: Vec<DocumentSource> = plan
        .nodes()
        .map(|(at, _)| DocumentSource::Node(at))
        .collect();
    plan.exit = exit;
    plan.nodes.iter_mut().for_each(|node| node.awaited = true);
    let gateway = TestGateway::start(placement(plan, &[&a, &b])).await;
    let reply = gateway.single(request("/x", &["1"])).await.unwrap();
    assert_eq!(ids(&reply), ["1", "2"]);
    assert_eq!(tags(&reply), [json!({"a": true}), json!({})]);
}

#[tokio::test]
async fn results_of_all_branches_are_collected() {
    let returns = |key: &'static str| async move {
        FakeExecutor::start(move |call| async move {
            let results = json!({"__results__": {key: {"n": 1}}});
            let mut reply = first(call);
            let parameters = flow_core::parameters::from_json(results.as_object().unwrap());
            reply.get_mut().parameters = Some(parameters);
            Ok(reply)
        })
        .await
    };
    let (a, b, joined) = (
        returns("a/rep-0").await,
        returns("b/rep-0").await,
        FakeExecutor::echo().await,
    );
    let gateway = TestGateway::start(placement(plan(&JOIN), &[&a, &b, &joined])).await;
    let reply = gateway.single(request("/x", &["1"])).await.unwrap();
    let parameters = flow_core::parameters::to_json(reply.parameters.as_ref()).unwrap();
    let parameters = Value::Object(parameters);
    let all = json!({"__results__": {"a/rep-0": {"n": 1}, "b/rep-0": {"n": 1}}});
    assert_eq!(parameters, all);
    let to_joined = joined.calls()[0].parts[0].parameters.clone();
    assert_eq!(
        to_joined, None,
        "the results of one node are not sent to the next"
    );
}

#[tokio::test]
async fn a_node_that_does_not_offer_the_endpoint_is_not_called() {
    let index = |call: Call| async { Ok(tagged(first(call), "indexed")) };
    let index =
        FakeExecutor::offering(&["/index"], Arc::new(move |call| Box::pin(index(call)))).await;
    let gateway = TestGateway::start(placement(plan(&["index"]), &[&index])).await;
    // Until the endpoints are known, the request is sent, and the executor returns it unchanged.
    loop {
        let before = index.calls().len();
        let reply = gateway.single(request("/search", &["1"])).await.unwrap();
        if index.calls().len() == before {
            assert_eq!(
                (ids(&reply), tags(&reply)),
                (vec!["1".to_owned()], vec![json!({})])
            );
            break;
        }
    }
    let before = index.calls().len();
    gateway.single(request("/index", &["1"])).await.unwrap();
    assert_eq!(index.calls().len(), before + 1);
}

#[tokio::test]
async fn the_failure_of_the_first_parent_is_reported() {
    let failing = |text| FakeExecutor::failing(tonic::Status::aborted(text));
    let (a, b, joined) = (
        failing("first").await,
        failing("second").await,
        FakeExecutor::echo().await,
    );
    let gateway = TestGateway::start(placement(plan(&JOIN), &[&a, &b, &joined])).await;
    let reply = &gateway.post(vec![request("/x", &["1"])]).await[0];
    assert!(error(reply).contains("`a`: first"), "{}", error(reply));
    assert!(joined.calls().is_empty());
}

#[tokio::test]
async fn executors_get_the_endpoint_and_the_priority() {
    let echo = FakeExecutor::echo().await;
    let gateway = TestGateway::start(placement(plan(&["echo"]), &[&echo])).await;
    let mut client = tonic_client(&gateway).await;
    let mut message = tonic::Request::new(request("/x", &["1"]));
    message
        .metadata_mut()
        .insert("priority", "bulk".parse().unwrap());
    client.process_single_data(message).await.unwrap();
    let metadata = &echo.calls()[0].metadata;
    assert_eq!(metadata.get("endpoint").unwrap(), "/x");
    assert_eq!(metadata.get("priority").unwrap(), "bulk");
}

type SingleClient =
    flow_net::grpc::jina_single_data_request_rpc_client::JinaSingleDataRequestRpcClient<
        tonic::transport::Channel,
    >;

pub(crate) async fn tonic_client(gateway: &TestGateway) -> SingleClient {
    let url = gateway.url.replace("grpc", "http");
    let endpoint = tonic::transport::Endpoint::from_shared(url).unwrap();
    SingleClient::new(endpoint.connect().await.unwrap())
}
