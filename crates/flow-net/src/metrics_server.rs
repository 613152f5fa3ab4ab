//! Shows a process's metrics to Prometheus: `GET /metrics`.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::time::Duration;

use bytes::Bytes;
use flow_metrics::{ExpositionFormat, Registry};
use http::header::{ACCEPT, ALLOW, CONTENT_TYPE, VARY};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;

use crate::{BindError, ConnectionLimits, HttpService, Listener, Server};

/// Maximum concurrent metrics connections: a few Prometheus servers and a person. Further ones wait, and take
/// nothing from requests.
const CONNECTIONS_MAX: NonZeroUsize = NonZeroUsize::new(16).expect("16 is not zero");

/// Time after which a connection is closed; a client that does not read occupies one of the few.
const LIFETIME_MAX: Duration = Duration::from_secs(10);

/// The port for a process's metrics could not be bound.
#[derive(Debug, thiserror::Error)]
#[error("cannot serve the metrics (`port_monitoring`)")]
pub struct MetricsServerError(#[source] BindError);

/// A port at which a process shows its metrics.
#[derive(Debug)]
pub struct MetricsServer {
    listener: Listener,
    metrics: Registry,
}

impl MetricsServer {
    /// Binds the port; 0 takes any free port.
    ///
    /// # Errors
    ///
    /// If the host has no address on this machine, or the port is taken.
    pub async fn bind(
        host: &str,
        port: u16,
        metrics: Registry,
    ) -> Result<Self, MetricsServerError> {
        let listener = Listener::bind(host, port).await;
        Ok(Self {
            listener: listener.map_err(MetricsServerError)?,
            metrics,
        })
    }

    /// The address, with the port that was taken.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.listener.local_addr()
    }

    /// Serves until the future is dropped.
    pub async fn serve(self) -> Infallible {
        let limits = ConnectionLimits {
            connections_max: Some(CONNECTIONS_MAX),
            lifetime_max: Some(LIFETIME_MAX),
            // A scrape comes every few seconds, and a connection that waits for one occupies a place.
            http1_keep_alive: false,
            ..ConnectionLimits::default()
        };
        let server = Server::new(self.listener, MetricsService(self.metrics));
        server.with_limits(limits).serve_until_dropped().await
    }
}

#[derive(Clone)]
struct MetricsService(Registry);

impl HttpService for MetricsService {
    type Body = Full<Bytes>;
    type Future = Ready<Result<Response<Full<Bytes>>, Infallible>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        ready(Ok(respond(&request, &self.0)))
    }
}

fn respond<B>(request: &Request<B>, metrics: &Registry) -> Response<Full<Bytes>> {
    match (request.method(), request.uri().path()) {
        // Stock Jina shows them at every path, `/` among them.
        (&Method::GET | &Method::HEAD, "/metrics" | "/") => {
            let format = wanted(request.headers());
            let mut response = Response::new(Full::from(metrics.expose(format)));
            let headers = response.headers_mut();
            let kind = HeaderValue::from_static(format.content_type());
            headers.insert(CONTENT_TYPE, kind);
            headers.insert(VARY, HeaderValue::from_static("accept"));
            response
        }
        (&Method::GET | &Method::HEAD, _) => refuse(StatusCode::NOT_FOUND, "see /metrics\n"),
        _ => {
            let mut response = refuse(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
            let allowed = HeaderValue::from_static("GET, HEAD");
            response.headers_mut().insert(ALLOW, allowed);
            response
        }
    }
}

/// The format that a reader wants.
fn wanted(headers: &HeaderMap) -> ExpositionFormat {
    let accept = headers.get_all(ACCEPT).iter();
    let accept: Vec<&str> = accept.filter_map(|it| it.to_str().ok()).collect();
    ExpositionFormat::wanted(&accept.join(","))
}

fn refuse(status: StatusCode, reason: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(reason));
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use flow_metrics::{Counter, Description};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;
    use tokio::task::JoinSet;

    use super::*;

    async fn start(metrics: Registry) -> (SocketAddr, JoinSet<Infallible>) {
        let server = MetricsServer::bind("127.0.0.1", 0, metrics).await.unwrap();
        let address = server.local_addr();
        let mut tasks = JoinSet::new();
        tasks.spawn(server.serve());
        (address, tasks)
    }

    async fn get(address: SocketAddr, line: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("{line} HTTP/1.1\r\nHost: x\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).await.unwrap();
        response
    }

    #[tokio::test]
    async fn each_request_is_answered_with_the_current_values() {
        let metrics = Registry::new();
        let counter = Counter::default();
        let title = Description {
            name: "jina_x_total",
            help: "X.",
        };
        metrics.register(title, &[], counter.clone());
        let (address, _server) = start(metrics).await;
        for count in 1..=2 {
            counter.add(1);
            let response = get(address, "GET /metrics").await;
            assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
            assert!(
                response.contains("content-type: text/plain; version=0.0.4"),
                "{response}"
            );
            let expected = format!("\njina_x_total {count}\n");
            assert!(response.ends_with(&expected), "{response}");
        }
    }

    #[tokio::test]
    async fn other_paths_and_methods_are_refused() {
        let (address, _server) = start(Registry::new()).await;
        let status = async |line| get(address, line).await[9..12].to_owned();
        assert_eq!(status("GET /").await, "200");
        assert_eq!(status("HEAD /metrics").await, "200");
        assert_eq!(status("GET /other").await, "404");
        assert_eq!(status("POST /metrics").await, "405");
    }

    #[tokio::test]
    async fn a_client_gets_the_format_that_it_prefers() {
        let metrics = Registry::new();
        let title = Description {
            name: "x_total",
            help: "X.",
        };
        metrics.register(title, &[], Counter::default());
        let kind = |accept: &'static str| {
            let request = Request::get("/metrics").header(ACCEPT, accept).body(());
            let response = respond(&request.unwrap(), &metrics);
            response.headers()[CONTENT_TYPE]
                .to_str()
                .unwrap()
                .to_owned()
        };
        assert!(kind("text/html, */*;q=0.1").starts_with("text/plain; version=0.0.4"));
        let wanted = "application/openmetrics-text;version=1.0.0,text/plain;q=0.5";
        assert!(kind(wanted).starts_with("application/openmetrics-text; version=1.0.0"));
        let wanted = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";
        assert!(kind(wanted).starts_with("application/vnd.google.protobuf; proto="));
    }

    #[tokio::test]
    async fn silent_connections_do_not_keep_others_out() {
        let (address, _server) = start(Registry::new()).await;
        let mut silent = Vec::new();
        for _ in 1..CONNECTIONS_MAX.get() {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        let response = get(address, "GET /metrics").await;
        assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    }

    #[tokio::test]
    async fn a_taken_port_is_reported_with_the_key_that_chose_it() {
        let taken = Listener::bind("127.0.0.1", 0).await.unwrap();
        let port = taken.local_addr().port();
        let error = MetricsServer::bind("127.0.0.1", port, Registry::new()).await;
        let message = flow_core::Chain(&error.unwrap_err()).to_string();
        let expected = format!(
            "cannot serve the metrics (`port_monitoring`): cannot listen on `127.0.0.1:{port}` (another \
             program uses the port"
        );
        assert!(message.starts_with(&expected), "{message}");
    }
}
