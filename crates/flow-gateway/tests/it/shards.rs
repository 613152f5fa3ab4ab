//! Nodes with shards: polling, merging, and shards that do not answer.

use flow_core::Code;
use flow_proto::Envelope;
use flow_spec::{NodeAddresses, Plan, Poll};
use tonic::{Response, Status};

use crate::fake_executor::{FakeExecutor, documents, ids, with_ids};
use crate::test_gateway::{TestGateway, address, error, placement_at, plan, request, routes};
use crate::topology::tonic_client;

/// A placement of a node with these shards.
fn sharded(plan: Plan, shards: &[&FakeExecutor]) -> flow_spec::Placement {
    let shards = shards.iter().map(|it| vec![address(it)]).collect();
    let places = NodeAddresses {
        shards,
        ..NodeAddresses::default()
    };
    placement_at(plan, &[places])
}

/// A shard that returns these documents.
async fn returning(found: &'static [&'static str]) -> FakeExecutor {
    FakeExecutor::start(move |call| async move {
        let mut reply = call.parts[0].clone();
        reply.data = Some(with_ids(found).encode());
        Ok(Response::new(reply))
    })
    .await
}

fn polled(poll: Poll, reduce: bool) -> Plan {
    let mut plan = plan(&["index"]);
    plan.nodes[0].calls.polling.default = poll;
    plan.nodes[0].calls.reduce = reduce;
    plan
}

#[tokio::test]
async fn with_polling_any_the_shards_take_turns() {
    let shards = [
        FakeExecutor::echo().await,
        FakeExecutor::echo().await,
        FakeExecutor::echo().await,
    ];
    let placement = sharded(polled(Poll::Any, true), &shards.each_ref());
    let gateway = TestGateway::start(placement).await;
    for _ in 0..6 {
        gateway.single(request("/x", &["1"])).await.unwrap();
    }
    assert_eq!(shards.map(|it| it.calls().len()), [2, 2, 2]);
}

#[tokio::test]
async fn with_polling_all_replies_are_merged_in_the_order_of_the_shards() {
    let shards = [returning(&["a", "b"]).await, returning(&["b", "c"]).await];
    let gateway = TestGateway::start(sharded(polled(Poll::All, true), &shards.each_ref())).await;
    let reply = gateway.single(request("/x", &["1"])).await.unwrap();
    assert_eq!(ids(&reply), ["a", "b", "c"]);
    let gateway = TestGateway::start(sharded(polled(Poll::All, false), &shards.each_ref())).await;
    let reply = gateway.single(request("/x", &["1"])).await.unwrap();
    assert_eq!(ids(&reply), ["a", "b", "b", "c"]);
}

#[tokio::test]
async fn search_goes_to_all_shards_and_index_to_one_by_default() {
    let shards = [FakeExecutor::echo().await, FakeExecutor::echo().await];
    let mut plan = polled(Poll::Any, true);
    plan.nodes[0]
        .calls
        .polling
        .by_endpoint
        .insert("/both".to_owned(), Poll::All);
    let gateway = TestGateway::start(sharded(plan, &shards.each_ref())).await;
    for (endpoint, calls) in [("/index", 1), ("/search", 2), ("/both", 2), ("/other", 1)] {
        let before: usize = shards.iter().map(|it| it.calls().len()).sum();
        gateway.single(request(endpoint, &["1"])).await.unwrap();
        let after: usize = shards.iter().map(|it| it.calls().len()).sum();
        assert_eq!(after - before, calls, "{endpoint}");
    }
}

#[tokio::test]
async fn uses_before_and_uses_after_get_what_a_head_would_send() {
    let (before, after) = (
        FakeExecutor::tag("before").await,
        FakeExecutor::echo().await,
    );
    let shards = [
        FakeExecutor::tag("one").await,
        FakeExecutor::tag("two").await,
    ];
    let mut placement = sharded(polled(Poll::All, true), &shards.each_ref());
    placement.addresses[0].before = Some(address(&before));
    placement.addresses[0].after = Some(address(&after));
    let gateway = TestGateway::start(placement).await;
    gateway.single(request("/x", &["1"])).await.unwrap();
    let tags = |part: &Envelope| {
        documents(part)[0]
            .tags()
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(tags(&shards[0].calls()[0].parts[0]), ["before"]);
    let parts: Vec<_> = after.calls()[0].parts.iter().map(tags).collect();
    let mut parts: Vec<Vec<String>> = parts;
    parts.iter_mut().for_each(|it| it.sort());
    assert_eq!(parts, [["before", "one"], ["before", "two"]]);
}

#[tokio::test]
async fn a_shard_that_does_not_answer_is_named_and_the_others_are_used() {
    let dead = FakeExecutor::failing(Status::aborted("no memory")).await;
    let shards = [returning(&["a"]).await, returning(&["b"]).await];
    let placement = sharded(polled(Poll::All, true), &[&shards[0], &dead, &shards[1]]);
    let gateway = TestGateway::start(placement).await;
    let reply = tonic_client(&gateway).await;
    let reply = { reply }
        .process_single_data(request("/x", &["1"]))
        .await
        .unwrap();
    for (key, value) in [("total_shards", "3"), ("failed_shards", "1")] {
        assert_eq!(reply.metadata().get(key).unwrap(), value);
    }
    let reply = reply.into_inner();
    assert_eq!(
        (ids(&reply), error(&reply)),
        (vec!["a".to_owned(), "b".to_owned()], String::new())
    );
    let (name, note) = &routes(&reply)[0];
    assert_eq!(name, "index");
    assert!(
        note.starts_with("1 of 3 shards did not answer; shard 1: no memory"),
        "{note}"
    );
}

#[tokio::test]
async fn a_node_fails_if_no_shard_answers() {
    let dead = FakeExecutor::failing(Status::aborted("no memory")).await;
    let gateway = TestGateway::start(sharded(polled(Poll::All, true), &[&dead, &dead])).await;
    let failure = gateway.single(request("/x", &["1"])).await.unwrap_err();
    assert_eq!(failure.code(), Code::ExecutorFailed);
    let text = failure.message();
    assert!(
        text.contains("`index`: 2 of 2 shards did not answer; shard 0: no memory"),
        "{text}"
    );
}

#[tokio::test]
async fn the_shards_of_a_stock_head_are_reported() {
    let head = FakeExecutor::start(|call| async move {
        let mut reply = Response::new(call.parts[0].clone());
        for (key, value) in [("total_shards", "2"), ("failed_shards", "1")] {
            reply.metadata_mut().insert(key, value.parse().unwrap());
        }
        Ok(reply)
    })
    .await;
    let gateway =
        TestGateway::start(crate::test_gateway::placement(plan(&["head"]), &[&head])).await;
    let reply = gateway.single(request("/x", &["1"])).await.unwrap();
    let note = "1 of 2 shards did not answer".to_owned();
    assert_eq!(routes(&reply), [("head".to_owned(), note)]);
}
