//! The dashboard for Grafana asks for metrics that exist, in expressions that Prometheus understands.

use std::collections::BTreeSet;
use std::fs;

use flow_tests::{TestFlow, post, scrape, texts, unknown_to_grafana};
use serde_json::{Value, json};

use super::{file, of_executor, of_gateway, promtool, read};

const DASHBOARD: &str = "grafana/dashboards/flow.json";

fn dashboard() -> Value {
    serde_json::from_str(&read(DASHBOARD)).unwrap()
}

/// All panels but the headings.
fn panels() -> Vec<Value> {
    let panels = dashboard()["panels"].as_array().unwrap().clone();
    panels
        .into_iter()
        .filter(|it| it["type"] != "row")
        .collect()
}

/// The expressions of all panels, without Grafana's variables.
fn expressions() -> Vec<String> {
    let panels = panels();
    let targets = panels
        .iter()
        .flat_map(|it| it["targets"].as_array().unwrap());
    let expressions = targets.map(|it| it["expr"].as_str().unwrap());
    expressions
        .map(|it| it.replace("$__rate_interval", "1m").replace("$flow", ".*"))
        .collect()
}

#[test]
fn panels_say_what_they_show_and_do_not_overlap() {
    let mut ids = BTreeSet::new();
    let mut cells = BTreeSet::new();
    for panel in panels() {
        let title = panel["title"].as_str().unwrap();
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}: id");
        assert_ne!(panel["description"].as_str(), Some(""), "{title}");
        assert!(
            panel["fieldConfig"]["defaults"]["unit"].is_string(),
            "{title}: unit"
        );
        assert_eq!(panel["datasource"]["uid"], "prometheus", "{title}");
        let at = |name: &str| panel["gridPos"][name].as_u64().unwrap();
        assert!(at("x") + at("w") <= 24, "{title}: wider than the page");
        for x in at("x")..at("x") + at("w") {
            for y in at("y")..at("y") + at("h") {
                assert!(cells.insert((x, y)), "{title}: over another panel");
            }
        }
    }
    assert!(ids.len() > 20);
    let source: Value =
        serde_yaml::from_str(&read("grafana/provisioning/datasources/prometheus.yml")).unwrap();
    assert_eq!(source["datasources"][0]["uid"], "prometheus");
}

#[test]
fn grafana_knows_each_field_of_the_dashboard() {
    let Some(unknown) = unknown_to_grafana(&file(DASHBOARD)) else {
        return;
    };
    // An option of annotations from Prometheus, which Grafana's types of dashboards leave to it.
    let of_prometheus = json!(["dashboard.annotations.list[0].titleFormat"]);
    assert_eq!(unknown, of_prometheus);
}

#[test]
fn each_expression_of_the_dashboard_is_valid() {
    let rules = expressions().into_iter().enumerate();
    let rules = rules.map(|(n, expr)| json!({"record": format!("panel:{n}"), "expr": expr}));
    let rules = json!({"groups": [{"name": "panels", "rules": rules.collect::<Vec<_>>()}]});
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("panels.yml");
    fs::write(&path, rules.to_string()).unwrap();
    promtool(&["check", "rules"], &path);
}

/// The names of metrics in an expression.
fn names(text: &str) -> BTreeSet<&str> {
    let words = text.split(|it: char| !(it.is_ascii_alphanumeric() || it == '_' || it == ':'));
    let is_metric = |it: &&str| {
        let prefixes = ["flow_", "jina_", "process_"];
        prefixes.iter().any(|prefix| it.starts_with(prefix))
    };
    words.filter(is_metric).collect()
}

#[tokio::test]
async fn each_metric_that_rules_and_dashboard_name_is_served_by_a_flow() {
    let flow = TestFlow::up_in(
        "with: {monitoring: true, tracing: true, metrics: true}\n\
         executors: [{name: encoder, uses: sentence-encoder}]",
        &[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1"),
            ("OTEL_LOGS_EXPORTER", "otlp"),
        ],
    );
    flow.expect("the collector does not accept");
    post(&flow, vec![texts("/encode", &["a text"])]).await;
    let processes = [of_gateway(&flow), of_executor(&flow, "encoder")];
    let numbers = processes.map(|url| scrape(&url));
    let samples = numbers.iter().flat_map(|it| it.names());
    let served: BTreeSet<&str> = samples.map(|it| it.split('{').next().unwrap()).collect();

    let rules = read("rules.yml");
    let rules = rules
        .lines()
        .filter(|line| !line.contains("summary:") && !line.contains("description:"));
    let texts: Vec<String> = rules.map(str::to_owned).chain(expressions()).collect();
    let named: BTreeSet<&str> = texts.iter().flat_map(|it| names(it)).collect();
    let missing: Vec<&&str> = named.difference(&served).collect();
    assert!(missing.is_empty(), "{missing:?} are not among {served:#?}");
}
