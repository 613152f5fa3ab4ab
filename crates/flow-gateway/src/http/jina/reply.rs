//! Replies and failures as JSON, in the two forms of Jina's gateways.
//!
//! The gateway for the first version answers with `header`, `parameters`, `routes` and `data`, and with status 200 also if
//! an executor failed. That for the second answers with `data`, `parameters` and `header`, and with a failure's status and
//! `detail`.

use axum::Json;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use flow_core::{Code, DocumentArray, Failure};
use flow_proto::Envelope;
use flow_proto::jina::{HeaderProto, RouteProto};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use prost_types::Timestamp;
use serde::Serialize;
use serde::ser::{Error as _, SerializeSeq, Serializer};
use serde_json::{Value, json};

use super::super::embeddings::SERVER_TIMING;
use super::super::request_id::REQUEST_ID;
use super::super::status::{status, status_json, write_retry_after};

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// How the names of a reply are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Names {
    Camel,
    Snake,
}

/// A reply, ready to be sent.
#[derive(Debug)]
pub(super) struct Rendered {
    status: StatusCode,
    body: Bytes,
    id: String,
    timing: String,
}

impl Rendered {
    pub(super) fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.body));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, JSON);
        if let Ok(id) = HeaderValue::from_str(&self.id) {
            headers.insert(REQUEST_ID, id);
        }
        if let Ok(timing) = HeaderValue::from_str(&self.timing) {
            headers.insert(SERVER_TIMING, timing);
        }
        response
    }
}

/// The response to a request that has a reply.
pub(super) fn render(reply: &Envelope, is_v1: bool) -> Result<Rendered, Failure> {
    let header = reply.header.clone().unwrap_or_default();
    let failure = header.status.as_ref().and_then(Failure::from_status);
    let (code, body) = match (is_v1, failure) {
        (true, _) => (StatusCode::OK, v1(reply, Names::Camel)?),
        (false, None) => (StatusCode::OK, v2(reply, &header)?),
        (false, Some(failure)) => {
            // Stock gateways answer with the description of the status.
            let text = header.status.map_or_else(String::new, |it| it.description);
            (
                status(failure.code()),
                json!({ "detail": text }).to_string(),
            )
        }
    };
    Ok(Rendered {
        status: code,
        body: body.into(),
        id: header.request_id,
        timing: timing(&reply.routes),
    })
}

/// A reply in the form of the first version.
pub(super) fn v1(reply: &Envelope, names: Names) -> Result<String, Failure> {
    let name = |camel, snake| match names {
        Names::Camel => camel,
        Names::Snake => snake,
    };
    let header = reply.header.clone().unwrap_or_default();
    let status = header.status.as_ref().filter(|it| it.code != 0);
    let routes = reply.routes.iter().map(|it| {
        json!({
            "executor": it.executor,
            (name("startTime", "start_time")): it.start_time.as_ref().map(Timestamp::to_string),
            (name("endTime", "end_time")): it.end_time.as_ref().map(Timestamp::to_string),
            "status": it.status.as_ref().map(status_json),
        })
    });
    let header = json!({
        (name("requestId", "request_id")): header.request_id,
        "status": status.map(status_json),
        (name("execEndpoint", "exec_endpoint")): header.exec_endpoint,
        (name("targetExecutor", "target_executor")): header.target_executor,
    });
    written(&[
        ("header", Part::Json(header)),
        ("parameters", Part::Json(parameters(reply)?)),
        ("routes", Part::Json(routes.collect())),
        ("data", Part::Documents(documents(reply)?)),
    ])
}

fn v2(reply: &Envelope, header: &HeaderProto) -> Result<String, Failure> {
    let header = json!({
        "requestId": header.request_id,
        "targetExecutor": header.target_executor,
    });
    written(&[
        ("data", Part::Documents(documents(reply)?)),
        ("parameters", Part::Json(parameters(reply)?)),
        ("header", Part::Json(header)),
    ])
}

/// A part of a reply.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Part {
    Json(Value),
    #[serde(serialize_with = "write_documents")]
    Documents(DocumentArray),
}

/// An object with these fields.
fn written(fields: &[(&str, Part)]) -> Result<String, Failure> {
    let mut out = Vec::new();
    let mut json = serde_json::Serializer::new(&mut out);
    let fields = fields.iter().map(|(name, part)| (name, part));
    let done = json.collect_map(fields);
    done.map_err(|error| Failure::from_error(Code::Internal, &error))?;
    String::from_utf8(out).map_err(|error| Failure::from_error(Code::Internal, &error))
}

/// Converts each document when it is written. The values of all would take many times the memory of their bytes.
fn write_documents<S: Serializer>(
    documents: &DocumentArray,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut list = serializer.serialize_seq(Some(documents.len()))?;
    for document in documents.iter() {
        list.serialize_element(&document.to_json().map_err(S::Error::custom)?)?;
    }
    list.end()
}

fn parameters(reply: &Envelope) -> Result<Value, Failure> {
    let parameters = flow_core::parameters::to_json(reply.parameters.as_ref());
    let parameters = parameters.map_err(|error| Failure::from_error(Code::Internal, &error))?;
    Ok(Value::Object(parameters))
}

fn documents(reply: &Envelope) -> Result<DocumentArray, Failure> {
    let documents = reply.data.as_ref().map(DocumentArray::decode).transpose();
    let documents = documents.map_err(|error| Failure::from_error(Code::Internal, &error))?;
    Ok(documents.unwrap_or_default())
}

/// The times of the gateway and of each node, in milliseconds.
fn timing(routes: &[RouteProto]) -> String {
    let millis = |at: &Timestamp| at.seconds as f64 * 1e3 + f64::from(at.nanos) / 1e6;
    let times = routes.iter().filter_map(|it| {
        let took = millis(it.end_time.as_ref()?) - millis(it.start_time.as_ref()?);
        Some(format!("{};dur={took:.3}", token(&it.executor)))
    });
    times.collect::<Vec<_>>().join(", ")
}

/// The name of a node as a token of HTTP.
fn token(name: &str) -> String {
    let is_token = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_' | '.');
    name.replace(|it| !is_token(it), "_")
}

/// The response to a request that no executor answered.
pub(super) fn failed(failure: &Failure, header: &HeaderProto) -> Response {
    let text = failure.to_string();
    let body = json!({
        "detail": text,
        "header": {
            "requestId": header.request_id,
            "status": status_json(&failure.to_status()),
            "execEndpoint": header.exec_endpoint,
            "targetExecutor": header.target_executor,
        },
    });
    let rendered = Rendered {
        status: status(failure.code()),
        body: body.to_string().into(),
        id: header.request_id.clone(),
        timing: String::new(),
    };
    let mut response = rendered.into_response();
    write_retry_after(response.headers_mut(), failure.retry_after());
    response
}

/// The response to a body that is no request, as FastAPI writes it.
pub(super) fn invalid(failure: &Failure) -> Response {
    let problem = json!({ "loc": ["body"], "msg": failure.to_string(), "type": "value_error" });
    let body = Json(json!({ "detail": [problem] }));
    (StatusCode::UNPROCESSABLE_ENTITY, body).into_response()
}
