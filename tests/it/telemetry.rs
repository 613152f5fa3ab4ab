//! Metrics and log records of real processes, at a real collector of OpenTelemetry.

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;

use flow_core::Deadline;
use flow_tests::{TestFlow, client, eventually, scrape};
use serde_json::{Value, json};

use crate::collector::Collector;
use crate::monitoring::{of_executor, of_gateway};
use crate::tls::Certificates;
use crate::tracing::{TRACE, call, request};

const ECHO: &str = "executors: [{name: a, uses: echo}]";

/// Between two exports of metrics, so that a test need not wait for a minute.
const SOON: (&str, &str) = ("OTEL_METRIC_EXPORT_INTERVAL", "200");

const GATEWAY: &str = "gateway/rep-0";
const EXECUTOR: &str = "a/rep-0";

/// The numbers of a point's buckets.
fn buckets(point: &Value) -> Vec<u64> {
    let buckets = point["buckets"].as_array().unwrap().iter();
    buckets.map(|count| count.as_u64().unwrap()).collect()
}

/// The name of a metric without what Prometheus adds to it for each value.
fn base_name(name: &str) -> &str {
    let name = name.split('{').next().unwrap();
    let ends = ["_total", "_count", "_sum", "_bucket"];
    let ends = ends.into_iter().find_map(|end| name.strip_suffix(end));
    ends.unwrap_or(name)
}

#[tokio::test]
async fn the_collector_gets_the_values_that_prometheus_reads() {
    let Some(collector) = Collector::start() else {
        return;
    };
    let port = collector.ports.grpc;
    let flow = TestFlow::up_in(
        &format!(
            "with: {{monitoring: true, tracing: true, traces_exporter_port: {port}, metrics: true, \
             metrics_exporter_host: 127.0.0.1, metrics_exporter_port: {port}}}\n{ECHO}"
        ),
        &[SOON],
    );
    for _ in 0..3 {
        call(&flow, &request("/x")).await;
    }
    for service in [GATEWAY, EXECUTOR] {
        let name = "jina_successful_requests";
        let point = collector.metric((service, name), |it| it["value"] == 3.0);
        assert_eq!(point["kind"], "sum");
        assert_eq!(point["labels"]["runtime_name"], service);
    }
    let took = (GATEWAY, "flow_request_duration_seconds");
    let took = collector.metric(took, |it| it["count"] == 3);
    assert_eq!(took["kind"], "exponential_histogram");
    assert_eq!((&took["unit"], &took["scale"]), (&json!("s"), &json!(3)));
    assert_eq!(buckets(&took).iter().sum::<u64>(), 3);
    assert!(took["traces"].as_array().unwrap().contains(&json!(TRACE)));
    // The sum is within what its buckets allow: OTLP's bucket `i` has values above 2^(i/8), up to 2^((i+1)/8).
    let offset = took["offset"].as_f64().unwrap();
    let counts = buckets(&took);
    let bound = |shift: f64| {
        let places = counts.iter().zip(0_u32..);
        let bounds = places.map(|(count, place)| {
            *count as f64 * ((offset + f64::from(place) + shift) / 8.0).exp2()
        });
        bounds.sum::<f64>()
    };
    let sum = took["sum"].as_f64().unwrap();
    assert!(bound(0.0) < sum && sum <= bound(1.0), "{took}");

    for (service, url) in [
        (GATEWAY, of_gateway(&flow)),
        (EXECUTOR, of_executor(&flow, "a")),
    ] {
        let numbers = scrape(&url);
        let read: BTreeSet<&str> = numbers.names().map(base_name).collect();
        let all = collector.all("metric");
        let all = all.iter().filter(|it| it["service"] == service);
        let exported: BTreeSet<&str> = all.map(|it| it["name"].as_str().unwrap()).collect();
        assert_eq!(read, exported);
    }
    let summary = (EXECUTOR, "jina_process_request_seconds");
    let summary = collector.metric(summary, |it| it["count"] == 3);
    assert_eq!(
        (&summary["kind"], &summary["buckets"]),
        (&json!("histogram"), &json!([]))
    );
}

#[tokio::test]
async fn metrics_go_over_http_without_being_served() {
    let Some(collector) = Collector::start() else {
        return;
    };
    let endpoint = format!("http://127.0.0.1:{}", collector.ports.http);
    let flow = TestFlow::up_in(
        &format!("with: {{metrics: true}}\n{ECHO}"),
        &[
            SOON,
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20me"),
            (
                "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION",
                "explicit_bucket_histogram",
            ),
        ],
    );
    call(&flow, &request("/x")).await;
    let took = (EXECUTOR, "flow_call_duration_seconds");
    let took = collector.metric(took, |it| it["count"] == 1);
    assert_eq!(took["kind"], "histogram");
    let bounds = took["bounds"].as_array().unwrap();
    assert_eq!(buckets(&took).len(), bounds.len() + 1);
    assert_eq!(buckets(&took).iter().sum::<u64>(), 1);
    let requests = collector.all("request");
    let expected = json!({"signal": "request", "token": "Bearer me", "encoding": "gzip"});
    assert!(requests.iter().all(|it| *it == expected), "{requests:?}");
    assert_eq!(flow.program().ready().metrics, None);
}

#[tokio::test]
async fn the_records_of_a_failed_request_lead_to_its_trace() {
    let Some(collector) = Collector::start() else {
        return;
    };
    let endpoint = format!("http://127.0.0.1:{}", collector.ports.grpc);
    let flow = TestFlow::up_in(
        &format!(
            "with: {{tracing: true}}\nexecutors: [{{name: faulty, uses: {}}}]",
            crate::FAULTY
        ),
        &[
            ("OTEL_LOGS_EXPORTER", "otlp"),
            ("OTEL_BLRP_SCHEDULE_DELAY", "50"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint),
            // Its own lines, and those of its connection, are never exported.
            ("FLOW_LOG", "info,hyper_util=debug"),
        ],
    );
    flow.expect("panicked");
    let request = request("/panic");
    let id = request.header.as_ref().unwrap().request_id.clone();
    call(&flow, &request).await;

    let failed = collector.record(GATEWAY, "request failed");
    assert_eq!(failed["trace"], TRACE);
    assert_eq!(
        (&failed["severity"], &failed["number"]),
        (&json!("WARN"), &json!(13))
    );
    assert_eq!(failed["target"], "flow_gateway::failed");
    let span = failed["span"].as_str().unwrap();
    eventually("the request's span is exported", || {
        collector.spans().iter().any(|it| it.id == span)
    });
    let attributes = &failed["attributes"];
    assert_eq!(attributes["request_id"], id);
    assert_eq!(attributes["executor"], "faulty");
    assert_eq!(attributes["documents"], "1");
    let cause = attributes["cause"].as_str().unwrap();
    assert_eq!(cause, "executor `faulty`: panicked: this is too much");

    let panicked = collector.record("faulty/rep-0", "panicked");
    assert_eq!(panicked["severity"], "ERROR");
    assert_eq!(panicked["attributes"]["request_id"], id);
    assert_eq!(panicked["trace"], TRACE);
    // An executor has no other client of HTTP.
    flow.program().line("hyper_util::client");
    let records = collector.all("record").into_iter();
    let mut of_executor = records.filter(|it| it["service"] == "faulty/rep-0");
    let is_exporters = |it: &Value| it["target"].as_str().unwrap().starts_with("hyper_util");
    assert_eq!(of_executor.find(is_exporters), None);
}

/// The variables of an export with TLS to this port.
fn encrypted(folder: &str, endpoint: &str) -> Vec<(&'static str, String)> {
    vec![
        (SOON.0, SOON.1.to_owned()),
        ("OTEL_BSP_SCHEDULE_DELAY", "50".to_owned()),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.to_owned()),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", format!("{folder}/ca.pem")),
        (
            "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE",
            format!("{folder}/gateway.pem"),
        ),
        (
            "OTEL_EXPORTER_OTLP_CLIENT_KEY",
            format!("{folder}/gateway.key"),
        ),
    ]
}

#[tokio::test]
async fn telemetry_goes_over_tls_with_a_certificate_of_ones_own() {
    let Some(certificates) = Certificates::new() else {
        return;
    };
    let folder = certificates.path("");
    let Some(collector) = Collector::start_with(Some(&folder)) else {
        return;
    };
    let folder = folder.to_str().unwrap();
    for (protocol, port) in [
        ("grpc", collector.ports.grpcs),
        ("http/protobuf", collector.ports.https),
    ] {
        let endpoint = format!("https://localhost:{port}");
        let mut variables = encrypted(folder, &endpoint);
        variables.push(("OTEL_EXPORTER_OTLP_PROTOCOL", protocol.to_owned()));
        variables.push(("OTEL_SERVICE_NAME", protocol.to_owned()));
        let variables: Vec<(&str, &str)> = variables
            .iter()
            .map(|(name, it)| (*name, it.as_str()))
            .collect();
        let flow = TestFlow::up_in(
            &format!("with: {{metrics: true, tracing: true}}\n{ECHO}"),
            &variables,
        );
        call(&flow, &request("/x")).await;
        let requests = (protocol, "jina_successful_requests");
        collector.metric(requests, |it| it["value"] == 1.0);
        eventually("spans are exported", || {
            collector.spans().iter().any(|it| it.service == protocol)
        });
    }
}

#[tokio::test]
async fn a_collector_that_is_not_trusted_gets_nothing_and_requests_are_served() {
    let Some(certificates) = Certificates::new() else {
        return;
    };
    let Some(collector) = Collector::start_with(Some(&certificates.path(""))) else {
        return;
    };
    let endpoint = format!("https://localhost:{}", collector.ports.grpcs);
    let flow = TestFlow::up_in(
        &format!("with: {{metrics: true}}\n{ECHO}"),
        &[SOON, ("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint)],
    );
    flow.expect("the collector does not accept metrics");
    call(&flow, &request("/x")).await;
    let line = flow.program().line("the collector does not accept metrics");
    assert!(line.contains("UnknownIssuer"), "{line}");
    assert_eq!(collector.all("request"), [] as [Value; 0]);
}

/// Resident memory of a process.
fn resident_mib(pid: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let mut lines = status.lines();
    let line = lines.find_map(|it| it.strip_prefix("VmRSS:")).unwrap();
    let kib = line.split_whitespace().next().unwrap();
    kib.parse::<f64>().unwrap() / 1024.0
}

#[tokio::test]
async fn a_collector_that_never_reads_costs_bounded_memory() {
    const REQUESTS: usize = 3_000;
    /// What waits in the queues, and what an allocator keeps. Unbounded, the spans of a process alone would be some 10 MiB.
    const GROWTH_MAX: f64 = 6.0;
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let flow = TestFlow::up_in(
        &format!(
            "with: {{monitoring: true, tracing: true, metrics: true, access_log: true}}\n{ECHO}"
        ),
        &[
            SOON,
            ("OTEL_LOGS_EXPORTER", "otlp"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "500"),
            ("OTEL_BSP_SCHEDULE_DELAY", "50"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "64"),
            ("OTEL_BLRP_SCHEDULE_DELAY", "50"),
            ("OTEL_BLRP_MAX_QUEUE_SIZE", "64"),
        ],
    );
    for what in ["spans", "metrics", "log records"] {
        flow.expect(&format!("the collector does not accept {what}"));
    }
    let client = client(&flow).await;
    let send = async |count| {
        for _ in 0..count {
            let reply = client.single(request("/x"), Deadline::NEVER).await.unwrap();
            assert_eq!(flow_tests::said(&reply).failure, None);
        }
    };
    let processes = [flow.pid("gateway"), flow.pid("a")];
    send(REQUESTS / 3).await;
    let before = processes.map(resident_mib);
    send(REQUESTS).await;
    let grown = processes.map(resident_mib);
    for (before, now) in before.into_iter().zip(grown) {
        assert!(now - before < GROWTH_MAX, "{before} MiB, then {now} MiB");
    }
    let dropped = |url: &str, name: &str, runtime: &str| {
        scrape(url).get(&format!("{name}{{runtime_name=\"{runtime}\"}}"))
    };
    let all = (REQUESTS + REQUESTS / 3) as u64;
    eventually("what cannot be sent is counted", || {
        let gateway = of_gateway(&flow);
        let executor = of_executor(&flow, "a");
        let spans = |url: &str, runtime| dropped(url, "flow_spans_dropped_total", runtime);
        // Three spans of each request; at most the queue and one batch wait.
        spans(&gateway, GATEWAY) >= 3 * all - 128
            && spans(&executor, EXECUTOR) >= 3 * all - 128
            && dropped(&gateway, "flow_log_records_dropped_total", GATEWAY) >= all - 128
            && dropped(&gateway, "flow_metric_exports_failed_total", GATEWAY) >= 1
    });
}
