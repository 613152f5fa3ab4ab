//! Spans of real processes, ours and stock ones, at a real collector of OpenTelemetry.

use std::collections::BTreeSet;
use std::net::TcpListener;

use flow_core::Deadline;
use flow_proto::Envelope;
use flow_tests::raw::{Connection, encoded};
use flow_tests::{
    DocArrayVersion, Stock, TestFlow, client, eventually, free_port, python, texts_of,
};

use crate::collector::{Collector, Span};
use crate::monitoring::{of_executor, of_gateway, read_by_prometheus};

/// The client's trace and span.
pub(crate) const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CLIENT: &str = "b7ad6b7169203331";

/// Exports spans after 50 ms, instead of the default of five seconds.
const SOON: (&str, &str) = ("OTEL_BSP_SCHEDULE_DELAY", "50");

const UNARY: &str = "/jina.JinaSingleDataRequestRPC/process_single_data";
const STREAM: &str = "/jina.JinaRPC/Call";

/// The spans of the client's trace so far.
fn of_client(collector: &Collector) -> Vec<Span> {
    let all = collector.spans().into_iter();
    all.filter(|span| span.trace == TRACE).collect()
}

/// The spans of the client's trace, once there are as many of each service.
fn wait(collector: &Collector, counts: &[(&str, usize)]) -> Vec<Span> {
    let count =
        |spans: &[Span], service: &str| spans.iter().filter(|it| it.service == service).count();
    eventually("all spans are collected", || {
        let spans = of_client(collector);
        let mut counts = counts.iter();
        counts.all(|(service, wanted)| count(&spans, service) >= *wanted)
    });
    of_client(collector)
}

/// The options of a flow whose processes export their spans there.
fn traced(collector: &Collector) -> String {
    let port = collector.ports.grpc;
    format!(
        "with: {{tracing: true, traces_exporter_host: 127.0.0.1, traces_exporter_port: {port}}}"
    )
}

/// A flow of one executor, `a`, whose processes export their spans there.
fn traced_echo(collector: &Collector) -> TestFlow {
    let options = traced(collector);
    let yaml = format!("{options}\nexecutors: [{{name: a, uses: echo}}]");
    TestFlow::up_in(&yaml, &[SOON])
}

/// Sends a request as a client does that has a trace of its own.
pub(crate) async fn call(flow: &TestFlow, request: &Envelope) {
    let connection = Connection::open(flow.port()).await;
    let parent = format!("00-{TRACE}-{CLIENT}-01");
    let headers = [("traceparent", parent.as_str()), ("tracestate", "client=1")];
    let answer = connection
        .call_with(UNARY, encoded(request), &headers)
        .await;
    assert_eq!(answer.status, 0, "{answer:?}");
}

pub(crate) fn request(endpoint: &str) -> Envelope {
    texts_of(flow_core::DocArrayVersion::V2, endpoint, &["a"])
}

/// The only span with this name of this service.
fn only<'s>(spans: &'s [Span], service: &str, name: &str) -> &'s Span {
    let mut found = spans
        .iter()
        .filter(|it| it.service == service && it.name == name);
    let (Some(span), None) = (found.next(), found.next()) else {
        panic!("not one `{name}` of `{service}` in {spans:#?}");
    };
    span
}

/// The only child of the client's span.
fn first(spans: &[Span]) -> &Span {
    let mut found = spans.iter().filter(|it| it.parent == CLIENT);
    let (Some(span), None) = (found.next(), found.next()) else {
        panic!("not one child of the client's span in {spans:#?}");
    };
    span
}

/// The span of this kind that is a child of another one. Stock executors have a second child, of another kind.
fn child<'s>(spans: &'s [Span], parent: &Span, service: &str, kind: u8) -> &'s Span {
    let is_child = |it: &&Span| it.parent == parent.id && it.service == service && it.kind == kind;
    let found = spans.iter().find(is_child);
    found.unwrap_or_else(|| panic!("no child of {parent:#?} in {spans:#?}"))
}

/// A stock executor that exports its spans there.
fn traced_stock(collector: &Collector) -> Option<Stock> {
    let port = collector.ports.grpc.to_string();
    let host = ["--traces-exporter-host", "http://127.0.0.1"];
    let port = ["--traces-exporter-port", &port];
    let exports = [&["--tracing"][..], &host, &port].concat();
    Stock::executor_with(DocArrayVersion::V2, &exports)
}

#[tokio::test]
async fn metrics_lead_to_the_traces_of_requests() {
    let Some(collector) = Collector::start() else {
        return;
    };
    let options = traced(&collector).replace("with: {", "with: {monitoring: true, ");
    let flow = TestFlow::up_in(
        &format!("{options}\nexecutors: [{{name: echo, uses: echo}}]"),
        &[SOON],
    );
    call(&flow, &request("/upper")).await;
    let trace = serde_json::json!({ "trace_id": TRACE });
    for url in [of_gateway(&flow), of_executor(&flow, "echo")] {
        let read = read_by_prometheus(&url, &["open"]).unwrap();
        let exemplars = read["exemplars"].as_array().unwrap();
        assert!(exemplars.contains(&trace), "{exemplars:?}");
    }
}

#[tokio::test]
async fn one_trace_joins_client_gateway_and_both_branches() {
    let Some(collector) = Collector::start() else {
        return;
    };
    let Some(stock) = traced_stock(&collector) else {
        return;
    };
    let flow = TestFlow::up_in(
        &format!(
            "{}\nexecutors:\n\
             - {{name: ours, uses: echo, needs: gateway}}\n\
             - {{name: stock, external: true, host: 127.0.0.1, port: {}, needs: gateway}}\n\
             - {{name: last, uses: echo, needs: [ours, stock]}}\n",
            traced(&collector),
            stock.port()
        ),
        &[SOON],
    );
    call(&flow, &request("/upper")).await;

    let wanted = [
        ("gateway/rep-0", 7),
        ("ours/rep-0", 3),
        ("last/rep-0", 3),
        ("stock", 2),
    ];
    let spans = wait(&collector, &wanted);
    let ids: BTreeSet<&str> = spans.iter().map(|it| it.id.as_str()).collect();
    let orphans: Vec<&Span> = spans
        .iter()
        .filter(|it| it.parent != CLIENT && !ids.contains(it.parent.as_str()))
        .collect();
    assert!(orphans.is_empty(), "{orphans:#?}");

    let gateway = first(&spans);
    assert_eq!(
        (gateway.service.as_str(), gateway.name.as_str()),
        ("gateway/rep-0", UNARY)
    );
    assert_eq!(gateway.kind, SERVER);
    assert_eq!(gateway.attributes["flow.endpoint"], "/upper");
    assert_eq!(gateway.attributes["flow.documents"], "1");
    assert_eq!(gateway.attributes["client.address"], "127.0.0.1");
    assert_eq!(gateway.version.as_deref(), Some(env!("CARGO_PKG_VERSION")));
    for (node, service) in [
        ("ours", "ours/rep-0"),
        ("stock", "stock"),
        ("last", "last/rep-0"),
    ] {
        let of_node = only(&spans, "gateway/rep-0", node);
        assert_eq!(of_node.parent, gateway.id);
        let attempt = child(&spans, of_node, "gateway/rep-0", CLIENT_KIND);
        assert_eq!(attempt.attributes["flow.try"], "1");
        let answered = child(&spans, attempt, service, SERVER);
        assert!(attempt.start <= answered.start && answered.end <= attempt.end);
        assert!(gateway.start <= of_node.start && of_node.end <= gateway.end);
    }
    for service in ["ours/rep-0", "last/rep-0"] {
        let queued = only(&spans, service, "queue");
        let worked = only(&spans, service, "/default");
        assert!(queued.end <= worked.start, "{queued:#?} {worked:#?}");
        assert_eq!(queued.parent, worked.parent);
    }
    assert!(
        only(&spans, "gateway/rep-0", "last").start >= only(&spans, "gateway/rep-0", "stock").end
    );
}

/// The kinds of spans, as OTLP numbers them.
const SERVER: u8 = 2;
const CLIENT_KIND: u8 = 3;

#[test]
fn the_trace_of_a_stock_client_goes_on_in_the_flow() {
    let Some(collector) = Collector::start() else {
        return;
    };
    let flow = traced_echo(&collector);
    for version in [DocArrayVersion::V1, DocArrayVersion::V2] {
        let ports = [flow.port(), collector.ports.grpc].map(|port| port.to_string());
        let Some(ids) = python(version, "traced_client.py", &ports) else {
            continue;
        };
        for (id, method) in ids.as_array().unwrap().iter().zip([STREAM, UNARY]) {
            let of_call = || {
                let all = collector.spans().into_iter();
                all.filter(|span| Some(span.trace.as_str()) == id.as_str())
                    .collect::<Vec<Span>>()
            };
            let has = |service: &str| of_call().iter().any(|it| it.service == service);
            eventually("the spans of all three", || {
                has("gateway/rep-0") && has("a/rep-0") && of_call().iter().any(is_clients)
            });
            let spans = of_call();
            let is_gateways = |it: &&Span| it.service == "gateway/rep-0" && it.kind == SERVER;
            let gateway = spans.iter().find(is_gateways).unwrap();
            assert_eq!(gateway.name, method, "{version:?}");
            let parent = spans.iter().find(|it| it.id == gateway.parent);
            assert!(parent.is_some_and(is_clients), "{version:?} {spans:#?}");
        }
    }
}

/// Whether a client sent it, and no process of the flow.
fn is_clients(span: &Span) -> bool {
    !span.service.ends_with("/rep-0")
}

#[tokio::test]
async fn a_colocated_executor_exports_spans_of_its_own() {
    let Some(collector) = Collector::start() else {
        return;
    };
    let options = traced(&collector);
    let yaml = format!("{options}\nexecutors: [{{name: a, uses: echo, colocate: true}}]");
    let flow = TestFlow::up_in(&yaml, &[SOON]);
    call(&flow, &request("/x")).await;

    let spans = wait(&collector, &[("gateway/rep-0", 3), ("a/rep-0", 3)]);
    let of_node = only(&spans, "gateway/rep-0", "a");
    let attempt = child(&spans, of_node, "gateway/rep-0", CLIENT_KIND);
    child(&spans, attempt, "a/rep-0", SERVER);
    only(&spans, "a/rep-0", "queue");
}

#[tokio::test]
async fn requests_that_share_a_call_are_linked_to_it() {
    let Some(collector) = Collector::start() else {
        return;
    };
    let flow = TestFlow::up_in(
        &format!(
            "{}\nexecutors:\n- name: a\n  uses: echo\n  \
             uses_dynamic_batching: {{/default: {{preferred_batch_size: 2, timeout: 60000}}}}\n",
            traced(&collector)
        ),
        &[SOON],
    );
    let (first, second) = (request("/x"), request("/x"));
    tokio::join!(call(&flow, &first), call(&flow, &second));

    let spans = wait(&collector, &[("a/rep-0", 7)]);
    let shared = only(&spans, "a/rep-0", "shared call /default");
    let parts: Vec<&Span> = spans.iter().filter(|it| it.name == "/default").collect();
    assert_eq!(parts.len(), 2, "{spans:#?}");
    for part in &parts {
        assert_eq!(part.links, std::slice::from_ref(&shared.id));
        assert_eq!(part.attributes["flow.call.requests"], "2");
    }
    let mut linked = shared.links.clone();
    let mut ids: Vec<String> = parts.iter().map(|part| part.id.clone()).collect();
    linked.sort();
    ids.sort();
    assert_eq!(linked, ids);
}

#[tokio::test]
async fn spans_go_over_http_and_a_failure_is_an_error_of_its_span() {
    let Some(collector) = Collector::start() else {
        return;
    };
    let endpoint = format!("http://127.0.0.1:{}", collector.ports.http);
    let flow = TestFlow::up_in(
        &format!(
            "with: {{tracing: true}}\nexecutors: [{{name: faulty, uses: {}}}]",
            crate::FAULTY
        ),
        &[
            SOON,
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint),
        ],
    );
    flow.expect("panicked");
    call(&flow, &request("/panic")).await;
    let spans = wait(&collector, &[("gateway/rep-0", 3), ("faulty/rep-0", 3)]);
    let failed = first(&spans);
    let cause = failed.error.as_deref().unwrap();
    assert_eq!(cause, "executor `faulty`: panicked: this is too much");
    assert_eq!(failed.attributes["flow.executor"], "faulty");
    assert!(only(&spans, "faulty/rep-0", "/panic").error.is_some());
}

#[tokio::test]
async fn a_trace_that_is_not_recorded_is_passed_on_and_not_exported() {
    let Some(collector) = Collector::start() else {
        return;
    };
    let flow = traced_echo(&collector);
    let connection = Connection::open(flow.port()).await;
    let parent = format!("00-{TRACE}-{CLIENT}-00");
    let body = encoded(&request("/x"));
    let headers = [("traceparent", parent.as_str())];
    connection.call_with(UNARY, body, &headers).await;
    // The queue is in order: when the next trace is there, the other one would be.
    call(&flow, &request("/x")).await;
    let spans = wait(&collector, &[("gateway/rep-0", 3), ("a/rep-0", 4)]);
    assert_eq!(spans.len(), 7, "{spans:#?}");
}

const DROPPED: &str = "flow_spans_dropped_total{runtime_name=\"a/rep-0\"}";

/// Requests succeed, and no more spans wait than may, whatever the collector does.
async fn check_without_collector(port: u16) {
    const REQUESTS: usize = 200;
    let options =
        format!("tracing: true, traces_exporter_port: {port}, traces_exporter_host: 127.0.0.1");
    let flow = TestFlow::up_in(
        &format!("with: {{{options}, monitoring: true}}\nexecutors: [{{name: a, uses: echo}}]"),
        &[
            SOON,
            ("OTEL_BSP_MAX_QUEUE_SIZE", "8"),
            ("OTEL_BSP_EXPORT_TIMEOUT", "300"),
        ],
    );
    flow.expect("the collector does not accept spans");
    let client = client(&flow).await;
    for _ in 0..REQUESTS {
        let reply = client.single(request("/x"), Deadline::NEVER).await.unwrap();
        assert_eq!(flow_tests::said(&reply).failure, None);
    }
    let metrics = flow.program().line("metrics http://127.0.0.1:");
    let url = metrics
        .split("metrics ")
        .last()
        .unwrap()
        .split(')')
        .next()
        .unwrap();
    eventually("spans are dropped", || {
        // Three of each request at the gateway and at the executor; at most the queue and one batch wait.
        let dropped = flow_tests::scrape(url).get(DROPPED);
        dropped >= 3 * REQUESTS as u64 - 16
    });
}

#[tokio::test]
async fn a_dead_collector_changes_nothing_for_requests() {
    check_without_collector(free_port()).await;
}

#[tokio::test]
async fn a_collector_that_never_answers_changes_nothing_for_requests() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    check_without_collector(silent.local_addr().unwrap().port()).await;
}
