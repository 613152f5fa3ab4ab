//! Server-sent events: the documents that an endpoint makes of one document, as they are made.
//!
//! Lines end with CRLF: the stock client skips a fixed number of characters between the name of an event and its data.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Query, Request};
use axum::response::Response;
use bytes::Bytes;
use flow_core::{Code, DocArrayVersion, Document, Failure};
use flow_net::{ByteBudget, ConnectionHandle};
use flow_proto::jina::{HeaderProto, SingleDocumentRequestProto};
use futures_util::{Stream, StreamExt, stream};
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use super::{call, reply, request};
use crate::http::body::WholeBody;
use crate::http::state::{HttpState, options};

/// Silence after which a comment is sent, so that nothing between client and gateway takes the stream for dead.
const PING_EVERY: Duration = Duration::from_secs(15);

const PING: &str = ": ping\r\n\r\n";
const END: &str = "event: end\r\n\r\n";

/// Answers a request for a stream of documents. The body, or else the query, is the document.
pub(super) async fn answer(
    state: &HttpState,
    endpoint: String,
    version: Option<DocArrayVersion>,
    request: Request,
) -> Response {
    let header = HeaderProto {
        request_id: call::id(&request),
        exec_endpoint: Some(endpoint),
        ..HeaderProto::default()
    };
    match events(state, &header, version, request).await {
        Ok(events) => response(events),
        Err(failure) if failure.code() == Code::BadRequest => reply::invalid(&failure),
        Err(failure) => reply::failed(&failure, &header),
    }
}

fn response(events: impl Stream<Item = String> + Send + 'static) -> Response {
    let events = events.map(|it| Ok::<_, Infallible>(Bytes::from(it)));
    let mut response = Response::new(Body::from_stream(events));
    let headers = response.headers_mut();
    let kind = HeaderValue::from_static("text/event-stream; charset=utf-8");
    headers.insert(CONTENT_TYPE, kind);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

async fn events(
    state: &HttpState,
    header: &HeaderProto,
    version: Option<DocArrayVersion>,
    request: Request,
) -> Result<impl Stream<Item = String> + Send + use<>, Failure> {
    let options = options(&request)?;
    let budget = ConnectionHandle::budget_of(request.extensions()).cloned();
    let document = document(state, version, request).await?;
    // Once here, and once on its way to an executor.
    let held = budget
        .as_ref()
        .map(|budget| budget.hold(2 * document.len()));
    let request = SingleDocumentRequestProto {
        header: Some(header.clone()),
        document: Some(document),
        ..SingleDocumentRequestProto::default()
    };
    let sent = request.document.as_deref().and_then(DocArrayVersion::of);
    let sent = sent.unwrap_or(DocArrayVersion::V2);
    let documents = state.service.generate(request, options).await?;
    let heavy = state.service.heavy();
    let events = documents.then(move |reply| {
        let _held = &held;
        let (heavy, budget) = (heavy.clone(), budget.clone());
        async move {
            let reply = reply?;
            let len = reply.document.as_ref().map_or(0, Bytes::len);
            let update = move || update(&reply, sent, budget.as_ref());
            heavy.run(len, update).await
        }
    });
    Ok(with_pings(Box::pin(events), PING_EVERY))
}

/// The document of a request, encoded.
async fn document(
    state: &HttpState,
    version: Option<DocArrayVersion>,
    request: Request,
) -> Result<Bytes, Failure> {
    let bad = |text: String| Failure::new(Code::BadRequest, text);
    let query = Query::<Map<String, Value>>::try_from_uri(request.uri());
    let mut body = WholeBody::read(request, state).await?;
    let len = body.bytes.len();
    if body.bytes.is_empty() {
        let fields = query.map_err(|error| bad(format!("the query is not valid: {error}")))?;
        let document = Value::Object(fields.0).to_string();
        return request::single(version, document.as_bytes());
    }
    let parse = move || {
        body.parse_memory.hold_for(&body.bytes)?;
        request::single(version, &body.bytes)
    };
    state.service.heavy().run(len, parse).await
}

/// The event with a document.
fn update(
    reply: &SingleDocumentRequestProto,
    sent: DocArrayVersion,
    budget: Option<&ByteBudget>,
) -> Result<String, Failure> {
    let status = reply.header.as_ref().and_then(|it| it.status.as_ref());
    if let Some(failure) = status.and_then(Failure::from_status) {
        return Err(failure);
    }
    let internal = |error| Failure::from_error(Code::Internal, &error);
    let raw = reply.document.clone().unwrap_or_default();
    let version = DocArrayVersion::of(&raw).unwrap_or(sent);
    let document = Document::decode(version, raw).map_err(internal)?;
    let _held = reply::hold_for(std::slice::from_ref(&document), budget)?;
    let document = serde_json::to_string(&document);
    let document = document.map_err(|error| Failure::from_error(Code::Internal, &error))?;
    Ok(format!("event: update\r\ndata: {document}\r\n\r\n"))
}

/// The events, an end, and comments while there is nothing to send. A failure is the last event, and has no end.
fn with_pings<S>(events: S, every: Duration) -> impl Stream<Item = String> + Send
where
    S: Stream<Item = Result<String, Failure>> + Send + Unpin,
{
    stream::unfold(Some(events), move |events| async move {
        let mut events = events?;
        Some(match timeout(every, events.next()).await {
            Err(_silence) => (PING.to_owned(), Some(events)),
            Ok(Some(Ok(event))) => (event, Some(events)),
            Ok(Some(Err(failure))) => (error(&failure), None),
            Ok(None) => (END.to_owned(), None),
        })
    })
}

fn error(failure: &Failure) -> String {
    let detail = json!({ "detail": failure.to_string() });
    format!("event: error\r\ndata: {detail}\r\n\r\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn collected(events: Vec<Result<String, Failure>>) -> String {
        let events = with_pings(stream::iter(events), PING_EVERY);
        events.collect::<Vec<_>>().await.concat()
    }

    #[tokio::test]
    async fn events_end_with_an_end_or_with_an_error() {
        assert_eq!(
            collected(vec![Ok("a".to_owned())]).await,
            "aevent: end\r\n\r\n"
        );
        let failure = Failure::new(Code::Internal, "no");
        assert_eq!(
            collected(vec![Ok("a".to_owned()), Err(failure), Ok("b".to_owned())]).await,
            "aevent: error\r\ndata: {\"detail\":\"no\"}\r\n\r\n"
        );
    }

    #[tokio::test]
    async fn silence_is_broken_by_comments() {
        let mut events = Box::pin(with_pings(stream::pending(), Duration::from_millis(1)));
        assert_eq!(events.next().await.unwrap(), PING);
        assert_eq!(events.next().await.unwrap(), PING);
    }

    #[test]
    fn the_data_of_an_update_begins_where_the_stock_client_cuts() {
        let document = Document::from_text("a").encode();
        let reply = SingleDocumentRequestProto {
            document: Some(document),
            ..SingleDocumentRequestProto::default()
        };
        let event = update(&reply, DocArrayVersion::V1, None).unwrap();
        let after_name = event.strip_prefix("event: ").unwrap();
        let data: Value = serde_json::from_str(&after_name[14..]).unwrap();
        assert_eq!(data["text"], json!("a"));
    }
}
