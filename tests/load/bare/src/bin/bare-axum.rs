//! The baseline for the gateway's HTTP: a bare axum server.
//!
//! `bare-axum echo` answers each request with the body that came; `bare-axum proxy URL` forwards the body to one upstream
//! and the answer back, over connections that stay open. `bare-axum collector` takes whatever is sent to it, as a collector of
//! OpenTelemetry does. None looks into a body. Both are written as one would at
//! first: the libraries' defaults, nothing tuned.

use anyhow::bail;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{Request, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::net::TcpListener;

// The program measured beside this one has it too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str = "usage: bare-axum echo | proxy URL | collector";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["echo"] => serve(Router::new().route("/post", post(echo))).await,
        ["proxy", url] => {
            let mut connector = HttpConnector::new();
            connector.set_nodelay(true);
            let upstream = Upstream {
                client: Client::builder(TokioExecutor::new()).build(connector),
                url: format!("{url}/post"),
            };
            let routes = Router::new().route("/post", post(forward));
            serve(routes.with_state(upstream)).await
        }
        ["collector"] => serve(Router::new().fallback(take)).await,
        _ => bail!(USAGE),
    }
}

async fn serve(routes: Router) -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    say(&format!("ready on {}", listener.local_addr()?));
    let listener = axum::serve::ListenerExt::tap_io(listener, |stream| {
        drop(stream.set_nodelay(true));
    });
    Ok(axum::serve(listener, routes).await?)
}

async fn echo(body: Bytes) -> Response {
    ([(CONTENT_TYPE, "application/json")], body).into_response()
}

/// An empty message says that all was taken.
async fn take(_body: Bytes) {}

#[derive(Clone)]
struct Upstream {
    client: Client<HttpConnector, Full<Bytes>>,
    url: String,
}

async fn forward(State(upstream): State<Upstream>, body: Bytes) -> Response {
    let request = Request::post(&upstream.url).header(CONTENT_TYPE, "application/json");
    let Ok(request) = request.body(Full::new(body)) else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    match upstream.client.request(request).await {
        Ok(answer) => answer.map(Body::new),
        Err(_) => StatusCode::BAD_GATEWAY.into_response(),
    }
}

#[allow(clippy::print_stdout, reason = "the parent process waits for the line")]
fn say(line: &str) {
    println!("{line}");
}
