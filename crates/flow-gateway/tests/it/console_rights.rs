//! Who may read logs and change the flow in the console, and who may not: over real sockets, with a supervisor that
//! records what it is asked for.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use flow_gateway::Config;
use flow_gateway::auth::{ApiKeys, KeyEntry, KeyFile};
use flow_gateway::supervisor::{
    Action, FlowFileReport, FlowProcess, LogEntry, LogExcerpt, LogQuery, SupervisorClient,
    SupervisorError,
};
use flow_spec::{Console, Cors, Plan};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tempfile::NamedTempFile;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use crate::fake_executor::FakeExecutor;
use crate::http_client::{Answer, request};
use crate::test_gateway::{TestGateway, placement, plan};

const PAGE: (&str, &str) = ("x-flow-console", "1");
const JSON: (&str, &str) = ("content-type", "application/json");
const LOCAL: (&str, &str) = ("host", "127.0.0.1");

/// Longer than any test takes.
const LIMIT: Duration = Duration::from_secs(30);

const ACTIONS: &str = "/_console/api/actions";
const LOGS: &str = "/_console/api/logs";
const FLOW_FILE: &str = "/_console/api/flow-file";

/// A supervisor that records changes.
#[derive(Debug)]
struct Recorder {
    asked: Mutex<Vec<String>>,
    /// One permit for each change that has begun.
    begun: Semaphore,
    /// A change ends with one of these permits.
    may_end: Semaphore,
    /// The length of a log entry.
    log_len: usize,
}

impl Recorder {
    fn new() -> Arc<Self> {
        Self::with_logs(10)
    }

    fn with_logs(log_len: usize) -> Arc<Self> {
        Arc::new(Self {
            asked: Mutex::default(),
            begun: Semaphore::new(0),
            may_end: Semaphore::new(Semaphore::MAX_PERMITS),
            log_len,
        })
    }

    /// One whose changes wait until they may end.
    fn slow() -> Arc<Self> {
        let recorder = Self::new();
        recorder.may_end.forget_permits(Semaphore::MAX_PERMITS);
        recorder
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    async fn do_change(&self, action: Action) -> Result<Vec<String>, SupervisorError> {
        self.asked.lock().unwrap().push(action.to_string());
        self.begun.add_permits(1);
        self.may_end.acquire().await.unwrap().forget();
        match action {
            Action::Restart { name } if name == "nobody" => Err(SupervisorError::Refused(
                "the flow has no `nobody`".to_owned(),
            )),
            Action::Restart { name } if name == "gone" => Err(SupervisorError::Unreachable(
                "the flow has ended".to_owned(),
            )),
            action => Ok(vec![format!("{action} is done")]),
        }
    }
}

impl SupervisorClient for Recorder {
    fn processes(&self) -> BoxFuture<'_, Result<Vec<FlowProcess>, SupervisorError>> {
        std::future::ready(Ok(Vec::new())).boxed()
    }

    fn flow_file(&self) -> BoxFuture<'_, Result<FlowFileReport, SupervisorError>> {
        let problem = "line 3: no `uses`".to_owned();
        std::future::ready(Ok(FlowFileReport::Invalid { problem })).boxed()
    }

    fn change(&self, action: Action) -> BoxFuture<'_, Result<Vec<String>, SupervisorError>> {
        self.do_change(action).boxed()
    }

    fn search_logs(&self, query: LogQuery) -> BoxFuture<'_, Result<LogExcerpt, SupervisorError>> {
        let text = format!("{} {}", query.text, "x".repeat(self.log_len));
        let entries = vec![LogEntry::new(1, "node", false, &text); 30];
        let found = LogExcerpt {
            entries,
            ..LogExcerpt::default()
        };
        std::future::ready(Ok(found)).boxed()
    }
}

async fn gateway(
    recorder: &Arc<Recorder>,
    change: impl FnOnce(&mut Plan),
    configure: impl FnOnce(&mut Config),
) -> TestGateway {
    let echo = FakeExecutor::echo().await;
    let mut plan = plan(&["node"]);
    change(&mut plan);
    let supervisor: Arc<dyn SupervisorClient> = recorder.clone();
    TestGateway::configured(placement(plan, &[&echo]), |config| {
        config.supervisor = Some(supervisor);
        configure(config);
    })
    .await
}

async fn act(gateway: &TestGateway, headers: &[(&str, &str)], action: &Value) -> Answer {
    let body = action.to_string();
    request(gateway, "POST", ACTIONS, headers, body.as_bytes()).await
}

fn reload() -> Value {
    json!({"action": "reload"})
}

async fn logs(gateway: &TestGateway, headers: &[(&str, &str)]) -> Answer {
    request(gateway, "GET", LOGS, headers, b"").await
}

#[tokio::test]
async fn without_keys_a_browser_on_this_machine_may_do_everything() {
    let recorder = Recorder::new();
    let gateway = gateway(&recorder, |_| (), |_| ()).await;
    let headers = [PAGE, LOCAL, JSON, ("sec-fetch-site", "same-origin")];
    let actions = [
        json!({"action": "restart", "name": "node"}),
        json!({"action": "scale", "name": "node", "replicas": 2}),
        reload(),
    ];
    for action in &actions {
        let answer = act(&gateway, &headers, action).await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    assert_eq!(recorder.asked(), ["restart node", "scale node=2", "reload"]);
    let answer = logs(&gateway, &headers).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.header("cache-control"), "no-store");
    assert_eq!(answer.json()["entries"][0]["process"], "node");
    let file = request(&gateway, "GET", FLOW_FILE, &headers, b"").await;
    let expected = json!({"state": "invalid", "problem": "line 3: no `uses`"});
    assert_eq!(file.json(), expected);
    let rights = request(&gateway, "GET", "/_console/api/rights", &headers, b"").await;
    let rights = rights.json();
    assert_eq!(rights["actions"]["is_allowed"], true, "{rights}");
    assert_eq!(rights["logs"]["is_allowed"], true, "{rights}");
    let answer = act(
        &gateway,
        &headers,
        &json!({"action": "restart", "name": "nobody"}),
    )
    .await;
    assert_eq!(answer.status, 409, "{answer:?}");
    assert_eq!(answer.json()["detail"], "the flow has no `nobody`");
    let answer = act(
        &gateway,
        &headers,
        &json!({"action": "restart", "name": "gone"}),
    )
    .await;
    assert_eq!(answer.status, 503, "{answer:?}");
}

#[tokio::test]
async fn no_other_web_site_can_act_or_read_logs() {
    let recorder = Recorder::new();
    let any_site = |plan: &mut Plan| plan.gateway.http.cors = Cors::Any;
    let gateway = gateway(&recorder, any_site, |_| ()).await;
    let hostile: [&[(&str, &str)]; 10] = [
        // What a form or a script without permission sends.
        &[LOCAL],
        &[LOCAL, ("origin", "http://evil.example")],
        // What `cors: true` would let it send.
        &[LOCAL, PAGE, ("origin", "http://evil.example")],
        &[LOCAL, PAGE, ("origin", "null")],
        &[LOCAL, PAGE, ("sec-fetch-site", "cross-site")],
        // Another port of the same machine.
        &[LOCAL, PAGE, ("sec-fetch-site", "same-site")],
        &[LOCAL, PAGE, ("origin", "http://127.0.0.1:1")],
        // Names that point to this machine.
        &[
            ("host", "evil.example"),
            PAGE,
            ("origin", "http://evil.example"),
        ],
        &[("host", "printer"), PAGE, ("origin", "http://printer")],
        // A proxy on this machine.
        &[LOCAL, PAGE, ("x-forwarded-for", "203.0.113.9")],
    ];
    for headers in hostile {
        let with_type = [headers, &[JSON]].concat();
        let answer = act(&gateway, &with_type, &reload()).await;
        assert_eq!(answer.status, 403, "{headers:?} {answer:?}");
        assert_eq!(logs(&gateway, headers).await.status, 403, "{headers:?}");
        for path in ["/_console/api/processes", FLOW_FILE] {
            let answer = request(&gateway, "GET", path, headers, b"").await;
            assert_eq!(answer.status, 403, "{path} {headers:?}");
        }
    }
    // A form can send this type without asking.
    let headers = [LOCAL, PAGE, ("content-type", "text/plain")];
    assert_eq!(act(&gateway, &headers, &reload()).await.status, 415);
    let headers = [LOCAL, PAGE, JSON];
    for method in ["GET", "PUT", "DELETE"] {
        let body = reload().to_string();
        let answer = request(&gateway, method, ACTIONS, &headers, body.as_bytes()).await;
        assert!(answer.status >= 400, "{method} {answer:?}");
    }
    assert_eq!(recorder.asked(), [""; 0]);
}

#[tokio::test]
async fn without_keys_a_gateway_that_other_machines_reach_allows_nothing() {
    let recorder = Recorder::new();
    let open = |config: &mut Config| config.host = "0.0.0.0".to_owned();
    let gateway = gateway(&recorder, |_| (), open).await;
    let headers = [PAGE, LOCAL, JSON];
    let answer = act(&gateway, &headers, &reload()).await;
    assert_eq!(answer.status, 403, "{answer:?}");
    assert!(answer.text().contains("Set `api_keys`"), "{answer:?}");
    assert_eq!(logs(&gateway, &headers).await.status, 403);
    assert_eq!(recorder.asked(), [""; 0]);
}

#[tokio::test]
async fn a_key_must_name_what_it_allows() {
    let file = NamedTempFile::new().unwrap();
    let key = |secret: &str, endpoints: Option<&[&str]>| {
        let mut key = KeyEntry::new(secret, secret);
        key.endpoints = endpoints.map(|all| all.iter().map(|&it| it.to_owned()).collect());
        key
    };
    let keys = vec![
        key("all", None),
        key("star", Some(&["/*"])),
        key("looks", Some(&["/_console/*"])),
        key(
            "begins",
            Some(&[
                "/_console/api/*",
                "/_console/api/actions*",
                "/_console/api/logs*",
            ]),
        ),
        key("reads", Some(&["/_console/*", LOGS])),
        key("operates", Some(&["/*", LOGS, ACTIONS])),
        key("encodes", Some(&["/encode"])),
    ];
    std::fs::write(file.path(), KeyFile { keys }.to_yaml()).unwrap();
    let with_keys = |config: &mut Config| {
        config.api_keys = Some(ApiKeys {
            file: file.path().to_owned(),
            for_health: false,
        });
        // With keys it does not matter who reaches the gateway.
        config.host = "0.0.0.0".to_owned();
    };
    let recorder = Recorder::new();
    let gateway = gateway(&recorder, |_| (), with_keys).await;
    for (key, acts, reads) in [
        ("all", 403, 403),
        ("star", 403, 403),
        ("looks", 403, 403),
        ("begins", 403, 403),
        ("encodes", 403, 403),
        ("unknown", 401, 401),
        ("reads", 403, 200),
        ("operates", 200, 200),
    ] {
        let bearer = format!("Bearer {key}");
        let headers = [
            PAGE,
            JSON,
            ("host", "flow.example"),
            ("authorization", &*bearer),
        ];
        assert_eq!(
            act(&gateway, &headers, &reload()).await.status,
            acts,
            "{key}"
        );
        assert_eq!(logs(&gateway, &headers).await.status, reads, "{key}");
        // A key does not help another site.
        let evil = [&headers[..], &[("origin", "http://evil.example")]].concat();
        let refused = act(&gateway, &evil, &reload()).await.status;
        assert!(refused == 403 || refused == 401, "{key}");
    }
    let none = [PAGE, JSON, LOCAL];
    assert_eq!(act(&gateway, &none, &reload()).await.status, 401);
    assert_eq!(logs(&gateway, &none).await.status, 401);
    assert_eq!(recorder.asked(), ["reload"]);
}

#[tokio::test]
async fn a_read_only_console_shows_logs_and_changes_nothing() {
    let recorder = Recorder::new();
    let read_only = |plan: &mut Plan| plan.gateway.http.console = Console::ReadOnly;
    let gateway = gateway(&recorder, read_only, |_| ()).await;
    let headers = [PAGE, LOCAL, JSON];
    let answer = act(&gateway, &headers, &reload()).await;
    assert_eq!(answer.status, 403, "{answer:?}");
    assert!(answer.text().contains("console: read-only"), "{answer:?}");
    assert_eq!(logs(&gateway, &headers).await.status, 200);
    assert_eq!(recorder.asked(), [""; 0]);
}

#[tokio::test]
async fn a_gateway_without_a_supervisor_says_where_the_logs_are() {
    let recorder = Recorder::new();
    let gateway = gateway(&recorder, |_| (), |config| config.supervisor = None).await;
    let headers = [PAGE, LOCAL, JSON];
    let rights = request(&gateway, "GET", "/_console/api/rights", &headers, b"").await;
    let rights = rights.json();
    assert_eq!(rights["actions"]["is_allowed"], false, "{rights}");
    let why = rights["logs"]["why"].as_str().unwrap();
    assert!(why.contains("kubectl logs"), "{rights}");
    assert_eq!(act(&gateway, &headers, &reload()).await.status, 403);
    assert_eq!(logs(&gateway, &headers).await.status, 403);
}

#[tokio::test]
async fn an_invalid_action_is_refused_before_it_reaches_the_supervisor() {
    let recorder = Recorder::new();
    let gateway = gateway(&recorder, |_| (), |_| ()).await;
    let headers = [PAGE, LOCAL, JSON];
    for action in [
        json!({"action": "down"}),
        json!({"action": "reload", "file": "/etc/passwd"}),
        json!({"action": "scale", "name": "node", "replicas": 0}),
        json!({"action": "scale", "name": "node", "replicas": 65}),
        json!({"action": "restart", "name": "x".repeat(5_000)}),
        json!([]),
    ] {
        let answer = act(&gateway, &headers, &action).await;
        assert_eq!(answer.status, 400, "{action} {answer:?}");
    }
    let long = format!("{LOGS}?text={}", "x".repeat(300));
    for path in [
        &*long,
        "/_console/api/logs?file=/etc/passwd",
        "/_console/api/logs?level=loud",
    ] {
        let answer = request(&gateway, "GET", path, &headers, b"").await;
        assert_eq!(answer.status, 400, "{path} {answer:?}");
    }
    assert_eq!(recorder.asked(), [""; 0]);
}

#[tokio::test]
async fn changes_are_bounded_also_when_their_pages_leave() {
    let recorder = Recorder::slow();
    let gateway = gateway(&recorder, |_| (), |_| ()).await;
    let body = reload().to_string();
    let head = format!(
        "POST {ACTIONS} HTTP/1.1\r\nhost: 127.0.0.1\r\nx-flow-console: 1\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    for _ in 0..4 {
        let mut page = TcpStream::connect(gateway.address).await.unwrap();
        page.write_all(head.as_bytes()).await.unwrap();
        recorder.begun.acquire().await.unwrap().forget();
        // The page leaves.
        drop(page);
    }
    let headers = [PAGE, LOCAL, JSON];
    let answer = act(&gateway, &headers, &reload()).await;
    assert_eq!(answer.status, 429, "{answer:?}");
    assert_eq!(recorder.asked().len(), 4);
    recorder.may_end.add_permits(Semaphore::MAX_PERMITS);
    // The four end in tasks of their own.
    let allowed = async {
        while act(&gateway, &headers, &reload()).await.status != 200 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LIMIT, allowed).await.unwrap();
}

#[tokio::test]
async fn followers_that_never_read_delay_nothing() {
    // More than sockets buffer.
    let recorder = Recorder::with_logs(15_000);
    let gateway = gateway(&recorder, |_| (), |_| ()).await;
    let head = format!("GET {LOGS} HTTP/1.1\r\nhost: 127.0.0.1\r\nx-flow-console: 1\r\n\r\n");
    let mut pages = Vec::new();
    for _ in 0..100 {
        let mut page = TcpStream::connect(gateway.address).await.unwrap();
        // Many requests on one connection: the later ones wait for the first.
        for _ in 0..10 {
            page.write_all(head.as_bytes()).await.unwrap();
        }
        pages.push(page);
    }
    for path in [LOGS, "/_console/api/overview"] {
        let answer = request(&gateway, "GET", path, &[PAGE, LOCAL], b"").await;
        assert_eq!(answer.status, 200, "{path} {}", answer.status);
    }
    drop(pages);
}
