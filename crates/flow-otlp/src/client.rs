//! Sends one message to a collector, over gRPC or HTTP.
//!
//! A call of gRPC with one message each way is a POST request over HTTP/2: the message has five bytes before it, and the status
//! is in the trailers. So both protocols share one client, and no code is generated.

use std::io::Write;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use flate2::Compression;
use flate2::write::GzEncoder;
use flow_net::tls::{ClientTls, TlsError};
use flow_net::{HttpClient, HttpClientError, HttpResponse, HttpVersion};
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, TE, USER_AGENT};
use http::uri::InvalidUri;
use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode, Uri};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message;
use tokio::time::timeout;

use crate::settings::{ExportTarget, OtlpProtocol, Signal};

/// Bytes before each message of gRPC: whether it is compressed, and its length.
const GRPC_HEAD_LEN: usize = 5;

/// Longest part of a collector's own text about a failure that is logged.
const TEXT_LEN_MAX: usize = 300;

/// A message could not be sent to the collector.
#[derive(Debug, thiserror::Error)]
pub enum CannotSend {
    /// The collector did not answer in time.
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    /// The request failed on its way.
    #[error(transparent)]
    Http(#[from] HttpClientError),
    /// The request cannot be written.
    #[error("the request cannot be written")]
    Request(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The collector returned an HTTP error status.
    #[error("the collector answered {status}{text}")]
    Status {
        /// The status.
        status: StatusCode,
        /// What the collector said, after a colon; may be empty.
        text: String,
    },
    /// The collector returned a gRPC error status.
    #[error("the collector answered with gRPC status {code}{text}")]
    Grpc {
        /// The status.
        code: String,
        /// What the collector said, after a colon; may be empty.
        text: String,
    },
    /// The collector's answer is not an OTLP message.
    #[error("the collector's answer is not an OTLP message")]
    Answer,
}

/// What a collector did not take of a message that it answered.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PartialSuccess {
    /// How many; zero if it took all of them.
    pub(crate) count: usize,
    /// Why.
    pub(crate) reason: String,
}

/// Sends messages of one signal to a collector.
#[derive(Debug)]
pub(crate) struct CollectorClient {
    target: ExportTarget,
    uri: Uri,
    headers: HeaderMap,
    tls: Option<ClientTls>,
    /// `None` until the first message, and after a failure. So nothing of a connection that hangs stays in memory.
    http: Option<HttpClient>,
}

/// A collector cannot be used as the settings say.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadTarget {
    #[error(transparent)]
    Uri(#[from] InvalidUri),
    #[error(transparent)]
    Tls(#[from] TlsError),
}

impl CollectorClient {
    pub(crate) fn new(signal: Signal, target: ExportTarget) -> Result<Self, BadTarget> {
        let uri = match target.protocol {
            OtlpProtocol::Grpc => {
                format!("{}{}", target.endpoint.trim_end_matches('/'), path(signal))
            }
            OtlpProtocol::HttpProtobuf => target.endpoint.clone(),
        };
        let tls = target.is_encrypted().then(|| target.tls.clone());
        Ok(Self {
            uri: uri.parse()?,
            headers: headers(&target),
            tls: tls.map(ClientTls::load).transpose()?,
            http: None,
            target,
        })
    }

    pub(crate) fn endpoint(&self) -> &str {
        &self.target.endpoint
    }

    /// Sends an encoded message, and says what of it the collector did not take.
    pub(crate) async fn send(
        &mut self,
        message: &[u8],
        limit: Duration,
    ) -> Result<PartialSuccess, CannotSend> {
        let request = self.request(message);
        let request = request.map_err(CannotSend::Request)?;
        let version = match self.target.protocol {
            OtlpProtocol::Grpc => HttpVersion::Http2,
            OtlpProtocol::HttpProtobuf => HttpVersion::Http1,
        };
        let tls = &self.tls;
        let http = self
            .http
            .get_or_insert_with(|| HttpClient::new(version, tls.clone()));
        let answered = match timeout(limit, http.send(request)).await {
            Ok(response) => response.map_err(CannotSend::from),
            Err(_elapsed) => Err(CannotSend::TimedOut(limit)),
        };
        let answered = answered.and_then(|it| refused(self.target.protocol, &it));
        if answered.is_err() {
            self.http = None;
        }
        answered
    }

    fn request(
        &self,
        message: &[u8],
    ) -> Result<Request<Bytes>, Box<dyn std::error::Error + Send + Sync>> {
        let compressed = self.target.is_gzip.then(|| gzip(message)).transpose()?;
        let message = compressed.as_deref().unwrap_or(message);
        let body = match self.target.protocol {
            OtlpProtocol::Grpc => framed(message, self.target.is_gzip)?,
            OtlpProtocol::HttpProtobuf => Bytes::copy_from_slice(message),
        };
        let mut request = Request::post(self.uri.clone()).body(body)?;
        *request.headers_mut() = self.headers.clone();
        Ok(request)
    }
}

/// The method of gRPC that takes a signal.
fn path(signal: Signal) -> &'static str {
    match signal {
        Signal::Traces => "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
        Signal::Metrics => "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
        Signal::Logs => "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
    }
}

/// The headers of each request.
fn headers(target: &ExportTarget) -> HeaderMap {
    let mut headers = HeaderMap::new();
    // Those of the settings first: what the protocol needs wins.
    headers.extend(target.headers.0.iter().cloned());
    let agent = concat!("flow/", env!("CARGO_PKG_VERSION"));
    headers.insert(USER_AGENT, HeaderValue::from_static(agent));
    let (content_type, encoding) = match target.protocol {
        OtlpProtocol::Grpc => {
            headers.insert(TE, HeaderValue::from_static("trailers"));
            ("application/grpc", HeaderName::from_static("grpc-encoding"))
        }
        OtlpProtocol::HttpProtobuf => ("application/x-protobuf", CONTENT_ENCODING),
    };
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    if target.is_gzip {
        headers.insert(encoding, HeaderValue::from_static("gzip"));
    }
    headers
}

fn gzip(message: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(message)?;
    encoder.finish()
}

/// A message of gRPC.
fn framed(message: &[u8], is_compressed: bool) -> Result<Bytes, std::num::TryFromIntError> {
    let mut body = BytesMut::with_capacity(GRPC_HEAD_LEN + message.len());
    body.put_u8(u8::from(is_compressed));
    body.put_u32(u32::try_from(message.len())?);
    body.put_slice(message);
    Ok(body.freeze())
}

/// What an answer says that the collector did not take.
fn refused(protocol: OtlpProtocol, response: &HttpResponse) -> Result<PartialSuccess, CannotSend> {
    if !response.status.is_success() {
        // Over HTTP the body is a message of protobuf as well, whose text is readable.
        let text = readable(&response.body);
        let status = response.status;
        return Err(CannotSend::Status { status, text });
    }
    let message = match protocol {
        OtlpProtocol::HttpProtobuf => &response.body[..],
        OtlpProtocol::Grpc => {
            let header = |name| response.headers.get(name).map(HeaderValue::as_bytes);
            let code = header("grpc-status").ok_or(CannotSend::Answer)?;
            if code != b"0" {
                let text = readable(header("grpc-message").unwrap_or_default());
                let code = String::from_utf8_lossy(code).into_owned();
                return Err(CannotSend::Grpc { code, text });
            }
            let body = response.body.get(GRPC_HEAD_LEN..);
            body.ok_or(CannotSend::Answer)?
        }
    };
    // The answers to all signals have the same form.
    let answer = ExportTraceServiceResponse::decode(message).map_err(|_| CannotSend::Answer)?;
    let partial = answer.partial_success.unwrap_or_default();
    Ok(PartialSuccess {
        count: usize::try_from(partial.rejected_spans).unwrap_or(0),
        reason: partial.error_message,
    })
}

/// What a collector said, after a colon and on one line; nothing if it said nothing.
fn readable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let is_fine = |c: char| !c.is_control() && c != char::REPLACEMENT_CHARACTER;
    let text: String = text
        .chars()
        .filter(|c| is_fine(*c))
        .take(TEXT_LEN_MAX)
        .collect();
    match text.trim() {
        "" => String::new(),
        text => format!(": {text}"),
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTracePartialSuccess;

    use super::*;

    fn answer(status: u16, headers: &[(&'static str, &'static str)], body: &[u8]) -> HttpResponse {
        let headers = headers.iter().map(|&(name, value)| {
            let name = HeaderName::from_static(name);
            (name, HeaderValue::from_static(value))
        });
        HttpResponse {
            status: StatusCode::from_u16(status).unwrap(),
            headers: headers.collect(),
            body: Bytes::copy_from_slice(body),
        }
    }

    #[test]
    fn an_answer_names_what_was_refused() {
        let partial = ExportTraceServiceResponse {
            partial_success: Some(ExportTracePartialSuccess {
                rejected_spans: 2,
                error_message: "too old".to_owned(),
            }),
        };
        let partial = partial.encode_to_vec();
        let expected = PartialSuccess {
            count: 2,
            reason: "too old".to_owned(),
        };
        let http = answer(200, &[], &partial);
        assert_eq!(
            refused(OtlpProtocol::HttpProtobuf, &http).unwrap(),
            expected
        );
        let framed = framed(&partial, false).unwrap();
        let grpc = answer(200, &[("grpc-status", "0")], &framed);
        assert_eq!(refused(OtlpProtocol::Grpc, &grpc).unwrap(), expected);
        let all = answer(200, &[], b"");
        let all = refused(OtlpProtocol::HttpProtobuf, &all).unwrap();
        assert_eq!(all, PartialSuccess::default());
    }

    #[test]
    fn a_failure_says_what_the_collector_said() {
        let check = |protocol, response: HttpResponse, expected: &str| {
            let error = refused(protocol, &response).unwrap_err();
            assert_eq!(error.to_string(), expected);
        };
        check(
            OtlpProtocol::HttpProtobuf,
            answer(404, &[], b"\x12no such\n path"),
            "the collector answered 404 Not Found: no such path",
        );
        check(
            OtlpProtocol::Grpc,
            answer(
                200,
                &[("grpc-status", "16"), ("grpc-message", "no token")],
                b"",
            ),
            "the collector answered with gRPC status 16: no token",
        );
        check(
            OtlpProtocol::Grpc,
            answer(200, &[], b"hello"),
            "the collector's answer is not an OTLP message",
        );
    }
}
