//! Spans and metrics of a Python executor's own: the same file on our runtime and on Jina's.

use std::path::Path;

use flow_tests::{DocArrayVersion, TestFlow, eventually, flow_serve, interpreter};

use crate::collector::{Collector, Span};
use crate::tracing::{TRACE, call, request};

/// Exports spans after 50 ms.
const SOON: (&str, &str) = ("OTEL_BSP_SCHEDULE_DELAY", "50");

fn observed() -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/table/observed.yml");
    format!("{{name: observed, uses: '{}'", file.display())
}

/// The spans of the executor after a request to each endpoint, once the last one is there.
async fn spans_with(python: &Path) -> Option<Vec<Span>> {
    let collector = Collector::start()?;
    let port = collector.ports.grpc;
    let exporter = |of: &str| format!("{of}_exporter_host: 127.0.0.1, {of}_exporter_port: {port}");
    let (traces, metrics) = (exporter("traces"), exporter("metrics"));
    let options = format!("tracing: true, {traces}, metrics: true, {metrics}");
    let flow = TestFlow::up_in(
        &format!("with: {{{options}}}\nexecutors: [{}}}]", observed()),
        &[("FLOW_PYTHON", python.to_str().unwrap()), SOON],
    );
    flow.expect("Traceback").expect("ValueError");
    for endpoint in ["/sync", "/async", "/fails"] {
        call(&flow, &request(endpoint)).await;
    }
    let is_there = |name: &str| collector.spans().iter().any(|it| it.name == name);
    eventually("all spans are collected", || {
        ["read_words", "/sync", "/async", "/fails"]
            .into_iter()
            .all(is_there)
    });
    let spans = collector.spans().into_iter();
    Some(spans.filter(|it| it.service == "observed/rep-0").collect())
}

/// The only span with this name, and the name of its parent.
fn only<'s>(spans: &'s [Span], name: &str) -> (&'s Span, Option<&'s str>) {
    let named: Vec<&Span> = spans.iter().filter(|it| it.name == name).collect();
    let [span] = named[..] else {
        panic!("not one `{name}` in {spans:#?}");
    };
    let parent = spans.iter().find(|it| it.id == span.parent);
    (span, parent.map(|it| it.name.as_str()))
}

fn check(spans: &[Span]) {
    for (name, wanted) in [
        ("outer", "/sync"),
        ("inner", "outer"),
        ("split texts", "inner"),
        ("one", "/async"),
        ("after one", "one"),
        ("two", "/async"),
        ("after two", "two"),
        ("failing", "/fails"),
    ] {
        let (span, parent) = only(spans, name);
        assert_eq!(parent, Some(wanted), "{name}: {spans:#?}");
        assert_eq!(span.trace, TRACE, "{name}");
    }
    let of = |name: &str, key: &str| only(spans, name).0.attributes.get(key).cloned();
    let attributes = ["documents", "share", "is_last"].map(|key| of("outer", key).unwrap());
    assert_eq!(attributes, ["1", "0.5", "False"]);
    assert_eq!(of("split texts", "by").as_deref(), Some("space"));
    assert_eq!(of("read_words", "words").as_deref(), Some("3"));
    let error = only(spans, "failing").0.error.as_deref();
    assert_eq!(error, Some("ValueError: not today"));
}

#[tokio::test]
async fn custom_spans_of_an_executor_are_within_those_of_its_calls_as_with_jina() {
    let Some(python) = flow_serve() else { return };
    let Some(spans) = spans_with(&python).await else {
        return;
    };
    check(&spans);
    assert_eq!(only(&spans, "read_words").1, Some("load"));
    if let Some(python) = interpreter(DocArrayVersion::V1) {
        check(&spans_with(&python).await.unwrap());
    }
}

#[tokio::test]
async fn spans_of_a_request_that_is_not_recorded_are_not_made() {
    let Some(python) = flow_serve() else { return };
    let python = ("FLOW_PYTHON", python.to_str().unwrap());
    let flow = TestFlow::up_in(&format!("executors: [{}}}]", observed()), &[python]);
    for endpoint in ["/sync", "/async"] {
        call(&flow, &request(endpoint)).await;
    }
}

#[tokio::test]
async fn custom_instruments_of_an_executor_are_among_the_metrics_of_its_process() {
    let Some(python) = flow_serve() else { return };
    let python = ("FLOW_PYTHON", python.to_str().unwrap());
    let yaml = format!("executors: [{}, monitoring: true}}]", observed());
    let flow = TestFlow::up_in(&yaml, &[python]);
    for _ in 0..2 {
        call(&flow, &request("/sync")).await;
    }
    call(&flow, &request("/many-series")).await;
    let numbers = flow_tests::scrape(&crate::monitoring::of_executor(&flow, "observed"));
    let runtime = "runtime_name=\"observed/rep-0\"";
    // One that the runtime has itself gets a prefix, and the last of two with the same name counts.
    let labels = r#"a_b="2",attribute_runtime_name="mine",length="1""#;
    for (name, value) in [
        (format!("documents_seen_total{{{runtime},{labels}}}"), 2),
        (format!("waiting{{{runtime}}}"), 1),
        // 200 series: one without labels, that above, and 198 of 250.
        (
            format!("documents_seen_total{{{runtime},otel_metric_overflow=\"true\"}}"),
            52,
        ),
        (format!("text_length_bytes_count{{{runtime}}}"), 2),
        (format!("text_length_bytes_sum{{{runtime}}}"), 3),
        (
            format!("text_length_bytes_bucket{{{runtime},le=\"2.5\"}}"),
            2,
        ),
    ] {
        assert_eq!(numbers.get(&name), value, "{name}");
    }
}
