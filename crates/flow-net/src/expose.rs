//! Shows a process's numbers to whoever asks: `GET /metrics` over HTTP/1.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use flow_metrics::Metrics;
use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::{BindError, Bound};

/// Who asks at a time: a few Prometheus servers and a person. More wait, and take nothing from requests.
const ASKING_MAX: usize = 16;

/// How long an answer may take its reader; one that does not read holds a place.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// After a connection that could not be accepted, for then the next cannot either.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The text format that every reader of Prometheus' knows.
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

/// A process's metrics have no port.
#[derive(Debug, thiserror::Error)]
#[error("the metrics cannot be shown (`port_monitoring`)")]
pub struct ExposeError(#[source] BindError);

/// A port at which numbers will be shown.
#[derive(Debug)]
pub struct Exposed {
    bound: Bound,
    metrics: Metrics,
}

impl Exposed {
    /// Takes the port; 0 takes any that is free.
    ///
    /// # Errors
    ///
    /// If the host has no address here, or the port is taken.
    pub async fn bind(host: &str, port: u16, metrics: Metrics) -> Result<Self, ExposeError> {
        let bound = Bound::listen(host, port).await.map_err(ExposeError)?;
        Ok(Self { bound, metrics })
    }

    /// The address with the port that was really taken.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.bound.local_addr()
    }

    /// Answers until dropped.
    pub async fn answer(self) -> Infallible {
        let listener = self.bound.into_listener();
        let mut asking = JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept(), if asking.len() < ASKING_MAX => match accepted {
                    Ok((stream, _)) => drop(asking.spawn(answer(stream, self.metrics.clone()))),
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept who asks for metrics");
                        sleep(ACCEPT_PAUSE).await;
                    }
                },
                Some(_) = asking.join_next() => {}
            }
        }
    }
}

/// One connection, one answer: a question comes every some seconds, and nothing waits in between.
async fn answer(stream: TcpStream, metrics: Metrics) {
    let service = service_fn(|request| {
        let reply = reply(&request, &metrics);
        async { Ok::<_, Infallible>(reply) }
    });
    let connection = http1::Builder::new()
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    match timeout(ANSWER_MAX, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "who asked for metrics was not answered"),
        Err(_elapsed) => tracing::debug!("who asked for metrics took too long"),
    }
}

fn reply(request: &Request<Incoming>, metrics: &Metrics) -> Response<Full<Bytes>> {
    match (request.method(), request.uri().path()) {
        // Stock Jina shows them at every path, `/` among them.
        (&Method::GET | &Method::HEAD, "/metrics" | "/") => {
            let mut response = Response::new(Full::from(metrics.text()));
            response.headers_mut().insert(CONTENT_TYPE, TEXT);
            response
        }
        (&Method::GET | &Method::HEAD, _) => refusal(StatusCode::NOT_FOUND, "see /metrics\n"),
        _ => {
            let mut response = refusal(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
            let allowed = HeaderValue::from_static("GET, HEAD");
            response.headers_mut().insert(ALLOW, allowed);
            response
        }
    }
}

fn refusal(status: StatusCode, why: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(why));
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use flow_metrics::{Counter, Title};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn start(metrics: Metrics) -> (SocketAddr, JoinSet<Infallible>) {
        let exposed = Exposed::bind("127.0.0.1", 0, metrics).await.unwrap();
        let address = exposed.local_addr();
        let mut server = JoinSet::new();
        server.spawn(exposed.answer());
        (address, server)
    }

    async fn ask(address: SocketAddr, line: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("{line} HTTP/1.1\r\nHost: x\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn it_shows_the_numbers_as_they_are_when_somebody_asks() {
        let metrics = Metrics::new();
        let counter = Counter::default();
        let title = Title {
            name: "jina_x_total",
            help: "X.",
        };
        metrics.show(title, &[], counter.clone());
        let (address, _server) = start(metrics).await;
        for times in 1..=2 {
            counter.add(1);
            let answer = ask(address, "GET /metrics").await;
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
            assert!(
                answer.contains("content-type: text/plain; version=0.0.4"),
                "{answer}"
            );
            let expected = format!("\njina_x_total {times}\n");
            assert!(answer.ends_with(&expected), "{answer}");
        }
    }

    #[tokio::test]
    async fn other_paths_and_methods_are_refused() {
        let (address, _server) = start(Metrics::new()).await;
        let status = async |line| ask(address, line).await[9..12].to_owned();
        assert_eq!(status("GET /").await, "200");
        assert_eq!(status("HEAD /metrics").await, "200");
        assert_eq!(status("GET /other").await, "404");
        assert_eq!(status("POST /metrics").await, "405");
    }

    #[tokio::test]
    async fn who_connects_and_says_nothing_keeps_nobody_else_out() {
        let (address, _server) = start(Metrics::new()).await;
        let mut silent = Vec::new();
        for _ in 1..ASKING_MAX {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        assert!(
            ask(address, "GET /metrics")
                .await
                .starts_with("HTTP/1.1 200")
        );
    }

    #[tokio::test]
    async fn a_taken_port_is_told_with_the_key_that_chose_it() {
        let taken = Bound::listen("127.0.0.1", 0).await.unwrap();
        let port = taken.local_addr().port();
        let error = Exposed::bind("127.0.0.1", port, Metrics::new()).await;
        let told = flow_core::Chain(&error.unwrap_err()).to_string();
        let expected = format!(
            "the metrics cannot be shown (`port_monitoring`): cannot listen on `127.0.0.1:{port}` (another \
             program has the port"
        );
        assert!(told.starts_with(&expected), "{told}");
    }
}
