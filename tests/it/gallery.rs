//! Each flow of the gallery does what its head says. `encode.yml` and `two-branches.yml` have tests of
//! their own (`encode.rs`, `joins.rs`).

use std::fs;

use flow_core::DocumentArray;
use flow_net::PostOptions;
use flow_tests::{TestFlow, post, texts};
use futures_util::{StreamExt, stream};

/// The text of a flow without its first lines, to be changed for a test.
fn without_head(name: &str) -> String {
    let text = fs::read_to_string(flow_tests::flow_file(name)).unwrap();
    let (_, rest) = text.split_once("jtype: Flow\n").unwrap();
    rest.to_owned()
}

#[tokio::test]
async fn echo_gives_back_what_it_gets() {
    let said = post(&TestFlow::file("echo.yml"), vec![texts("/any", &["a"])]).await;
    assert_eq!(said[0].texts, ["a"]);
}

#[tokio::test]
async fn the_router_gives_all_documents_back_in_their_order() {
    let flow = TestFlow::file("router.yml");
    let sent = ["where?", "here", "why?", "because", "who?"];
    let said = post(&flow, vec![texts("/any", &sent)]).await;
    assert_eq!(said[0].failure, None);
    assert_eq!(said[0].texts, sent);
}

#[tokio::test]
async fn replicas_answer_every_request() {
    let flow = TestFlow::file("replicas.yml");
    let requests = (0..30).map(|_| texts("/encode", &["a text"])).collect();
    for said in post(&flow, requests).await {
        assert_eq!((said.texts.len(), said.failure), (1, None));
    }
}

#[tokio::test]
async fn the_logger_is_not_in_the_reply_s_way() {
    let flow = TestFlow::file("logger.yml");
    let said = post(&flow, vec![texts("/encode", &["a text"])]).await;
    assert_eq!((said[0].texts.len(), &said[0].failure), (1, &None));
}

#[tokio::test]
async fn the_external_executor_is_called_where_it_is() {
    let elsewhere = TestFlow::file("echo.yml");
    let text = without_head("external.yml").replace("54330", &elsewhere.port().to_string());
    let said = post(&TestFlow::up(&text), vec![texts("/any", &["a"])]).await;
    assert_eq!(
        (&said[0].texts[..], &said[0].failure),
        (&["a".to_owned()][..], &None)
    );
}

/// What `/search` finds for a query, best first: the texts of its matches.
async fn found(flow: &TestFlow, query: &str) -> Vec<String> {
    let client = flow_tests::client(flow).await;
    let requests = stream::iter([texts("/search", &[query])]);
    let mut replies = client
        .post(&PostOptions::default(), requests)
        .await
        .unwrap();
    let reply = replies.next().await.unwrap().unwrap();
    let documents = DocumentArray::decode(&reply.data.unwrap()).unwrap();
    let document = documents[0].to_json().unwrap();
    let matches = document["matches"].as_array();
    let matches = matches.unwrap_or_else(|| panic!("{document}")).iter();
    matches
        .map(|it| it["text"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn a_search_finds_what_means_the_same_also_after_the_flow_was_killed() {
    let folder = tempfile::tempdir().unwrap();
    let workspace = format!("workspace: {}", folder.path().display());
    let text = without_head("search.yml").replace("workspace: data", &workspace);
    let flow = TestFlow::up(&text);
    let about = [
        "The cat sleeps on the sofa. It dreams of mice.",
        "Interest rates were raised by the central bank. Markets fell.",
        "The recipe needs flour. Bake it for an hour.",
    ];
    let said = post(&flow, vec![texts("/index", &about)]).await;
    assert_eq!(said[0].failure, None);
    let query = "monetary policy became tighter";
    let sentence = "Interest rates were raised by the central bank.";
    assert_eq!(found(&flow, query).await[0].trim(), sentence);

    flow_tests::send(flow.program().pid(), rustix::process::Signal::KILL);
    let index = flow.pid("index");
    flow_tests::eventually("the index ends with its flow", || {
        !flow_tests::is_alive(index)
    });
    let again = TestFlow::up(&text);
    assert_eq!(found(&again, query).await[0].trim(), sentence);
}

#[tokio::test]
async fn shards_keep_a_part_each_and_are_searched_together() {
    let folder = tempfile::tempdir().unwrap();
    let workspace = format!("workspace: {}", folder.path().display());
    let flow = TestFlow::up(&without_head("sharded.yml").replace("workspace: data", &workspace));
    let all = ["a cat", "a dog", "a horse", "a cow"];
    let requests = all.iter().map(|text| texts("/index", &[text])).collect();
    for said in post(&flow, requests).await {
        assert_eq!(said.failure, None);
    }
    // What one shard found, best first, and then what the other did.
    let mut found = found(&flow, "a cat").await;
    found.sort();
    assert_eq!(found, ["a cat", "a cow", "a dog", "a horse"]);
}
