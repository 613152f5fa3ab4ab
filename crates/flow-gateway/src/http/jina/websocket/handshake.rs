//! The handshake: an HTTP request becomes a WebSocket (RFC 6455, section 4.2).

use axum::body::Body;
use axum::response::Response;
use http::header::{
    CONNECTION, HeaderName, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_EXTENSIONS, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Version};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio_tungstenite::WebSocketStream;
use tungstenite::handshake::derive_accept_key;
use tungstenite::protocol::{Role, WebSocketConfig};

use super::extension::Deflate;
use super::message_io::{CompressionOptions, MessageIo};
use crate::http::status::detail;

/// The only version that there is.
const VERSION: &str = "13";

/// A WebSocket of a client.
pub(super) type Socket = WebSocketStream<MessageIo<TokioIo<Upgraded>>>;

/// A request that becomes a WebSocket.
#[derive(Debug)]
pub(super) struct Handshake {
    key: HeaderValue,
    deflate: Option<Deflate>,
    connection: OnUpgrade,
}

/// A request cannot become a WebSocket.
#[derive(Debug, Clone, Copy)]
pub(super) struct BadHandshake {
    status: StatusCode,
    why: &'static str,
}

impl BadHandshake {
    /// The answer to the request.
    pub(super) fn answer(self) -> Response {
        let mut answer = detail(self.status, self.why);
        if self.status == StatusCode::UPGRADE_REQUIRED {
            let version = HeaderValue::from_static(VERSION);
            answer.headers_mut().insert(SEC_WEBSOCKET_VERSION, version);
        }
        answer
    }
}

impl Handshake {
    /// Reads the request.
    pub(super) fn read(parts: &mut Parts) -> Result<Self, BadHandshake> {
        let refused = |status, why| Err(BadHandshake { status, why });
        let headers = &parts.headers;
        if parts.method != Method::GET || parts.version > Version::HTTP_11 {
            let why = "a WebSocket begins with a GET request of HTTP/1.1";
            return refused(StatusCode::METHOD_NOT_ALLOWED, why);
        }
        if !lists(headers, CONNECTION, "upgrade") || !lists(headers, UPGRADE, "websocket") {
            let why =
                "a WebSocket needs the headers `connection: upgrade` and `upgrade: websocket`";
            return refused(StatusCode::BAD_REQUEST, why);
        }
        if headers
            .get(SEC_WEBSOCKET_VERSION)
            .is_none_or(|it| it != VERSION)
        {
            let why = "the header `sec-websocket-version` must be 13";
            return refused(StatusCode::UPGRADE_REQUIRED, why);
        }
        let Some(key) = headers.get(SEC_WEBSOCKET_KEY).cloned() else {
            let why = "the header `sec-websocket-key` is missing";
            return refused(StatusCode::BAD_REQUEST, why);
        };
        let deflate = Deflate::agree(headers);
        match parts.extensions.remove::<OnUpgrade>() {
            Some(connection) => Ok(Self {
                key,
                deflate,
                connection,
            }),
            None => refused(
                StatusCode::BAD_REQUEST,
                "this connection cannot become a WebSocket",
            ),
        }
    }

    /// The answer to the request. The connection becomes a WebSocket when it is sent.
    pub(super) fn answer(&self) -> Response {
        let mut answer = Response::new(Body::empty());
        *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = answer.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        let extension = self.deflate.map(Deflate::header);
        for (name, value) in [
            (
                SEC_WEBSOCKET_ACCEPT,
                Some(derive_accept_key(self.key.as_bytes())),
            ),
            (SEC_WEBSOCKET_EXTENSIONS, extension),
        ] {
            if let Some(Ok(value)) = value.map(HeaderValue::try_from) {
                headers.insert(name, value);
            }
        }
        answer
    }

    /// How messages are compressed; `None` if they are not.
    pub(super) fn deflate(&self) -> Option<Deflate> {
        self.deflate
    }

    /// The WebSocket, when the answer is sent; `None` if the client has gone before.
    pub(super) async fn socket(
        self,
        config: WebSocketConfig,
        compression: Option<CompressionOptions>,
    ) -> Option<Socket> {
        let io = TokioIo::new(self.connection.await.ok()?);
        let io = MessageIo::new(io, compression);
        Some(WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await)
    }
}

/// Whether a header whose values are lists contains a word, in capitals or not.
fn lists(headers: &HeaderMap, name: HeaderName, word: &str) -> bool {
    let values = headers.get_all(name).iter();
    let mut words = values
        .filter_map(|it| it.to_str().ok())
        .flat_map(|it| it.split(','));
    words.any(|it| it.trim().eq_ignore_ascii_case(word))
}
