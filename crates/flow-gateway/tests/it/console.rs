//! The console over real sockets: who gets the page, who gets its data, and what the data says.

use flow_core::Secret;
use flow_gateway::auth::{ApiKeys, KeyEntry, KeyFile};
use flow_spec::{Console, GatewayPort, Plan, Protocol};
use serde_json::{Value, json};
use tempfile::NamedTempFile;
use tonic::Status;

use crate::fake_executor::{FakeExecutor, first};
use crate::http_client::{Answer, get, post, request};
use crate::test_gateway::{TestGateway, placement, plan};

/// What Chromium sends when it opens a page.
const BROWSER: (&str, &str) = (
    "accept",
    "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8",
);

const PAGE: (&str, &str) = ("x-flow-console", "1");

async fn gateway(executor: &FakeExecutor, change: impl FnOnce(&mut Plan)) -> TestGateway {
    let mut plan = plan(&["node"]);
    change(&mut plan);
    TestGateway::start(placement(plan, &[executor])).await
}

async fn open(gateway: &TestGateway, path: &str, headers: &[(&str, &str)]) -> Answer {
    request(gateway, "GET", path, headers, b"").await
}

/// The console's data at a path.
async fn data(gateway: &TestGateway, path: &str) -> Value {
    let answer = open(gateway, &format!("/_console/api/{path}"), &[PAGE]).await;
    assert_eq!(answer.status, 200, "{path}: {answer:?}");
    assert_eq!(answer.header("cache-control"), "no-store");
    answer.json()
}

#[tokio::test]
async fn a_browser_gets_the_page_and_other_clients_get_jinas_json() {
    let echo = FakeExecutor::echo().await;
    let gateway = gateway(&echo, |_| ()).await;
    let page = open(&gateway, "/", &[BROWSER]).await;
    assert!(page.text().starts_with("<!doctype html>"), "{page:?}");
    assert_eq!(page.header("content-type"), "text/html; charset=utf-8");
    for (name, expected) in [
        ("x-frame-options", "DENY"),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
    ] {
        assert_eq!(page.header(name), expected, "{name}");
    }
    let policy = page.header("content-security-policy").to_owned();
    assert!(policy.starts_with("default-src 'none';"), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    for accept in ["*/*", "application/json", ""] {
        let answer = open(&gateway, "/", &[("accept", accept)]).await;
        assert_eq!((answer.status, answer.json()), (200, json!({})), "{accept}");
        assert_eq!(answer.header("content-type"), "application/json");
        assert_eq!(answer.header("content-security-policy"), "");
    }
}

#[tokio::test]
async fn the_page_is_small_and_names_only_files_that_the_gateway_has() {
    let echo = FakeExecutor::echo().await;
    let gateway = gateway(&echo, |_| ()).await;
    let page = open(&gateway, "/", &[BROWSER]).await.text();
    let mut whole = page.clone();
    let mut wanted: Vec<String> = ["style.css", "icon.svg", "app.js"]
        .map(str::to_owned)
        .into();
    for name in &wanted {
        assert!(page.contains(&format!("_console/{name}\"")), "{name}");
    }
    let mut at = 0;
    while let Some(name) = wanted.get(at).cloned() {
        at += 1;
        let file = get(&gateway, &format!("/_console/{name}")).await;
        assert_eq!(file.status, 200, "{name}");
        assert_ne!(file.header("content-security-policy"), "", "{name}");
        let text = file.text();
        for import in text.lines().filter_map(|it| it.split_once(" from \"./")) {
            let import = import.1.trim_end_matches("\";").to_owned();
            if !wanted.contains(&import) {
                wanted.push(import);
            }
        }
        whole.push_str(&text);
    }
    assert!(wanted.len() > 10, "{wanted:?}");
    assert!(whole.len() < 150_000, "{} bytes", whole.len());
    // Texts of clients must not become elements, and nothing comes from elsewhere.
    for part in [
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "eval(",
        "https://",
        "style=",
    ] {
        assert!(!whole.contains(part), "`{part}`");
    }
    assert_eq!(get(&gateway, "/_console/nothing.js").await.status, 404);
}

#[tokio::test]
async fn a_gateway_without_a_console_has_none_of_its_routes() {
    let echo = FakeExecutor::echo().await;
    let gateway = gateway(&echo, |plan| plan.gateway.http.console = Console::Off).await;
    let answer = open(&gateway, "/", &[BROWSER]).await;
    assert_eq!((answer.status, answer.json()), (200, json!({})));
    for path in ["/_console/app.js", "/_console/api/overview"] {
        assert_eq!(open(&gateway, path, &[PAGE]).await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn only_the_port_of_the_console_serves_it() {
    let echo = FakeExecutor::echo().await;
    let gateway = gateway(&echo, |plan| {
        let more = GatewayPort {
            port: None,
            protocols: vec![Protocol::Grpc],
        };
        plan.gateway.more_ports = vec![more];
        plan.gateway.http.console_port = Some(1);
    })
    .await;
    let path = "/_console/api/overview";
    assert_eq!(open(&gateway, path, &[PAGE]).await.status, 404);
    let answer = open(&gateway, "/", &[BROWSER]).await;
    assert_eq!(answer.json(), json!({}));
    let answer = gateway.at(0).request("GET", path, &[PAGE], b"").await;
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn an_executor_may_have_an_endpoint_of_any_name() {
    let path = "/_console/api/overview";
    let echo = FakeExecutor::describing_documents(&[path], None).await;
    let gateway = gateway(&echo, |_| ()).await;
    let answer = post(&gateway, path, &json!({"data": [{"text": "a"}]})).await;
    assert_eq!(answer.json()["data"][0]["text"], "a");
    assert_eq!(echo.calls().len(), 1);
}

#[tokio::test]
async fn the_data_is_for_the_page_alone() {
    let echo = FakeExecutor::echo().await;
    let gateway = gateway(&echo, |plan| plan.gateway.http.cors = flow_spec::Cors::Any).await;
    let path = "/_console/api/overview";
    let refused = |headers: Vec<(&'static str, &'static str)>| {
        let gateway = &gateway;
        async move { open(gateway, path, &headers).await.status }
    };
    assert_eq!(refused(vec![PAGE]).await, 200);
    assert_eq!(refused(vec![]).await, 403);
    assert_eq!(
        refused(vec![PAGE, ("sec-fetch-site", "cross-site")]).await,
        403
    );
    assert_eq!(
        refused(vec![PAGE, ("origin", "http://evil.example")]).await,
        403
    );
}

#[tokio::test]
async fn requests_are_counted_and_failures_are_kept_with_their_cause() {
    let executor = FakeExecutor::start(async |call| {
        let reply = first(call);
        let header = reply.get_ref().header.as_ref();
        match header.and_then(|it| it.exec_endpoint.as_deref()) {
            Some("/fail") => Err(Status::invalid_argument("<b>no</b>")),
            _ => Ok(reply),
        }
    })
    .await;
    let gateway = gateway(&executor, |_| ()).await;
    for (endpoint, id) in [("/good", "good-one"), ("/fail", "bad-one")] {
        let body = json!({"data": [{"text": "a"}], "execEndpoint": endpoint}).to_string();
        let id = ("x-request-id", id);
        request(&gateway, "POST", "/post", &[id], body.as_bytes()).await;
    }
    let overview = data(&gateway, "overview").await;
    assert_eq!(overview["recent"]["requests"], 2, "{overview}");
    assert_eq!(overview["recent"]["failed"], 1, "{overview}");
    let node = &overview["nodes"][0];
    assert_eq!(node["name"], "node");
    assert_eq!(node["recent"]["requests"], 2, "{overview}");
    assert_eq!(node["shards"][0][0]["state"], "ready", "{overview}");
    let history = data(&gateway, "history").await;
    let counted = |report: &Value, of: &str| {
        let used = report["used"].as_array().unwrap().iter();
        used.map(|slot| slot[of].as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!(
        (counted(&history, "requests"), counted(&history, "failed")),
        (2, 1)
    );
    assert_eq!(
        counted(&data(&gateway, "history?node=node").await, "requests"),
        2
    );
    assert_eq!(
        counted(&data(&gateway, "history?node=none").await, "requests"),
        0
    );
    let requests = data(&gateway, "requests").await;
    let failure = &requests["failures"][0];
    assert_eq!(failure["id"], "bad-one", "{requests}");
    assert_eq!(failure["protocol"], "http", "{requests}");
    assert_eq!(failure["client"], "127.0.0.1", "{requests}");
    assert_eq!(failure["documents"], 1, "{requests}");
    let cause = failure["failure"]["cause"].as_str().unwrap();
    assert!(cause.contains("<b>no</b>"), "{cause}");
    assert_eq!(requests["slow"][0]["id"], "good-one", "{requests}");
    assert_eq!(
        requests["slow"][0]["nodes"][0]["name"], "node",
        "{requests}"
    );
}

#[tokio::test]
async fn the_flow_is_described_without_its_secrets() {
    let echo = FakeExecutor::describing_documents(&["/encode"], None).await;
    let gateway = gateway(&echo, |plan| {
        let metadata = ("token".to_owned(), "hidden-value".to_owned());
        plan.nodes[0].calls.metadata = Secret::new(vec![metadata]);
    })
    .await;
    let flow = data(&gateway, "flow").await;
    let cards = flow["drawing"]["cards"].as_array().unwrap();
    assert_eq!(cards[1]["title"], "node");
    assert!(cards[1]["width"].as_f64().unwrap() > 100.0, "{flow}");
    assert!(!flow.to_string().contains("hidden-value"), "{flow}");
    let known = data(&gateway, "endpoints").await;
    assert_eq!(known["endpoints"][0]["name"], "/encode", "{known}");
    assert_eq!(
        known["endpoints"][0]["executors"],
        json!(["node"]),
        "{known}"
    );
}

#[tokio::test]
async fn with_api_keys_the_page_opens_without_one_and_its_data_does_not() {
    let file = NamedTempFile::new().unwrap();
    let key = |name: &str, secret: &str, endpoints: Option<&[&str]>| {
        let mut key = KeyEntry::new(name, secret);
        key.endpoints = endpoints.map(|all| all.iter().map(|&it| it.to_owned()).collect());
        key
    };
    let keys = vec![
        key("all", "a", None),
        key("encodes", "b", Some(&["/encode"])),
        key("looks", "c", Some(&["/_console/*"])),
    ];
    std::fs::write(file.path(), KeyFile { keys }.to_yaml()).unwrap();
    let api_keys = ApiKeys {
        file: file.path().to_owned(),
        for_health: false,
    };
    let echo = FakeExecutor::echo().await;
    let placement = placement(plan(&["node"]), &[&echo]);
    let gateway = TestGateway::with_keys(placement, api_keys).await;
    assert_eq!(open(&gateway, "/", &[BROWSER]).await.status, 200);
    assert_eq!(open(&gateway, "/_console/app.js", &[]).await.status, 200);
    assert_eq!(open(&gateway, "/", &[]).await.status, 401);
    let status = async |authorization: &str| {
        let headers = [PAGE, ("authorization", authorization)];
        let answer = open(&gateway, "/_console/api/overview", &headers).await;
        answer.status
    };
    assert_eq!(
        open(&gateway, "/_console/api/overview", &[PAGE])
            .await
            .status,
        401
    );
    assert_eq!(status("Bearer wrong").await, 401);
    assert_eq!(status("Bearer b").await, 403);
    assert_eq!(status("Bearer a").await, 200);
    assert_eq!(status("Bearer c").await, 200);
}
