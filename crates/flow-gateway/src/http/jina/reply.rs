//! Replies and failures as JSON, in the two forms of Jina's gateways.
//!
//! The gateway for the first version answers with `header`, `parameters`, `routes` and `data`, and with status 200 also if
//! an executor failed. That for the second answers with `data`, `parameters` and `header`, and with a failure's status and
//! `detail`.

use axum::Json;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use flow_core::{Code, Document, DocumentArray, Failure};
use flow_net::{ByteBudget, HeldBytes};
use flow_proto::Envelope;
use flow_proto::jina::{HeaderProto, RouteProto};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use prost_types::Timestamp;
use serde::Serialize;
use serde::ser::Serializer;
use serde_json::{Value, json};

use super::super::model_call::SERVER_TIMING;
use super::super::request_id::REQUEST_ID;
use super::super::status::{status, status_json, write_retry_after};

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// The most memory that a byte of documents takes in their JSON: a number of four bytes has up to 20 digits, and the text
/// is copied when it grows. Calculated.
const WRITTEN_BYTE: usize = 8;

/// The memory that a byte of a document takes while it is written: its message is decoded. Estimated.
const VALUE_BYTE: usize = 50;

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
pub(super) fn render(
    reply: &Envelope,
    is_v1: bool,
    budget: Option<&ByteBudget>,
) -> Result<Rendered, Failure> {
    let header = reply.header.clone().unwrap_or_default();
    let failure = header.status.as_ref().and_then(Failure::from_status);
    let (code, body) = match (is_v1, failure) {
        (true, _) => (StatusCode::OK, v1(reply, Names::Camel, budget)?),
        (false, None) => (StatusCode::OK, v2(reply, &header, budget)?),
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
pub(super) fn v1(
    reply: &Envelope,
    names: Names,
    budget: Option<&ByteBudget>,
) -> Result<String, Failure> {
    let documents = documents(reply)?;
    let _held = hold_for(&documents, budget)?;
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
        ("header", Field::Json(header)),
        ("parameters", Field::Json(parameters(reply)?)),
        ("routes", Field::Json(routes.collect())),
        ("data", Field::Documents(documents)),
    ])
}

fn v2(
    reply: &Envelope,
    header: &HeaderProto,
    budget: Option<&ByteBudget>,
) -> Result<String, Failure> {
    let documents = documents(reply)?;
    let _held = hold_for(&documents, budget)?;
    let header = json!({
        "requestId": header.request_id,
        "targetExecutor": header.target_executor,
    });
    written(&[
        ("data", Field::Documents(documents)),
        ("parameters", Field::Json(parameters(reply)?)),
        ("header", Field::Json(header)),
    ])
}

/// A field of a reply.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Field {
    Json(Value),
    #[serde(serialize_with = "write_documents")]
    Documents(DocumentArray),
}

/// An object with these fields.
fn written(fields: &[(&str, Field)]) -> Result<String, Failure> {
    struct Object<'f>(&'f [(&'f str, Field)]);

    impl Serialize for Object<'_> {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_map(self.0.iter().map(|(name, field)| (name, field)))
        }
    }

    let written = serde_json::to_string(&Object(fields));
    written.map_err(|error| Failure::from_error(Code::Internal, &error))
}

/// Holds what documents may take when they become JSON.
pub(super) fn hold_for(
    documents: &[Document],
    budget: Option<&ByteBudget>,
) -> Result<Option<HeldBytes>, Failure> {
    let Some(budget) = budget else {
        return Ok(None);
    };
    let lengths = || documents.iter().map(|it| it.encode().len());
    let (all, largest) = (lengths().sum::<usize>(), lengths().max().unwrap_or(0));
    let bytes = all * WRITTEN_BYTE + largest * VALUE_BYTE;
    let mut held = budget.hold(0);
    if held.try_add(bytes) {
        return Ok(Some(held));
    }
    let (taken, max) = (bytes.div_ceil(1 << 20), budget.process_max() >> 20);
    let text = format!("the reply may take {taken} MiB as JSON, and the gateway");
    Err(match bytes < budget.process_max() {
        true => {
            let text = format!("{text} has less than that left at the moment");
            Failure::new(Code::Overloaded, text)
        }
        false => {
            let text = format!("{text} holds at most {max} MiB; send fewer documents, or use gRPC");
            Failure::new(Code::TooLarge, text)
        }
    })
}

/// Each document is decoded when it is written. The messages of all would take many times the memory of their bytes.
fn write_documents<S: Serializer>(
    documents: &DocumentArray,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(documents.iter())
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
