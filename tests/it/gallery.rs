//! Each flow of the gallery does what its head says. `encode.yml` and `two-branches.yml` have tests of
//! their own (`encode.rs`, `joins.rs`).

use std::fs;

use flow_tests::{TestFlow, post, texts};

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
