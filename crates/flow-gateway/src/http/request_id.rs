//! The id of a request: taken from its headers or made, used as the id of its call, and returned.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use flow_core::RequestId;
use http::{HeaderName, HeaderValue};

/// The header, in requests and responses.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Longest id that is taken from a header.
const LEN_MAX: usize = 256;

/// The id of a request, as an extension of it.
#[derive(Debug, Clone)]
pub(crate) struct HeaderId(pub(crate) String);

/// Gives a request its id, and the response the same one, unless it has another.
pub(crate) async fn identify(mut request: Request, next: Next) -> Response {
    let sent = request.headers().get(REQUEST_ID);
    let sent = sent.and_then(|it| it.to_str().ok());
    let id = match sent.filter(|it| !it.is_empty() && it.len() <= LEN_MAX) {
        Some(id) => id.to_owned(),
        None => RequestId::random().into(),
    };
    request.extensions_mut().insert(HeaderId(id.clone()));
    let mut response = next.run(request).await;
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().entry(REQUEST_ID).or_insert(id);
    }
    response
}
