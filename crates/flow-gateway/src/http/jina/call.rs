//! Calls of endpoints: a JSON body becomes a request, and its reply a response.

use axum::extract::Request;
use axum::response::Response;
use flow_core::{CallOptions, Code, DocArrayVersion, Failure, RequestId};
use flow_net::{ByteBudget, ConnectionHandle};
use flow_proto::jina::HeaderProto;

use super::reply::{self, Rendered};
use super::request::{self, Known, Parsed};
use super::route::Call;
use crate::http::body::WholeBody;
use crate::http::request_id::HeaderId;
use crate::http::state::{HttpState, options};
use crate::stream::request_cost;

/// Answers a call.
pub(super) async fn answer(
    state: &HttpState,
    call: Call,
    version: Option<DocArrayVersion>,
    request: Request,
) -> Response {
    let known = Known {
        call,
        version,
        documents_max: state.limits.requests.documents.documents_max,
        id: id(&request),
    };
    let budget = ConnectionHandle::budget_of(request.extensions()).cloned();
    let options = options(&request);
    let parsed = match read(state, known.clone(), request).await {
        Ok(parsed) => parsed,
        Err(failure) if failure.code() == Code::BadRequest => return reply::invalid(&failure),
        Err(failure) => return reply::failed(&failure, &known_header(known)),
    };
    let header = parsed.envelope.header.clone().unwrap_or_default();
    let _held = budget
        .as_ref()
        .map(|budget| budget.hold(request_cost(&parsed.envelope)));
    match run(state, parsed, options, budget).await {
        Ok(rendered) => rendered.into_response(),
        Err(failure) => reply::failed(&failure, &header),
    }
}

/// The id of a request whose body names none.
pub(super) fn id(request: &Request) -> String {
    let id = request.extensions().get::<HeaderId>();
    id.map_or_else(|| RequestId::random().into(), |it| it.0.clone())
}

fn known_header(known: Known) -> HeaderProto {
    HeaderProto {
        request_id: known.id,
        exec_endpoint: known.call.endpoint,
        ..HeaderProto::default()
    }
}

async fn read(state: &HttpState, known: Known, request: Request) -> Result<Parsed, Failure> {
    let mut body = WholeBody::read(request, state).await?;
    let len = body.bytes.len();
    let parse = move || request::parse(&body.bytes, known, &mut body.parse_memory);
    state.service.heavy().run(len, parse).await
}

async fn run(
    state: &HttpState,
    parsed: Parsed,
    options: Result<CallOptions, Failure>,
    budget: Option<ByteBudget>,
) -> Result<Rendered, Failure> {
    let is_v1 = parsed.is_v1;
    let reply = state
        .service
        .unary(parsed.envelope, options?)
        .await?
        .envelope;
    let len = reply.data.as_ref().map_or(0, bytes::Bytes::len);
    let render = move || reply::render(&reply, is_v1, budget.as_ref());
    state.service.heavy().run(len, render).await
}
