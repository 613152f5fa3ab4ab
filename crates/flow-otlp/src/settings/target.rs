//! The collector of one signal, and the protocol for it.

use std::time::Duration;

use flow_net::tls::{CertificateFiles, TlsOptions};
use http::{HeaderName, HeaderValue};

use super::collector::Collector;
use super::variables::{BadExportSetting, Signal, Variables, bad, parse};

/// How long one request to a collector may take unless a variable says otherwise, as the standard has it.
const REQUEST_MAX: Duration = Duration::from_secs(10);

/// A collector of one signal.
#[derive(Debug, Clone, PartialEq)]
pub struct ExportTarget {
    /// The collector's URL.
    pub endpoint: String,
    /// How the collector is spoken to.
    pub protocol: OtlpProtocol,
    /// What every request has, such as a token. Never printed.
    pub(crate) headers: Headers,
    /// Certificates, for an endpoint with `https`.
    pub tls: TlsOptions,
    /// Whether requests are compressed.
    pub is_gzip: bool,
    /// How long one request may take.
    pub request_max: Duration,
}

/// A protocol of OTLP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtlpProtocol {
    /// gRPC.
    Grpc,
    /// Protobuf messages over HTTP.
    HttpProtobuf,
}

/// Headers of requests.
#[derive(Clone, Default, PartialEq)]
pub(crate) struct Headers(pub(crate) Vec<(HeaderName, HeaderValue)>);

impl std::fmt::Debug for Headers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.0.iter().map(|(name, _)| name);
        f.debug_list().entries(names).finish()
    }
}

impl ExportTarget {
    /// Where a signal is exported to. What the flow file says wins over the variables.
    pub(super) fn new(
        signal: Signal,
        collector: &Collector,
        variables: &Variables<'_>,
    ) -> Result<Self, BadExportSetting> {
        let protocol = protocol(signal, variables)?;
        let timeout = variables.of_exporter(signal, "TIMEOUT");
        let timeout = timeout.map(|(name, text)| parse(&name, text).map(Duration::from_millis));
        Ok(Self {
            endpoint: endpoint((signal, protocol), collector, variables)?,
            protocol,
            headers: headers(signal, variables)?,
            tls: tls(signal, variables)?,
            is_gzip: is_gzip(signal, variables)?,
            request_max: timeout.transpose()?.unwrap_or(REQUEST_MAX),
        })
    }

    /// Whether the connection is encrypted.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.endpoint.starts_with("https://")
    }
}

fn protocol(signal: Signal, variables: &Variables<'_>) -> Result<OtlpProtocol, BadExportSetting> {
    let found = variables.of_exporter(signal, "PROTOCOL");
    match found.as_ref().map(|(name, value)| (name, *value)) {
        None | Some((_, "grpc")) => Ok(OtlpProtocol::Grpc),
        Some((_, "http/protobuf")) => Ok(OtlpProtocol::HttpProtobuf),
        Some((name, other)) => Err(bad(name, other, "expected `grpc` or `http/protobuf`")),
    }
}

fn endpoint(
    (signal, protocol): (Signal, OtlpProtocol),
    collector: &Collector,
    variables: &Variables<'_>,
) -> Result<String, BadExportSetting> {
    let (of_signal, host_key, path) = match signal {
        Signal::Traces => (
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
            "traces_exporter_host",
            "/v1/traces",
        ),
        Signal::Metrics => (
            "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
            "metrics_exporter_host",
            "/v1/metrics",
        ),
        Signal::Logs => ("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "", "/v1/logs"),
    };
    const OF_ALL: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
    let (port, path) = match protocol {
        OtlpProtocol::Grpc => (4317, ""),
        OtlpProtocol::HttpProtobuf => (4318, path),
    };
    let is_written = collector.host.is_some() || collector.port.is_some();
    let (name, url) = match (variables.get(of_signal), variables.get(OF_ALL)) {
        _ if is_written => {
            let host = collector.host.as_deref().unwrap_or("localhost");
            let port = collector.port.unwrap_or(port);
            // Jina's files write a scheme, too.
            let host = match host.contains("://") {
                true => host.to_owned(),
                false => format!("http://{host}"),
            };
            (host_key, format!("{host}:{port}{path}"))
        }
        (Some(url), _) => (of_signal, url.to_owned()),
        (None, Some(url)) => (OF_ALL, format!("{}{path}", url.trim_end_matches('/'))),
        (None, None) => return Ok(format!("http://localhost:{port}{path}")),
    };
    let expected = "expected `http://HOST:PORT` or `https://HOST:PORT`";
    let has_scheme = ["http://", "https://"].iter().any(|it| url.starts_with(it));
    let uri = url.parse::<http::Uri>().ok().filter(|_| has_scheme);
    match uri.and_then(|uri| uri.host().map(|host| !host.is_empty())) {
        Some(true) => Ok(url),
        _ => Err(bad(name, &url, expected)),
    }
}

/// Headers as `name=value,…`, whose values are encoded as in URLs.
fn headers(signal: Signal, variables: &Variables<'_>) -> Result<Headers, BadExportSetting> {
    let Some((variable, text)) = variables.of_exporter(signal, "HEADERS") else {
        return Ok(Headers::default());
    };
    let header = |pair: &str| {
        let (name, value) = pair.split_once('=')?;
        let name = HeaderName::from_bytes(name.trim().as_bytes()).ok()?;
        let value = HeaderValue::from_bytes(&decoded(value.trim())?).ok()?;
        Some((name, value))
    };
    let pairs = text.split(',').filter(|pair| !pair.trim().is_empty());
    // The value may be a secret.
    let hidden = || {
        let expected = "expected `NAME=VALUE`, or several of them with commas between";
        bad(&variable, "(hidden)", expected)
    };
    let all: Option<Vec<_>> = pairs.map(header).collect();
    all.map(Headers).ok_or_else(hidden)
}

/// A text whose bytes may be written as `%` and two hexadecimal digits.
fn decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        let digits = str::from_utf8(digits).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = after;
    }
    Some(bytes)
}

fn tls(signal: Signal, variables: &Variables<'_>) -> Result<TlsOptions, BadExportSetting> {
    let roots = variables.of_exporter(signal, "CERTIFICATE");
    let certificate = variables.of_exporter(signal, "CLIENT_CERTIFICATE");
    let key = variables.of_exporter(signal, "CLIENT_KEY");
    let own = match (certificate, key) {
        (Some((_, certificate)), Some((_, key))) => Some(CertificateFiles {
            certificate: certificate.into(),
            key: key.into(),
        }),
        (None, None) => None,
        (Some((name, path)), None) => {
            let expected = "it needs a private key, which `OTEL_EXPORTER_OTLP_CLIENT_KEY` names";
            return Err(bad(&name, path, expected));
        }
        (None, Some((name, path))) => {
            let expected =
                "it needs a certificate, which `OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE` names";
            return Err(bad(&name, path, expected));
        }
    };
    Ok(TlsOptions {
        roots: roots.map(|(_, path)| path.into()),
        own,
        server_name: None,
    })
}

fn is_gzip(signal: Signal, variables: &Variables<'_>) -> Result<bool, BadExportSetting> {
    let found = variables.of_exporter(signal, "COMPRESSION");
    match found.as_ref().map(|(name, value)| (name, *value)) {
        None | Some((_, "none")) => Ok(false),
        Some((_, "gzip")) => Ok(true),
        Some((name, other)) => Err(bad(name, other, "expected `gzip` or `none`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_headers_are_decoded_as_in_urls() {
        let check = |text, expected: Option<&[u8]>| assert_eq!(decoded(text).as_deref(), expected);
        check("Bearer%20a%3Db", Some(b"Bearer a=b"));
        check("", Some(b""));
        check("%4", None);
        check("%zz", None);
    }
}
