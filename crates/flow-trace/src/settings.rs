//! How a process exports its spans: what its options and the variables of OpenTelemetry say. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

/// The beginning of the names of all variables that are read.
const PREFIX: &str = "OTEL_";

/// Where a flow's processes export their spans, as the flow file writes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Collector {
    /// The collector's host, with `http://` before it or without; `None`: as the variables say, or this machine.
    pub host: Option<String>,
    /// The collector's port; `None`: as the variables say, or the protocol's.
    pub port: Option<u16>,
}

/// How a process exports its spans.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceSettings {
    /// The name of the process, such as `encoder/rep-0`.
    pub runtime_name: String,
    /// The collector's URL.
    pub endpoint: String,
    /// How the collector is spoken to.
    pub protocol: Protocol,
    /// Which requests that belong to no trace yet are recorded.
    pub sampling: Sampling,
    /// Spans that may wait.
    pub queue_max: usize,
    /// Spans that are exported at once.
    pub batch_max: usize,
    /// How long a span waits for others.
    pub delay: Duration,
    /// How long an export may take.
    pub timeout: Duration,
    /// Whether a variable names the service, and not the runtime name.
    pub is_named: bool,
}

/// A protocol of OTLP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// gRPC.
    Grpc,
    /// Protobuf messages over HTTP.
    HttpProtobuf,
}

/// Which requests are recorded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// The share of requests, from 0 to 1, by the ids of their traces.
    pub ratio: f64,
    /// Whether a request that belongs to a trace is recorded exactly if that trace is.
    pub follows_parent: bool,
}

/// A variable of OpenTelemetry, or the collector's host, is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is wrong: it is `{value}`; {expected}")]
pub struct BadTraceSettings {
    name: &'static str,
    value: String,
    expected: &'static str,
}

/// The variables of OpenTelemetry.
struct Variables<'v>(&'v BTreeMap<String, String>);

impl TraceSettings {
    /// The settings of a process with this name; `None` if the variables turn tracing off. What the flow file says wins
    /// over the variables.
    ///
    /// # Errors
    ///
    /// If a variable has a value that is not known here.
    pub fn new(
        runtime_name: impl Into<String>,
        collector: &Collector,
        environment: &BTreeMap<String, String>,
    ) -> Result<Option<Self>, BadTraceSettings> {
        let variables = Variables(environment);
        if variables.turn_off()? {
            return Ok(None);
        }
        let protocol = variables.protocol()?;
        let queue_max = variables.number("OTEL_BSP_MAX_QUEUE_SIZE", 2048)?;
        let batch_max = variables.number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512)?;
        Ok(Some(Self {
            runtime_name: runtime_name.into(),
            endpoint: variables.endpoint(collector, protocol)?,
            protocol,
            sampling: variables.sampling()?,
            queue_max: queue_max.max(1),
            batch_max: batch_max.clamp(1, queue_max.max(1)),
            delay: variables.milliseconds("OTEL_BSP_SCHEDULE_DELAY", 5_000)?,
            timeout: variables.milliseconds("OTEL_BSP_EXPORT_TIMEOUT", 30_000)?,
            is_named: variables.get("OTEL_SERVICE_NAME").is_some(),
        }))
    }

    /// The variables of an environment that are read here.
    #[must_use]
    pub fn variables(
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> BTreeMap<String, String> {
        let all = environment.into_iter();
        all.filter(|(name, _)| name.starts_with(PREFIX)).collect()
    }
}

impl Variables<'_> {
    /// A variable; an empty one counts as not set, as the standard has it.
    fn get(&self, name: &str) -> Option<&str> {
        let value = self.0.get(name).map(|value| value.trim());
        value.filter(|value| !value.is_empty())
    }

    fn turn_off(&self) -> Result<bool, BadTraceSettings> {
        const EXPORTER: &str = "OTEL_TRACES_EXPORTER";
        let disabled = self.get("OTEL_SDK_DISABLED");
        if disabled.is_some_and(|it| it.eq_ignore_ascii_case("true")) {
            return Ok(true);
        }
        match self.get(EXPORTER) {
            None | Some("otlp") => Ok(false),
            Some("none") => Ok(true),
            Some(other) => Err(bad(EXPORTER, other, "expected `otlp` or `none`")),
        }
    }

    fn protocol(&self) -> Result<Protocol, BadTraceSettings> {
        const OF_TRACES: &str = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL";
        const OF_ALL: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";
        let found = [OF_TRACES, OF_ALL]
            .into_iter()
            .find_map(|name| Some((name, self.get(name)?)));
        match found {
            None | Some((_, "grpc")) => Ok(Protocol::Grpc),
            Some((_, "http/protobuf")) => Ok(Protocol::HttpProtobuf),
            Some((name, other)) => Err(bad(name, other, "expected `grpc` or `http/protobuf`")),
        }
    }

    fn endpoint(
        &self,
        collector: &Collector,
        protocol: Protocol,
    ) -> Result<String, BadTraceSettings> {
        const OF_TRACES: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
        const OF_ALL: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
        let (port, path) = match protocol {
            Protocol::Grpc => (4317, ""),
            Protocol::HttpProtobuf => (4318, "/v1/traces"),
        };
        let written = collector.host.is_some() || collector.port.is_some();
        let (name, url) = match (self.get(OF_TRACES), self.get(OF_ALL)) {
            _ if written => {
                let host = collector.host.as_deref().unwrap_or("localhost");
                // Jina's files write a scheme, too.
                let host = host.strip_prefix("http://").unwrap_or(host);
                let port = collector.port.unwrap_or(port);
                let url = match host.contains("://") {
                    true => format!("{host}:{port}"),
                    false => format!("http://{host}:{port}{path}"),
                };
                ("traces_exporter_host", url)
            }
            (Some(url), _) => (OF_TRACES, url.to_owned()),
            (None, Some(url)) => (OF_ALL, format!("{}{path}", url.trim_end_matches('/'))),
            (None, None) => return Ok(format!("http://localhost:{port}{path}")),
        };
        match url.starts_with("http://") {
            true => Ok(url),
            false => Err(bad(
                name,
                &url,
                "expected `http://HOST:PORT`; a collector beside the flow forwards spans over TLS",
            )),
        }
    }

    fn sampling(&self) -> Result<Sampling, BadTraceSettings> {
        const SAMPLER: &str = "OTEL_TRACES_SAMPLER";
        const EXPECTED: &str = "expected `always_on`, `always_off` or `traceidratio`, or one of them after `parentbased_`";
        let name = self.get(SAMPLER).unwrap_or("parentbased_always_on");
        let root = name.strip_prefix("parentbased_");
        let ratio = match root.unwrap_or(name) {
            "always_on" => 1.0,
            "always_off" => 0.0,
            "traceidratio" => self.ratio()?,
            _ => return Err(bad(SAMPLER, name, EXPECTED)),
        };
        Ok(Sampling {
            ratio,
            follows_parent: root.is_some(),
        })
    }

    fn ratio(&self) -> Result<f64, BadTraceSettings> {
        const ARGUMENT: &str = "OTEL_TRACES_SAMPLER_ARG";
        let Some(text) = self.get(ARGUMENT) else {
            return Ok(1.0);
        };
        let ratio = text.parse().ok();
        let ratio = ratio.filter(|it| (0.0..=1.0).contains(it));
        ratio.ok_or_else(|| bad(ARGUMENT, text, "expected a number from 0 to 1"))
    }

    fn milliseconds(&self, name: &'static str, default: u64) -> Result<Duration, BadTraceSettings> {
        Ok(Duration::from_millis(self.parse(name)?.unwrap_or(default)))
    }

    fn number(&self, name: &'static str, default: usize) -> Result<usize, BadTraceSettings> {
        Ok(self.parse(name)?.unwrap_or(default))
    }

    fn parse<T: std::str::FromStr>(
        &self,
        name: &'static str,
    ) -> Result<Option<T>, BadTraceSettings> {
        let Some(text) = self.get(name) else {
            return Ok(None);
        };
        let parsed = text.parse().ok();
        let parsed = parsed.ok_or_else(|| bad(name, text, "expected a whole number"))?;
        Ok(Some(parsed))
    }
}

fn bad(name: &'static str, value: &str, expected: &'static str) -> BadTraceSettings {
    BadTraceSettings {
        name,
        value: value.to_owned(),
        expected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(
        collector: &Collector,
        variables: &[(&str, &str)],
    ) -> Result<Option<TraceSettings>, BadTraceSettings> {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let environment = variables.iter().map(own).collect();
        TraceSettings::new("a/rep-0", collector, &environment)
    }

    #[track_caller]
    fn check_endpoint(
        collector: (Option<&str>, Option<u16>),
        variables: &[(&str, &str)],
        expected: &str,
    ) {
        let collector = Collector {
            host: collector.0.map(str::to_owned),
            port: collector.1,
        };
        let found = settings(&collector, variables).unwrap().unwrap();
        assert_eq!(found.endpoint, expected);
    }

    #[test]
    fn the_flow_file_wins_over_variables_and_those_of_traces_over_those_of_all() {
        let all = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://all:1/");
        let traces = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://traces:2/x");
        let http = ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf");
        let none = (None, None);
        check_endpoint(none, &[], "http://localhost:4317");
        check_endpoint(none, &[http], "http://localhost:4318/v1/traces");
        check_endpoint(none, &[all], "http://all:1");
        check_endpoint(none, &[all, http], "http://all:1/v1/traces");
        check_endpoint(none, &[all, traces, http], "http://traces:2/x");
        check_endpoint((Some("file"), None), &[all, traces], "http://file:4317");
        check_endpoint((Some("http://file"), Some(1)), &[], "http://file:1");
        check_endpoint(
            (None, Some(9)),
            &[all, http],
            "http://localhost:9/v1/traces",
        );
    }

    #[test]
    fn variables_choose_the_requests_that_are_recorded() {
        let check = |variables: &[(&str, &str)], ratio, follows_parent| {
            let found = settings(&Collector::default(), variables).unwrap().unwrap();
            let expected = Sampling {
                ratio,
                follows_parent,
            };
            assert_eq!(found.sampling, expected, "{variables:?}");
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
    fn variables_turn_tracing_off() {
        let off = |name, value| {
            settings(&Collector::default(), &[(name, value)])
                .unwrap()
                .is_none()
        };
        assert!(off("OTEL_SDK_DISABLED", "TRUE"));
        assert!(off("OTEL_TRACES_EXPORTER", "none"));
        assert!(!off("OTEL_SDK_DISABLED", "1"));
    }

    #[test]
    fn a_value_that_is_not_known_is_an_error_that_says_what_is() {
        let check = |name, value, expected: &str| {
            let error = settings(&Collector::default(), &[(name, value)]).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        };
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
        check(
            "OTEL_EXPORTER_OTLP_PROTOCOL",
            "http/json",
            "expected `grpc` or",
        );
        check(
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            "https://far:1",
            "a collector beside the flow",
        );
        check("OTEL_BSP_MAX_QUEUE_SIZE", "many", "expected a whole number");
        let ratio = [
            ("OTEL_TRACES_SAMPLER", "traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", "2"),
        ];
        let error = settings(&Collector::default(), &ratio).unwrap_err();
        assert!(error.to_string().contains("from 0 to 1"), "{error}");
    }

    #[test]
    fn a_batch_is_no_larger_than_the_queue() {
        let small = [("OTEL_BSP_MAX_QUEUE_SIZE", "3")];
        let found = settings(&Collector::default(), &small).unwrap().unwrap();
        assert_eq!((found.queue_max, found.batch_max), (3, 3));
    }
}
