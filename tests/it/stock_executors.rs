//! Stock executors of both versions of DocArray behind our gateway, as `external` ones.

use flow_tests::{DocArrayVersion, Program, Stock, TestFlow, flow_command, post, texts_of};
use serde_json::json;

fn ours(version: DocArrayVersion) -> flow_core::DocArrayVersion {
    match version {
        DocArrayVersion::V1 => flow_core::DocArrayVersion::V1,
        DocArrayVersion::V2 => flow_core::DocArrayVersion::V2,
    }
}

/// All that is asked of one executor, for it takes seconds to start.
async fn check(version: DocArrayVersion) {
    let Some(stock) = Stock::executor(version) else {
        return;
    };
    let flow = TestFlow::up(&format!(
        "executors: [{{name: stock, external: true, host: 127.0.0.1, port: {}}}]",
        stock.port()
    ));
    let request = |endpoint: &str, text: &str| texts_of(ours(version), endpoint, &[text]);
    let mut with_parameters = request("/parameters", "x");
    let parameters = json!({"top_k": 5, "stock__own": "a", "other__own": "b"});
    with_parameters.parameters = Some(flow_core::parameters::from_json(
        parameters.as_object().unwrap(),
    ));

    let requests = vec![
        request("/upper", "one"),
        request("/fail", "two"),
        request("/upper", "three"),
        with_parameters,
    ];
    let said = post(&flow, requests).await;

    assert_eq!(said[0].texts, ["ONE"], "{:?}", said[0]);
    assert_eq!(said[0].routes, ["gateway", "stock"]);
    let failure = said[1].failure.as_deref().unwrap();
    assert!(
        failure.contains("the stock executor is unwell"),
        "{failure}"
    );
    assert_eq!(said[1].exception.as_deref(), Some("ValueError"));
    assert_eq!(
        said[2].texts,
        ["THREE"],
        "the stream goes on after a failure"
    );
    let (_, seen) = said[3].results.iter().next().unwrap();
    assert_eq!(
        (seen["top_k"].as_f64(), &seen["own"]),
        (Some(5.0), &json!("a")),
        "{seen}"
    );
    assert!(said.iter().all(|said| said.timed), "{said:?}");
    assert!(
        flow_tests::client(&flow)
            .await
            .dry_run(flow_core::Deadline::NEVER)
            .await
            .unwrap()
            .code
            == 0
    );
}

#[tokio::test]
async fn an_executor_of_docarray_v1_works_behind_our_gateway() {
    check(DocArrayVersion::V1).await;
}

#[tokio::test]
async fn an_executor_of_docarray_v2_works_behind_our_gateway() {
    check(DocArrayVersion::V2).await;
}

/// `flow post` sends what the executor reads, directly and through our gateway, and says what to do where
/// configured otherwise.
fn check_posts(version: DocArrayVersion) {
    let Some(stock) = Stock::executor(version) else {
        return;
    };
    let flow = TestFlow::up(&format!(
        "executors: [{{name: stock, external: true, host: 127.0.0.1, port: {}}}]",
        stock.port()
    ));
    let run = |url: &str, more: &[&str]| {
        let mut command = flow_command();
        let arguments = [
            "post", url, "--on", "/upper", "--text", "one", "--output", "-",
        ];
        command.args(arguments).args(more);
        Program::run(command)
    };
    let direct = format!("grpc://127.0.0.1:{}", stock.port());
    let (right, wrong) = match version {
        DocArrayVersion::V1 => ("v1", "v2"),
        DocArrayVersion::V2 => ("v2", "v1"),
    };
    for url in [&direct, &flow.url()] {
        let (code, fine) = run(url, &[]);
        assert_eq!(code, Some(0), "{}", fine.said());
        assert!(
            fine.stdout().contains("\"text\":\"ONE\""),
            "{}",
            fine.said()
        );

        // A stock executor may fail, or read a document of the other version as an empty one: that depends on its id.
        let (_, misread) = run(url, &["--docarray", wrong]);
        let hint = format!("try `--docarray {right}`");
        assert!(misread.stderr().contains(&hint), "{}", misread.said());
        assert!(
            !misread.stdout().contains("\"text\":\"ONE\""),
            "{}",
            misread.said()
        );
    }
}

#[test]
fn texts_are_posted_in_the_format_that_a_stock_executor_reads() {
    for version in DocArrayVersion::ALL {
        check_posts(version);
    }
}

/// A stock head merges what its stock shards say; one of them is killed then.
async fn check_head(version: DocArrayVersion) {
    let Some(shards) = Stock::markers(version, &["a", "b"]) else {
        return;
    };
    let ports: Vec<u16> = shards.iter().map(Stock::port).collect();
    let head = Stock::head(version, &ports).unwrap();
    let flow = TestFlow::up(&format!(
        "executors: [{{name: index, external: true, host: 127.0.0.1, port: {}}}]",
        head.port()
    ));
    let ask = |text| post(&flow, vec![texts_of(ours(version), "/mark", &[text])]);
    let said = ask("both ").await.remove(0);
    assert_eq!(said.failure, None);
    assert_eq!(said.routes, ["gateway", "index"]);
    // The stock merge keeps the text of whichever shard was first.
    assert!(
        [["both a"], ["both b"]].contains(&[said.texts[0].as_str()]),
        "{said:?}"
    );

    shards[1].program().signal(rustix::process::Signal::KILL);
    let said = ask("one ").await.remove(0);
    assert_eq!(said.failure, None, "{said:?}");
    assert_eq!(said.texts, ["one a"]);
}

#[tokio::test]
async fn a_stock_head_and_its_shards_work_behind_our_gateway() {
    for version in DocArrayVersion::ALL {
        check_head(version).await;
    }
}

#[tokio::test]
async fn a_stock_executor_that_is_killed_fails_its_own_requests_only() {
    let Some(stock) = Stock::executor(DocArrayVersion::V1) else {
        return;
    };
    let flow = TestFlow::up(&format!(
        "executors:
  - {{name: stock, external: true, host: 127.0.0.1, port: {}, needs: gateway}}
  - {{name: echo, uses: echo, needs: gateway}}
  - {{name: joined, uses: echo, needs: [stock, echo]}}",
        stock.port()
    ));
    flow.expect("replica cannot be reached");
    stock.program().signal(rustix::process::Signal::KILL);
    // An endpoint of its own: for others the gateway does not call it.
    let mut aside = texts_of(flow_core::DocArrayVersion::V1, "/upper", &["b"]);
    aside.header.as_mut().unwrap().target_executor = Some("echo|joined".to_owned());
    let lost = texts_of(flow_core::DocArrayVersion::V1, "/upper", &["a"]);
    let said = post(&flow, vec![lost, aside]).await;
    let failure = said[0].failure.as_deref().unwrap();
    assert!(
        failure.contains("executor `stock`: ") && failure.contains("127.0.0.1"),
        "{failure}"
    );
    assert_eq!(said[0].exception.as_deref(), Some("ConnectionError"));
    assert_eq!(said[1].texts, ["b"], "{:?}", said[1]);
}
