//! Branches, joins, conditions, and nodes that a request is not for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use flow_core::query::Query;
use flow_proto::Envelope;
use flow_spec::Source;
use serde_json::{Value, json};
use tonic::Response;

use crate::fake::{Asked, Fake, documents, first, ids, tagged, with_ids};
use crate::house::{House, placed, plan, request, routes, wrong};

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
async fn a_join_without_reduce_gets_each_branch_under_its_name() {
    let (a, b, joined) = (
        Fake::tag("a").await,
        Fake::tag("b").await,
        Fake::echo().await,
    );
    let mut plan = plan(&JOIN);
    plan.nodes[2].calls.reduce = false;
    let house = House::open(placed(plan, &[&a, &b, &joined])).await;
    house.single(request("/x", &["1"])).await.unwrap();

    let asked = joined.asked();
    let seen: Vec<_> = asked[0].parts.iter().map(tags).collect();
    assert_eq!(seen, [[json!({"a": true})], [json!({"b": true})]]);
    let last = |part: &Envelope| part.routes.last().unwrap().executor.clone();
    let names: Vec<_> = asked[0].parts.iter().map(last).collect();
    assert_eq!(names, ["a", "b"]);
}

#[tokio::test]
async fn a_join_gives_one_result_whoever_is_faster() {
    // A different branch is last each time; the delays are what is tested.
    let late = |name: &'static str, step: u64| {
        let calls = AtomicU64::new(0);
        Fake::start(move |asked| {
            let call = calls.fetch_add(1, Ordering::Relaxed);
            let delay = Duration::from_micros(call * step % 3000);
            async move {
                tokio::time::sleep(delay).await;
                Ok(tagged(first(asked), name))
            }
        })
    };
    let (a, b, joined) = (
        late("a", 1009).await,
        late("b", 757).await,
        Fake::echo().await,
    );
    let house = House::open(placed(plan(&JOIN), &[&a, &b, &joined])).await;
    let requests = vec![request("/x", &["1", "2"]); 1000];
    for reply in house.post(requests).await {
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
async fn a_join_that_a_request_is_not_for_loses_no_part() {
    let (a, b, joined) = (
        Fake::tag("a").await,
        Fake::tag("b").await,
        Fake::echo().await,
    );
    let house = House::open(placed(plan(&JOIN), &[&a, &b, &joined])).await;
    let mut asked = request("/x", &["1"]);
    asked.header.as_mut().unwrap().target_executor = Some("(a|b)".to_owned());
    let reply = house.single(asked).await.unwrap();
    let seen = &tags(&reply)[0];
    assert_eq!(
        seen,
        &json!({"a": true}),
        "tags are one field, and the first branch has it"
    );
    assert_eq!(ids(&reply), ["1"]);
    assert!(joined.asked().is_empty());
    assert_eq!(routes(&reply).len(), 3, "all three are named");
}

#[tokio::test]
async fn documents_go_where_they_match_and_come_back_in_order() {
    let (q, d, joined) = (
        Fake::tag("q").await,
        Fake::tag("d").await,
        Fake::echo().await,
    );
    let mut plan = plan(&JOIN);
    for (node, first) in plan.nodes.iter_mut().zip(["q", "d"]) {
        let query = json!({"text": {"$regex": format!("^{first}")}});
        node.calls.when = Some(Query::parse(&query).unwrap());
    }
    let house = House::open(placed(plan, &[&q, &d, &joined])).await;
    let reply = house
        .single(request("/x", &["d1", "q1", "x", "q2", "d2"]))
        .await
        .unwrap();
    assert_eq!(ids(&q.asked()[0].parts[0]), ["q1", "q2"]);
    assert_eq!(ids(&joined.asked()[0].parts[0]), ["d1", "q1", "q2", "d2"]);
    assert_eq!(ids(&reply), ["d1", "q1", "q2", "d2"]);

    let reply = house.single(request("/x", &["q1"])).await.unwrap();
    assert_eq!(ids(&reply), ["q1"]);
    assert_eq!(d.asked().len(), 1, "a node is not called for nothing");
}

#[tokio::test]
async fn several_exits_are_merged_in_their_order() {
    let (a, b) = (
        Fake::tag("a").await,
        Fake::start(|_| async {
            let data = Some(with_ids(&["1", "2"]).encode());
            Ok(Response::new(Envelope {
                data,
                ..Envelope::default()
            }))
        })
        .await,
    );
    let mut plan = plan(&["a, needs: gateway", "b, needs: gateway"]);
    let exit: Vec<Source> = plan.nodes().map(|(at, _)| Source::Node(at)).collect();
    plan.exit = exit;
    plan.nodes.iter_mut().for_each(|node| node.awaited = true);
    let house = House::open(placed(plan, &[&a, &b])).await;
    let reply = house.single(request("/x", &["1"])).await.unwrap();
    assert_eq!(ids(&reply), ["1", "2"]);
    assert_eq!(tags(&reply), [json!({"a": true}), json!({})]);
}

#[tokio::test]
async fn results_of_all_branches_come_together() {
    let returns = |key: &'static str| async move {
        Fake::start(move |asked| async move {
            let results = json!({"__results__": {key: {"n": 1}}});
            let mut reply = first(asked);
            let parameters = flow_core::parameters::from_json(results.as_object().unwrap());
            reply.get_mut().parameters = Some(parameters);
            Ok(reply)
        })
        .await
    };
    let (a, b, joined) = (
        returns("a/rep-0").await,
        returns("b/rep-0").await,
        Fake::echo().await,
    );
    let house = House::open(placed(plan(&JOIN), &[&a, &b, &joined])).await;
    let reply = house.single(request("/x", &["1"])).await.unwrap();
    let parameters = Value::Object(flow_core::parameters::to_json(reply.parameters.as_ref()));
    let all = json!({"__results__": {"a/rep-0": {"n": 1}, "b/rep-0": {"n": 1}}});
    assert_eq!(parameters, all);
    let to_joined = joined.asked()[0].parts[0].parameters.clone();
    assert_eq!(to_joined, None, "results of one never reach the next");
}

#[tokio::test]
async fn a_node_that_does_not_offer_the_endpoint_is_not_called() {
    let index = |asked: Asked| async { Ok(tagged(first(asked), "indexed")) };
    let index = Fake::offering(&["/index"], Arc::new(move |asked| Box::pin(index(asked)))).await;
    let house = House::open(placed(plan(&["index"]), &[&index])).await;
    // Until it is known, the request is sent on; an executor gives it back as it is.
    loop {
        let before = index.asked().len();
        let reply = house.single(request("/search", &["1"])).await.unwrap();
        if index.asked().len() == before {
            assert_eq!(
                (ids(&reply), tags(&reply)),
                (vec!["1".to_owned()], vec![json!({})])
            );
            break;
        }
    }
    let before = index.asked().len();
    house.single(request("/index", &["1"])).await.unwrap();
    assert_eq!(index.asked().len(), before + 1);
}

#[tokio::test]
async fn the_first_parent_that_failed_is_the_one_that_is_told() {
    let failing = |text| Fake::failing(tonic::Status::aborted(text));
    let (a, b, joined) = (
        failing("first").await,
        failing("second").await,
        Fake::echo().await,
    );
    let house = House::open(placed(plan(&JOIN), &[&a, &b, &joined])).await;
    let reply = &house.post(vec![request("/x", &["1"])]).await[0];
    assert!(wrong(reply).contains("`a`: first"), "{}", wrong(reply));
    assert!(joined.asked().is_empty());
}

#[tokio::test]
async fn executors_learn_the_endpoint_and_the_priority() {
    let echo = Fake::echo().await;
    let house = House::open(placed(plan(&["echo"]), &[&echo])).await;
    let mut client = tonic_client(&house).await;
    let mut asked = tonic::Request::new(request("/x", &["1"]));
    asked
        .metadata_mut()
        .insert("priority", "bulk".parse().unwrap());
    client.process_single_data(asked).await.unwrap();
    let metadata = &echo.asked()[0].metadata;
    assert_eq!(metadata.get("endpoint").unwrap(), "/x");
    assert_eq!(metadata.get("priority").unwrap(), "bulk");
}

type SingleClient =
    flow_proto::jina::jina_single_data_request_rpc_client::JinaSingleDataRequestRpcClient<
        tonic::transport::Channel,
    >;

pub(crate) async fn tonic_client(house: &House) -> SingleClient {
    let url = house.url.replace("grpc", "http");
    let endpoint = tonic::transport::Endpoint::from_shared(url).unwrap();
    SingleClient::new(endpoint.connect().await.unwrap())
}
