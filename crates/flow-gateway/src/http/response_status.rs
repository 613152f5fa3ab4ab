//! The status of a response, as an attribute of the span of its request.
//!
//! Each API chooses the status of a failure when the request has ended already. So the span of a request over HTTP is kept
//! until the head of the response is there.

use std::cell::RefCell;

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use flow_trace::Span;

const STATUS: &str = "http.response.status_code";

tokio::task_local! {
    static KEPT: RefCell<Option<Span>>;
}

/// Ends the span of a request with the status of the response.
pub(crate) async fn record(request: Request, next: Next) -> Response {
    let answer = async {
        let response = next.run(request).await;
        if let Some(mut span) = KEPT.with(RefCell::take) {
            let status = response.status().as_u16();
            span.set(STATUS, i64::from(status));
        }
        response
    };
    KEPT.scope(RefCell::default(), answer).await
}

/// Keeps the span of a request that has ended until its response is there. A stream of events began to answer before.
pub(crate) fn keep(span: Span, failed: bool) {
    let mut span = Some(span);
    let is_kept = KEPT.try_with(|kept| kept.replace(span.take())).is_ok();
    if let Some(mut span) = span.filter(|_| !is_kept && !failed) {
        span.set(STATUS, 200_i64);
    }
}
