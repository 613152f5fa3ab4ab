use super::*;

fn settings(
    requested: &Requested,
    variables: &[(&str, &str)],
) -> Result<ExportSettings, BadExportSetting> {
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let environment = variables.iter().map(own).collect();
    ExportSettings::new("a/rep-0", requested, &environment)
}

/// Spans to this collector, and metrics to the same.
fn to(host: Option<&str>, port: Option<u16>) -> Requested {
    let collector = Collector {
        host: host.map(str::to_owned),
        port,
    };
    Requested {
        traces: Some(collector.clone()),
        metrics: Some(collector),
    }
}

fn all() -> Requested {
    to(None, None)
}

#[track_caller]
fn traces(variables: &[(&str, &str)]) -> TraceSettings {
    settings(&all(), variables).unwrap().traces.unwrap()
}

#[track_caller]
fn metrics(variables: &[(&str, &str)]) -> MetricSettings {
    settings(&all(), variables).unwrap().metrics.unwrap()
}

#[track_caller]
fn check_endpoint(requested: &Requested, variables: &[(&str, &str)], expected: [&str; 2]) {
    let found = settings(requested, variables).unwrap();
    let found = [found.traces.unwrap().target, found.metrics.unwrap().target];
    assert_eq!(found.map(|it| it.endpoint), expected);
}

#[track_caller]
fn check_error(variables: &[(&str, &str)], expected: &str) {
    let error = settings(&all(), variables).unwrap_err();
    assert!(error.to_string().contains(expected), "{error}");
}

#[test]
fn the_flow_file_wins_over_variables_and_those_of_a_signal_over_those_of_all() {
    let of_all = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://all:1/");
    let of_traces = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://traces:2/x");
    let http = ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf");
    let local = "http://localhost:4317";
    check_endpoint(&all(), &[], [local, local]);
    let local = "http://localhost:4318";
    let paths = [format!("{local}/v1/traces"), format!("{local}/v1/metrics")];
    check_endpoint(&all(), &[http], [&paths[0], &paths[1]]);
    check_endpoint(&all(), &[of_all], ["http://all:1", "http://all:1"]);
    check_endpoint(
        &all(),
        &[of_all, http],
        ["http://all:1/v1/traces", "http://all:1/v1/metrics"],
    );
    check_endpoint(
        &all(),
        &[of_all, of_traces, http],
        ["http://traces:2/x", "http://all:1/v1/metrics"],
    );
    let file = "http://file:4317";
    check_endpoint(&to(Some("file"), None), &[of_all, of_traces], [file, file]);
    let file = "https://file:1";
    check_endpoint(&to(Some("https://file"), Some(1)), &[], [file, file]);
    check_endpoint(
        &to(Some("https://file"), Some(9)),
        &[of_all, http],
        ["https://file:9/v1/traces", "https://file:9/v1/metrics"],
    );
}

#[test]
fn each_signal_may_have_a_protocol_of_its_own() {
    let found = settings(
        &all(),
        &[
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
            ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "grpc"),
        ],
    );
    let found = found.unwrap();
    assert_eq!(found.metrics.unwrap().target.protocol, OtlpProtocol::Grpc);
    let of_traces = found.traces.unwrap().target;
    assert_eq!(of_traces.protocol, OtlpProtocol::HttpProtobuf);
}

#[test]
fn variables_choose_the_requests_that_are_recorded() {
    let check = |variables: &[(&str, &str)], ratio, follows_parent| {
        let expected = Sampling {
            ratio,
            follows_parent,
        };
        assert_eq!(traces(variables).sampling, expected, "{variables:?}");
    };
    let sampler = |name| ("OTEL_TRACES_SAMPLER", name);
    let ratio = ("OTEL_TRACES_SAMPLER_ARG", "0.1");
    check(&[], 1.0, true);
    check(&[sampler("always_off")], 0.0, false);
    check(&[sampler("parentbased_traceidratio"), ratio], 0.1, true);
    check(&[sampler("traceidratio"), ratio], 0.1, false);
    check(&[sampler(""), ratio], 1.0, true);
}

#[test]
fn variables_turn_exports_off_and_on() {
    let check = |variables: &[(&str, &str)], expected: [bool; 3]| {
        let it = settings(&all(), variables).unwrap();
        let found = [it.traces.is_some(), it.metrics.is_some(), it.logs.is_some()];
        assert_eq!(found, expected, "{variables:?}");
    };
    let logs = ("OTEL_LOGS_EXPORTER", "otlp");
    check(&[], [true, true, false]);
    check(&[logs], [true, true, true]);
    check(&[logs, ("OTEL_SDK_DISABLED", "TRUE")], [false; 3]);
    check(&[("OTEL_SDK_DISABLED", "1")], [true, true, false]);
    check(&[("OTEL_TRACES_EXPORTER", "none")], [false, true, false]);
    check(&[("OTEL_METRICS_EXPORTER", "none")], [true, false, false]);
}

#[test]
fn variables_alone_ask_for_traces_and_metrics_at_their_own_collector() {
    let variables = [
        ("OTEL_TRACES_EXPORTER", "otlp"),
        ("OTEL_METRICS_EXPORTER", "otlp"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:1"),
    ];
    check_endpoint(&Requested::default(), &variables, ["http://collector:1"; 2]);
    let none = settings(&Requested::default(), &variables[2..]).unwrap();
    assert_eq!((none.traces, none.metrics), (None, None));
    let flow_file = to(Some("http://own"), Some(2));
    check_endpoint(&flow_file, &variables, ["http://own:2"; 2]);
}

#[test]
fn the_place_in_a_cluster_comes_from_the_variables_that_jina_reads() {
    let variables = [
        ("K8S_POD_NAME", "a-1"),
        ("K8S_NODE_NAME", ""),
        ("K8S_X", "b"),
    ];
    let found = settings(&all(), &variables).unwrap().place;
    let found: Vec<_> = found.attributes().collect();
    assert_eq!(found, [("k8s.pod.name", "a-1")]);
    let environment = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let read = ExportSettings::variables(environment);
    assert_eq!(read.len(), 2);
}

#[test]
fn metrics_are_exponential_histograms_each_minute_unless_variables_say_otherwise() {
    let found = metrics(&[]);
    assert_eq!(found.interval, Duration::from_secs(60));
    assert_eq!(found.timeout, Duration::from_secs(10));
    assert_eq!(found.histograms, Histograms::Exponential);
    let found = metrics(&[
        ("OTEL_METRIC_EXPORT_INTERVAL", "250"),
        ("OTEL_METRIC_EXPORT_TIMEOUT", "100"),
        (
            "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION",
            "explicit_bucket_histogram",
        ),
        (
            "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE",
            "Cumulative",
        ),
    ]);
    assert_eq!(found.interval, Duration::from_millis(250));
    assert_eq!(found.timeout, Duration::from_millis(100));
    assert_eq!(found.histograms, Histograms::Explicit);
    check_error(&[("OTEL_METRIC_EXPORT_INTERVAL", "0")], "at least 1");
    check_error(
        &[("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "delta")],
        "expected `cumulative`",
    );
}

#[test]
fn certificates_headers_and_compression_are_for_all_signals_or_for_one() {
    let target = metrics(&[
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "all.pem"),
        ("OTEL_EXPORTER_OTLP_METRICS_CERTIFICATE", "metrics.pem"),
        ("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "own.pem"),
        ("OTEL_EXPORTER_OTLP_CLIENT_KEY", "own.key"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
        (
            "OTEL_EXPORTER_OTLP_HEADERS",
            "Authorization=Bearer%20secret, x-a=b",
        ),
    ])
    .target;
    assert_eq!(target.tls.roots, Some("metrics.pem".into()));
    let own = target.tls.own.as_ref().unwrap();
    assert_eq!(own.key, std::path::Path::new("own.key"));
    assert!(target.is_gzip);
    let headers: Vec<_> = target.headers.0.iter().collect();
    assert_eq!(headers[0].0, "authorization");
    assert_eq!(headers[0].1, "Bearer secret");
    assert_eq!(headers.len(), 2);
    assert!(!format!("{target:?}").contains("secret"));
    check_error(
        &[("OTEL_EXPORTER_OTLP_CLIENT_KEY", "own.key")],
        "it needs a certificate",
    );
    check_error(
        &[("OTEL_EXPORTER_OTLP_HEADERS", "secret")],
        "is `(hidden)`; expected `NAME=VALUE`",
    );
}

#[test]
fn a_value_that_is_not_known_is_an_error_that_says_what_is() {
    let check = |name, value, expected| check_error(&[(name, value)], expected);
    check(
        "OTEL_TRACES_SAMPLER",
        "sometimes",
        "is `sometimes`; expected `always_on`",
    );
    check(
        "OTEL_TRACES_EXPORTER",
        "zipkin",
        "expected `otlp` or `none`",
    );
    check("OTEL_LOGS_EXPORTER", "console", "expected `otlp` or `none`");
    check(
        "OTEL_EXPORTER_OTLP_PROTOCOL",
        "http/json",
        "expected `grpc` or",
    );
    for bad in ["far:1", "ftp://far:1", "https://"] {
        check("OTEL_EXPORTER_OTLP_ENDPOINT", bad, "or `https://HOST:PORT`");
    }
    check(
        "OTEL_EXPORTER_OTLP_COMPRESSION",
        "zstd",
        "expected `gzip` or `none`",
    );
    check("OTEL_BSP_MAX_QUEUE_SIZE", "many", "expected a whole number");
    check_error(
        &[
            ("OTEL_TRACES_SAMPLER", "traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", "2"),
        ],
        "from 0 to 1",
    );
}

#[test]
fn a_batch_is_no_larger_than_its_queue() {
    let found = traces(&[("OTEL_BSP_MAX_QUEUE_SIZE", "3")]).batches;
    assert_eq!((found.queue_max, found.batch_max), (3, 3));
}

#[test]
fn an_export_takes_no_longer_than_its_request_may() {
    let check = |variables: &[(&str, &str)], seconds| {
        let found = traces(variables).batches.timeout;
        assert_eq!(found, Duration::from_secs(seconds));
    };
    check(&[], 10);
    check(&[("OTEL_EXPORTER_OTLP_TIMEOUT", "60000")], 30);
    check(&[("OTEL_BSP_EXPORT_TIMEOUT", "2000")], 2);
}
