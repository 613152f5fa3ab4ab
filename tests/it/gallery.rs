//! Each flow of the gallery does what its head says. `encode.yml` and `two-branches.yml` have tests of
//! their own (`encode.rs`, `joins.rs`).

use std::fs;

use std::path::Path;

use flow_core::{DocArrayVersion, Document, DocumentArray};
use flow_net::PostOptions;
use flow_proto::Envelope;
use flow_tests::{Program, TestFlow, flow_command, post, texts, texts_of};
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};

/// The text of a flow without its first lines, to be changed for a test.
fn without_head(name: &str) -> String {
    let text = fs::read_to_string(flow_tests::flow_file(name)).unwrap();
    let (_, rest) = text.split_once("jtype: Flow\n").unwrap();
    rest.to_owned()
}

#[tokio::test]
async fn echo_returns_its_input() {
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
async fn the_logger_does_not_delay_the_reply() {
    let flow = TestFlow::file("logger.yml");
    let said = post(&flow, vec![texts("/encode", &["a text"])]).await;
    assert_eq!((said[0].texts.len(), &said[0].failure), (1, &None));
}

#[tokio::test]
async fn the_external_executor_is_called_at_its_address() {
    let elsewhere = TestFlow::file("echo.yml");
    let text = without_head("external.yml").replace("54330", &elsewhere.port().to_string());
    let said = post(&TestFlow::up(&text), vec![texts("/any", &["a"])]).await;
    assert_eq!(
        (&said[0].texts[..], &said[0].failure),
        (&["a".to_owned()][..], &None)
    );
}

/// `search.yml` with its index in a folder of the test's.
fn search(folder: &Path) -> String {
    let workspace = format!("workspace: {}", folder.display());
    without_head("search.yml").replace("workspace: data", &workspace)
}

/// What `/search` finds for a query, best first.
async fn matches(flow: &TestFlow, query: Envelope) -> Vec<Document> {
    let client = flow_tests::client(flow).await;
    let requests = stream::iter([query]);
    let mut replies = client
        .post(&PostOptions::default(), requests)
        .await
        .unwrap();
    let reply = replies.next().await.unwrap().unwrap();
    let mut documents = DocumentArray::decode(&reply.data.unwrap()).unwrap();
    std::mem::take(documents[0].matches_mut().unwrap())
}

/// The texts of what `/search` finds, best first.
async fn found(flow: &TestFlow, query: &str) -> Vec<String> {
    let matches = matches(flow, texts("/search", &[query])).await;
    matches.iter().map(Document::text).collect()
}

#[tokio::test]
async fn a_search_finds_what_means_the_same_also_after_the_flow_was_killed() {
    let folder = tempfile::tempdir().unwrap();
    let text = search(folder.path());
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
async fn a_search_finds_sentences_with_the_tags_of_their_text() {
    let folder = tempfile::tempdir().unwrap();
    let flow = TestFlow::up(&search(folder.path()));
    let about = [
        "The cat sleeps on the sofa. It dreams of mice.",
        "Interest rates were raised by the central bank. Markets fell.",
    ];
    for (page, (text, version)) in about
        .into_iter()
        .zip([DocArrayVersion::V1, DocArrayVersion::V2])
        .enumerate()
    {
        let mut document = Document::of_version(version);
        document.set_text(text);
        document.set_tags(json!({ "page": page }).as_object().unwrap());
        let request = Envelope {
            data: Some(DocumentArray::from_iter([document]).encode()),
            ..texts("/index", &[])
        };
        let said = post(&flow, vec![request]).await;
        assert_eq!(said[0].failure, None);
    }
    for version in [DocArrayVersion::V1, DocArrayVersion::V2] {
        let query = texts_of(version, "/search", &["monetary policy became tighter"]);
        let matches = matches(&flow, query).await;
        assert_eq!(matches.len(), 4);
        assert_eq!(
            matches[0].text().trim(),
            "Interest rates were raised by the central bank."
        );
        for found in &matches {
            let page = about.iter().position(|it| it.contains(found.text().trim()));
            assert_eq!(found.tags()["page"], page.unwrap(), "{found:?}");
        }
    }
}

/// What `flow post` prints, and its exit code.
fn flow_post(flow: &TestFlow, arguments: &[&str]) -> (Option<i32>, Program) {
    let mut command = flow_command();
    command.args(["post", &flow.url()]).args(arguments);
    Program::run(command)
}

#[test]
fn a_search_from_the_command_line_shows_what_was_found_and_names_slips() {
    let folder = tempfile::tempdir().unwrap();
    let flow = TestFlow::up(&search(folder.path()));
    let input = flow.folder().join("texts.jsonl");
    let text = json!({"id": "eco", "text": "Interest rates were raised. Markets fell.", "tags": {"page": 3}});
    fs::write(&input, format!("{text}\n")).unwrap();
    let (code, index) = flow_post(
        &flow,
        &["--on", "/index", "--input", input.to_str().unwrap()],
    );
    assert_eq!(code, Some(0), "{}", index.said());

    let query = [
        "--on",
        "/search",
        "--text",
        "monetary policy became tighter",
    ];
    let (code, search) = flow_post(&flow, &query);
    assert_eq!(code, Some(0), "{}", search.said());
    let shown = search.stdout();
    let (_, shown) = shown.split_once("matches    2 documents\n").unwrap();
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines[0].starts_with("  cosine 0."), "{shown}");
    assert!(
        lines[0].ends_with("  Interest rates were raised."),
        "{shown}"
    );
    assert_eq!(lines[1].trim(), "eco-0  {\"page\":3}");

    let one = [&query[..], &["--parameters", "top_k:1", "--output", "-"]].concat();
    let (code, one) = flow_post(&flow, &one);
    assert_eq!(code, Some(0), "{}", one.said());
    let document: Value = serde_json::from_str(one.stdout().trim()).unwrap();
    let matches = document["matches"].as_array().unwrap();
    assert_eq!(
        (matches.len(), &matches[0]["tags"]),
        (1, &json!({"page": 3}))
    );

    let slip = [&query[..], &["--parameters", "topk:1"]].concat();
    let (code, slip) = flow_post(&flow, &slip);
    assert_eq!(code, Some(1), "{}", slip.said());
    let said = "`/search` accepts no parameter `topk`; did you mean `top_k`?";
    assert!(slip.stderr().contains(said), "{}", slip.said());

    let (code, slip) = flow_post(&flow, &["--on", "/serach", "--text", "monetary policy"]);
    assert_eq!(code, Some(2), "{}", slip.said());
    assert!(
        slip.stderr().contains("did you mean `/search`?"),
        "{}",
        slip.said()
    );
}

#[test]
fn the_state_of_the_index_is_shown_and_written() {
    let folder = tempfile::tempdir().unwrap();
    let flow = TestFlow::up(&search(folder.path()));
    let (code, status) = flow_post(&flow, &["--on", "/status"]);
    assert_eq!(code, Some(0), "{}", status.said());
    let shown = status.stdout();
    assert!(shown.starts_with("result of index\n  "), "{shown}");
    assert!(shown.contains("\n  count       0\n"), "{shown}");

    let (code, status) = flow_post(&flow, &["--on", "/status", "--output", "-"]);
    assert_eq!(code, Some(0), "{}", status.said());
    let results: Value = serde_json::from_str(status.stdout().trim()).unwrap();
    assert_eq!(results["__results__"]["index"]["count"], 0, "{results}");
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
