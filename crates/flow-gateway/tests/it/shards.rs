//! Nodes that are cut into shards: polling, merging, and what is said of those that do not answer.

use flow_core::Code;
use flow_proto::Envelope;
use flow_spec::{Places, Plan, Poll};
use tonic::{Response, Status};

use crate::fake::{Fake, documents, ids, with_ids};
use crate::house::{House, at, placed_at, plan, request, routes, wrong};
use crate::topology::tonic_client;

/// A node with these shards.
fn cut(plan: Plan, shards: &[&Fake]) -> flow_spec::Placement {
    let shards = shards.iter().map(|it| vec![at(it)]).collect();
    let places = Places {
        shards,
        ..Places::default()
    };
    placed_at(plan, &[places])
}

/// A shard that finds these documents.
async fn finding(found: &'static [&'static str]) -> Fake {
    Fake::start(move |asked| async move {
        let mut reply = asked.parts[0].clone();
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
async fn any_asks_the_shards_in_turn() {
    let shards = [Fake::echo().await, Fake::echo().await, Fake::echo().await];
    let placement = cut(polled(Poll::Any, true), &shards.each_ref());
    let house = House::open(placement).await;
    for _ in 0..6 {
        house.single(request("/x", &["1"])).await.unwrap();
    }
    assert_eq!(shards.map(|it| it.asked().len()), [2, 2, 2]);
}

#[tokio::test]
async fn all_asks_every_shard_and_merges_in_their_order() {
    let shards = [finding(&["a", "b"]).await, finding(&["b", "c"]).await];
    let house = House::open(cut(polled(Poll::All, true), &shards.each_ref())).await;
    let reply = house.single(request("/x", &["1"])).await.unwrap();
    assert_eq!(ids(&reply), ["a", "b", "c"]);
    let house = House::open(cut(polled(Poll::All, false), &shards.each_ref())).await;
    let reply = house.single(request("/x", &["1"])).await.unwrap();
    assert_eq!(ids(&reply), ["a", "b", "b", "c"]);
}

#[tokio::test]
async fn search_asks_all_and_index_one_unless_the_file_says_otherwise() {
    let shards = [Fake::echo().await, Fake::echo().await];
    let mut plan = polled(Poll::Any, true);
    plan.nodes[0]
        .calls
        .polling
        .by_endpoint
        .insert("/both".to_owned(), Poll::All);
    let house = House::open(cut(plan, &shards.each_ref())).await;
    for (endpoint, calls) in [("/index", 1), ("/search", 2), ("/both", 2), ("/other", 1)] {
        let before: usize = shards.iter().map(|it| it.asked().len()).sum();
        house.single(request(endpoint, &["1"])).await.unwrap();
        let after: usize = shards.iter().map(|it| it.asked().len()).sum();
        assert_eq!(after - before, calls, "{endpoint}");
    }
}

#[tokio::test]
async fn what_comes_before_and_after_the_shards_sees_what_a_head_would_send() {
    let (before, after) = (Fake::tag("before").await, Fake::echo().await);
    let shards = [Fake::tag("one").await, Fake::tag("two").await];
    let mut placement = cut(polled(Poll::All, true), &shards.each_ref());
    placement.places[0].before = Some(at(&before));
    placement.places[0].after = Some(at(&after));
    let house = House::open(placement).await;
    house.single(request("/x", &["1"])).await.unwrap();
    let tags = |part: &Envelope| {
        documents(part)[0]
            .tags()
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(tags(&shards[0].asked()[0].parts[0]), ["before"]);
    let parts: Vec<_> = after.asked()[0].parts.iter().map(tags).collect();
    let mut parts: Vec<Vec<String>> = parts;
    parts.iter_mut().for_each(|it| it.sort());
    assert_eq!(parts, [["before", "one"], ["before", "two"]]);
}

#[tokio::test]
async fn a_shard_that_does_not_answer_is_named_and_the_others_count() {
    let dead = Fake::failing(Status::aborted("no memory")).await;
    let shards = [finding(&["a"]).await, finding(&["b"]).await];
    let placement = cut(polled(Poll::All, true), &[&shards[0], &dead, &shards[1]]);
    let house = House::open(placement).await;
    let reply = tonic_client(&house).await;
    let reply = { reply }
        .process_single_data(request("/x", &["1"]))
        .await
        .unwrap();
    for (key, value) in [("total_shards", "3"), ("failed_shards", "1")] {
        assert_eq!(reply.metadata().get(key).unwrap(), value);
    }
    let reply = reply.into_inner();
    assert_eq!(
        (ids(&reply), wrong(&reply)),
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
async fn if_no_shard_answers_the_node_has_failed() {
    let dead = Fake::failing(Status::aborted("no memory")).await;
    let house = House::open(cut(polled(Poll::All, true), &[&dead, &dead])).await;
    let failure = house.single(request("/x", &["1"])).await.unwrap_err();
    assert_eq!(failure.code(), Code::ExecutorFailed);
    let text = failure.message();
    assert!(
        text.contains("`index`: 2 of 2 shards did not answer; shard 0: no memory"),
        "{text}"
    );
}

#[tokio::test]
async fn a_stock_head_says_how_its_shards_did() {
    let head = Fake::start(|asked| async move {
        let mut reply = Response::new(asked.parts[0].clone());
        for (key, value) in [("total_shards", "2"), ("failed_shards", "1")] {
            reply.metadata_mut().insert(key, value.parse().unwrap());
        }
        Ok(reply)
    })
    .await;
    let house = House::open(crate::house::placed(plan(&["head"]), &[&head])).await;
    let reply = house.single(request("/x", &["1"])).await.unwrap();
    let note = "1 of 2 shards did not answer".to_owned();
    assert_eq!(routes(&reply), [("head".to_owned(), note)]);
}
