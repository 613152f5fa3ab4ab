//! The console in a real browser.

use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use flow_proto::Envelope;
use flow_tests::raw::encoded;
use flow_tests::{DocArrayVersion, TestFlow, python, said, skipped, texts};
use prost::Message;
use serde_json::{Value, json};

use crate::FAULTY;

/// Where Debian and others put Chromium.
const PROGRAMS: [&str; 4] = [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
];

/// The browser; `None` if the test is skipped, which it reports.
fn chromium() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let programs = PROGRAMS
        .iter()
        .flat_map(|name| folders.iter().map(move |it| it.join(name)));
    let found = programs.into_iter().find(|it| it.is_file());
    if found.is_none() {
        skipped("no Chromium; Debian's package is `chromium`");
    }
    found
}

/// What the browser found at a flow.
fn browse(flow: &TestFlow, task: &str, rest: &[&str]) -> Option<Value> {
    let program = chromium()?.display().to_string();
    let url = format!("http://127.0.0.1:{}/", flow.port());
    let mut arguments = vec![program, url, task.to_owned()];
    arguments.extend(rest.iter().map(|&it| it.to_owned()));
    python(DocArrayVersion::V2, "console.py", &arguments)
}

/// Sends a request that the flow answers, or not.
async fn send(flow: &TestFlow, endpoint: &str, of: &[&str]) {
    let client = flow_tests::client(flow).await;
    let reply = client.single(texts(endpoint, of), flow_core::Deadline::NEVER);
    drop(reply.await);
}

fn list(value: &Value) -> Vec<String> {
    let values = value.as_array().unwrap().iter();
    values
        .map(|it| it.as_str().unwrap_or_default().to_owned())
        .collect()
}

#[tokio::test]
async fn a_browser_shows_a_flow_with_its_traffic_its_failures_and_its_vectors() {
    let faulty = format!("{{name: faulty, uses: {FAULTY}, replicas: 2, needs: encoder}}");
    let side = "{name: audit, uses: echo, floating: true, needs: encoder}";
    let flow = TestFlow::up(&format!(
        "with: {{name: search}}\nexecutors: [{{name: encoder, uses: sentence-encoder}}, {faulty}, {side}]"
    ));
    flow.expect("request failed");
    for round in 0..40 {
        send(&flow, "/encode", &[&format!("text {round}"), "another"]).await;
    }
    send(&flow, "/slow", &["2000"]).await;
    send(&flow, "/fail", &["<img src=x onerror=alert(1)>"]).await;
    send(&flow, "/<b>endpoint</b>", &["a"]).await;
    // A folder for pictures of the page, for the book.
    let pictures = std::env::var_os("FLOW_CONSOLE_PICTURES");
    let pictures = pictures.map(|it| it.display().to_string());
    let rest: Vec<&str> = pictures.iter().map(String::as_str).collect();
    let Some(found) = browse(&flow, "tour", &rest) else {
        return;
    };
    assert_eq!(found["problems"], json!([]), "{found}");
    assert_eq!(found["outside"], json!([]), "{found}");
    let mut cards = list(&found["cards"]);
    cards.sort();
    assert_eq!(cards, ["audit", "encoder", "faulty"], "{found}");
    assert_eq!(found["rows"], 3, "{found}");
    assert!(found["dots"].as_u64().unwrap() >= 3, "{found}");
    assert!(found["chart_rows"].as_u64().unwrap() >= 1, "{found}");
    assert_ne!(found["light"], found["dark"], "{found}");
    assert_eq!(found["chosen_light"], true, "{found}");
    check_requests(&found);
    check_tried(&found);
    for (view, width) in found["widths"].as_object().unwrap() {
        assert!(width.as_u64().unwrap() <= 380, "{view} is {width} px wide");
    }
}

fn check_requests(found: &Value) {
    assert_eq!(found["focus"], "tab-requests", "{found}");
    assert!(
        found["cause"].as_str().unwrap().contains("not today"),
        "{found}"
    );
    let slowest = found["slowest"].as_str().unwrap();
    assert!(
        slowest.starts_with('2') && slowest.ends_with("\u{a0}s"),
        "{found}"
    );
    let parts = list(&found["parts"]);
    assert!(parts.contains(&"faulty".to_owned()), "{found}");
    assert_eq!(found["elements_of_clients"], 0, "{found}");
}

fn check_tried(found: &Value) {
    assert_eq!(found["numbers"], 384, "{found}");
    let similar: Vec<f64> = found["similar"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it.as_f64().unwrap())
        .collect();
    assert_eq!(similar.len(), 9, "{found}");
    assert!((similar[0] - 1.0).abs() < 1e-3, "{found}");
    assert!(similar[1] > similar[2], "foxes are animals: {found}");
    let curl = found["code"]["curl"].as_str().unwrap();
    assert!(
        curl.contains("/encode'") && curl.contains("a quick brown fox"),
        "{curl}"
    );
    assert!(
        found["code"]["Python"]
            .as_str()
            .unwrap()
            .contains("flow_serve"),
        "{found}"
    );
    assert!(
        found["code"]["Rust"]
            .as_str()
            .unwrap()
            .contains("Client::connect"),
        "{found}"
    );
    assert!(
        found["invalid"].as_str().unwrap().contains("not JSON"),
        "{found}"
    );
    assert!(
        found["models"]
            .as_str()
            .unwrap()
            .contains("all-MiniLM-L6-v2"),
        "{found}"
    );
    assert!(
        found["endpoints"].as_str().unwrap().contains("/encode"),
        "{found}"
    );
}

#[test]
fn a_browser_asks_for_an_api_key_and_keeps_it_for_the_tab() {
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys.yml");
    let key = new_key(&keys, "browser", &[]);
    let rights = ["/*", "/_console/api/logs", "/_console/api/actions"];
    let operator = new_key(&keys, "operator", &rights);
    let flow = TestFlow::up(&format!(
        "gateway: {{api_keys: '{}'}}\nexecutors: [{{name: encoder, uses: sentence-encoder}}]",
        keys.display()
    ));
    let Some(found) = browse(&flow, "key", &[&key, &operator]) else {
        return;
    };
    // The browser reports the answers with status 401.
    let others = list(&found["problems"])
        .into_iter()
        .filter(|it| !it.contains("401"));
    assert_eq!(others.count(), 0, "{found}");
    assert_eq!(found["outside"], json!([]), "{found}");
    assert_eq!(found["focus"], "key", "{found}");
    assert!(
        found["refused"]
            .as_str()
            .unwrap()
            .contains("not known here"),
        "{found}"
    );
    assert_eq!(found["hidden"], true, "{found}");
    assert_eq!(found["kept"], json!([key, null, ""]), "{found}");
    let curl = found["curl"].as_str().unwrap();
    assert!(
        curl.contains("$FLOW_API_KEY") && !curl.contains(&key),
        "{curl}"
    );
    for part in ["no_logs", "no_actions"] {
        let why = found[part].as_str().unwrap();
        assert!(why.contains("`browser` does not allow"), "{found}");
    }
    assert_ne!(found["restarted"], "", "{found}");
    let of_change = flow.program().line("console action started");
    assert!(of_change.contains("key=\"operator\""), "{of_change}");
}

/// A new key in a file.
fn new_key(file: &Path, name: &str, endpoints: &[&str]) -> String {
    let mut command = flow_tests::flow_command();
    command.args(["key", "new", name, "--file"]).arg(file);
    for endpoint in endpoints {
        command.args(["--endpoint", endpoint]);
    }
    let (code, program) = flow_tests::Program::run(command);
    assert_eq!(code, Some(0), "{}", program.said());
    let said = program.stdout();
    let mut words = said.split_whitespace();
    words.find(|it| it.starts_with("flow_")).unwrap().to_owned()
}

#[tokio::test]
async fn a_browser_reads_logs_and_restarts_scales_and_reloads() {
    let faulty = format!("{{name: faulty, uses: {FAULTY}, replicas: 2, needs: encoder}}");
    let flow = TestFlow::up(&format!(
        "with: {{name: search}}\nexecutors: [{{name: encoder, uses: sentence-encoder}}, {faulty}]"
    ));
    flow.expect("request failed").expect("this is too much");
    for round in 0..5 {
        send(&flow, "/encode", &[&format!("text {round}")]).await;
    }
    send(&flow, "/panic", &["a"]).await;
    let pictures = std::env::var_os("FLOW_CONSOLE_PICTURES");
    let pictures = pictures.map(|it| it.display().to_string());
    let file = flow.folder().join("flow.yml").display().to_string();
    let rest: Vec<&str> = [&file]
        .into_iter()
        .chain(&pictures)
        .map(String::as_str)
        .collect();
    let Some(found) = browse(&flow, "operate", &rest) else {
        return;
    };
    assert_eq!(found["problems"], json!([]), "{found}");
    assert_eq!(found["outside"], json!([]), "{found}");
    check_logs(&found);
    check_file(&found["file"]);
    let names = list(&found["names"]);
    assert_eq!(
        names,
        ["encoder", "faulty/rep-0", "faulty/rep-1", "gateway"]
    );
    assert_eq!(found["careful"], "confirm-no", "{found}");
    assert_eq!(found["untouched"], "", "{found}");
    let buttons = list(&found["buttons"]);
    assert!(!buttons.contains(&"Restart gateway".to_owned()), "{found}");
    let said = list(&found["said"]);
    // A new replica ends none.
    for at in [0, 2, 3] {
        assert!(said[at].contains("has ended"), "{said:?}");
    }
    for (view, width) in found["widths"].as_object().unwrap() {
        assert!(width.as_u64().unwrap() <= 380, "{view} is {width} px wide");
    }
    // The flow serves as before.
    send(&flow, "/encode", &["text"]).await;
    let changed = flow.program().line("console action started");
    assert!(
        changed.contains("action=restart faulty/rep-0") && changed.contains("client=127.0.0.1"),
        "{changed}"
    );
}

fn check_logs(found: &Value) {
    let lines = found["of_request"].as_array().unwrap();
    let of = |process: &str| {
        let line = lines
            .iter()
            .find(|it| it[0].as_str().unwrap().starts_with(process));
        line.map(|it| it[2].as_str().unwrap().to_owned())
            .unwrap_or_default()
    };
    assert!(of("gateway").contains("request failed"), "{found}");
    assert!(of("faulty/rep-").contains("this is too much"), "{found}");
    assert_eq!(found["focus"], "log-lines", "{found}");
    assert_eq!(found["elements"], 0, "{found}");
    assert_eq!(found["pressed"], "false", "{found}");
    let errors = found["errors"].as_array().unwrap();
    let is_panic = |it: &Value| it[2].as_str().unwrap().contains("this is too much");
    assert!(errors.iter().any(is_panic), "{found}");
}

fn check_file(found: &Value) {
    assert_eq!(found["unchanged"], true, "{found}");
    let problem = found["problem"].as_str().unwrap();
    let expected = ["runs as it was before", "nonsense"];
    assert!(expected.iter().all(|it| problem.contains(it)), "{problem}");
    let changed = found["changed"].as_str().unwrap();
    assert!(changed.contains("Reload the flow file"), "{changed}");
}

#[test]
fn other_users_of_the_machine_may_neither_read_logs_nor_act() {
    if !std::fs::metadata("/proc/self").is_ok_and(|it| it.uid() == 0) {
        return skipped("only root can run programs of other users");
    }
    let flow = TestFlow::up("executors: [{uses: echo}]");
    let rights = |user: u32| {
        let ask = format!(
            "exec 3<>/dev/tcp/127.0.0.1/{} && printf 'GET /_console/api/rights HTTP/1.1\\r\\nhost: \
             127.0.0.1\\r\\nx-flow-console: 1\\r\\nconnection: close\\r\\n\\r\\n' >&3 && cat <&3",
            flow.port()
        );
        let mut command = Command::new("bash");
        command.args(["-c", &ask]).uid(user).current_dir("/");
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let (_, body) = text
            .split_once("\r\n\r\n")
            .unwrap_or_else(|| panic!("{output:?}"));
        serde_json::from_str::<Value>(body).unwrap_or_else(|error| panic!("{error}: {text}"))
    };
    for (user, expected) in [(0, true), (65_534, false)] {
        let rights = rights(user);
        assert_eq!(rights["logs"]["is_allowed"], expected, "{user}: {rights}");
        assert_eq!(
            rights["actions"]["is_allowed"], expected,
            "{user}: {rights}"
        );
    }
}

#[test]
fn pages_of_other_web_sites_cannot_act_whatever_cors_allows() {
    let flow = TestFlow::up(&format!(
        "gateway: {{cors: true}}\nexecutors: [{{name: faulty, uses: {FAULTY}}}]"
    ));
    let before = flow.pid("faulty");
    let Some(found) = browse(&flow, "attack", &[]) else {
        return;
    };
    let told = found["told"].as_object().unwrap();
    assert_eq!(told.len(), 3, "{found}");
    for (site, answers) in told {
        for answer in answers.as_array().unwrap() {
            let is_refused = [json!(403), json!("opaque"), json!("failed")].contains(answer);
            assert!(is_refused, "{site}: {found}");
        }
    }
    // What is opaque to the page was refused, too.
    assert_eq!(flow.pid("faulty"), before);
    let log = flow.program().said();
    assert!(!log.contains("console action started"), "{log}");
    let shown = found["shown"].as_str().unwrap();
    assert!(shown.contains("Open it by IP address"), "{shown}");
    assert_eq!(found["framed"], "closed", "{found}");
}

#[test]
fn swagger_ui_lists_the_routes_of_a_flow_with_keys_and_sends_requests() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.yml");
    let key = new_key(&file, "reader", &[]);
    let flow = TestFlow::up(&format!(
        "gateway: {{api_keys: {}, title: Search}}\nexecutors: [{{uses: echo}}]",
        file.display()
    ));
    let Some(found) = browse(&flow, "docs", &[&key]) else {
        return;
    };
    let refused = found["refused"].as_str().unwrap();
    assert!(refused.contains("answered 401"), "{refused}");
    assert_eq!(found["hidden"], true, "{found}");
    assert_eq!(found["title"], "Search", "{found}");
    let paths = list(&found["paths"]);
    for path in ["/post", "/dry_run", "/status"] {
        assert!(paths.iter().any(|it| it == path), "{path} in {paths:?}");
    }
    assert_eq!(
        found["status"].as_str().map(str::trim),
        Some("200"),
        "{found}"
    );
    // The style sheet is applied, and the page loads nothing from other hosts.
    assert_ne!(found["colour"], "rgba(0, 0, 0, 0)", "{found}");
    assert_eq!(found["outside"], json!([]), "{found}");
    // The browser reports the two answers of 401.
    let problems = list(&found["problems"]);
    let is_expected = |it: &String| it.contains("401");
    assert!(problems.iter().all(is_expected), "{problems:?}");
}

#[test]
fn a_page_of_another_site_calls_the_apis_if_cors_allows_it() {
    let request = texts("/any", &["hello"]);
    let body = BASE64.encode(encoded(&request));
    let flow = |cors: &str| {
        TestFlow::up(&format!(
            "gateway: {{cors: {cors}}}\nexecutors: [{{uses: echo}}]"
        ))
    };
    let Some(found) = browse(&flow("true"), "api", &[&body]) else {
        return;
    };
    let http = json!({"status": 200, "id": "from-a-page", "text": "hello"});
    assert_eq!(found["http"], http, "{found}");
    let grpc = &found["grpc"];
    assert_eq!(grpc["status"], 200, "{found}");
    let trailers = grpc["trailers"].as_str().unwrap();
    assert!(trailers.contains("grpc-status:0"), "{trailers}");
    let message = BASE64.decode(grpc["message"].as_str().unwrap()).unwrap();
    let reply = Envelope::decode(message.as_slice()).unwrap();
    assert_eq!(said(&reply).texts, ["hello"]);

    for cors in ["false", "['https://elsewhere.example']"] {
        let found = browse(&flow(cors), "api", &[&body]).unwrap();
        let refused = json!("TypeError");
        assert_eq!((&found["http"], &found["grpc"]), (&refused, &refused));
    }
}
