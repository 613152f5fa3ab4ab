//! A JSON body as a request: `data`, `parameters`, and a header, in camelCase or snake_case.
//!
//! The documents are of the version that the executors take. If executors take both, the first document decides: one with
//! `granularity` or `adjacency` is of the first version, as its clients send all fields; one with fields that the first
//! version does not have is of the second. If that does not tell either, the route decides.

use bytes::Bytes;
use flow_core::{Code, DocArrayVersion, Document, DocumentArray, Failure};
use flow_proto::Envelope;
use flow_proto::jina::HeaderProto;
use serde_json::{Map, Value};

use super::route::Call;

/// Fields of a document of the first version.
const V1_FIELDS: [&str; 20] = [
    "id",
    "parent_id",
    "granularity",
    "adjacency",
    "blob",
    "tensor",
    "mime_type",
    "text",
    "weight",
    "uri",
    "tags",
    "offset",
    "location",
    "embedding",
    "modality",
    "evaluations",
    "scores",
    "chunks",
    "matches",
    "_metadata",
];

/// Fields that clients of the first version send with every document, and documents of the second do not have.
const V1_MARKS: [&str; 2] = ["granularity", "adjacency"];

/// The endpoint of a body that names none.
const ROOT: &str = "/";

/// What is known of a request besides its body.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) call: Call,
    /// The version of documents that the executors take, if they take only one.
    pub(super) version: Option<DocArrayVersion>,
    /// The id, if the body has none.
    pub(super) id: String,
}

/// A request that was read.
#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) envelope: Envelope,
    /// Whether the reply has the form of Jina's gateway for the first version.
    pub(super) is_v1: bool,
}

/// Reads a body.
pub(super) fn parse(body: &Bytes, known: Known) -> Result<Parsed, Failure> {
    let body: Value = match body.as_ref() {
        [] => Value::Null,
        bytes => serde_json::from_slice(bytes)
            .map_err(|error| bad(format!("the body is not valid JSON: {error}")))?,
    };
    from_json(body, known)
}

/// Reads a body that is JSON.
pub(super) fn from_json(body: Value, known: Known) -> Result<Parsed, Failure> {
    let mut body = match body {
        Value::Null => Map::new(),
        Value::Object(body) => body,
        _ => return Err(bad("the body must be a JSON object")),
    };
    let mut header = match body.remove("header") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(header)) => header,
        Some(_) => return Err(bad("`header` must be a JSON object")),
    };
    let documents = documents(body.remove("data"))?;
    let version = known.version.or_else(|| version_of(&documents));
    let is_v1 = version.map_or(known.call.is_v1, |it| it == DocArrayVersion::V1);
    let version = version.unwrap_or(match known.call.is_v1 {
        true => DocArrayVersion::V1,
        false => DocArrayVersion::V2,
    });
    let mut text = |camel: &str, snake: &str| -> Result<Option<String>, Failure> {
        let own = text(&mut body, camel, snake)?;
        let of_header = self::text(&mut header, camel, snake)?;
        Ok(own.or(of_header))
    };
    let id = text("requestId", "request_id")?;
    let target = text("targetExecutor", "target_executor")?;
    let named = text("execEndpoint", "exec_endpoint")?;
    let endpoint = known.call.endpoint.or(named);
    let header = HeaderProto {
        request_id: id.unwrap_or(known.id),
        exec_endpoint: Some(endpoint.unwrap_or_else(|| ROOT.to_owned())),
        target_executor: target,
        ..HeaderProto::default()
    };
    let envelope = Envelope {
        header: Some(header),
        parameters: parameters(body.remove("parameters"))?,
        data: encoded(version, &documents)?,
        ..Envelope::default()
    };
    Ok(Parsed { envelope, is_v1 })
}

fn bad(message: impl Into<String>) -> Failure {
    Failure::new(Code::BadRequest, message)
}

/// A text that may have either of two names. An empty one counts as absent.
fn text(of: &mut Map<String, Value>, camel: &str, snake: &str) -> Result<Option<String>, Failure> {
    let value = of.remove(camel).or_else(|| of.remove(snake));
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text).filter(|it| !it.is_empty())),
        Some(_) => Err(bad(format!("`{camel}` must be a text"))),
    }
}

/// The documents: a list, one document, or a list under `docs`.
fn documents(data: Option<Value>) -> Result<Vec<Value>, Failure> {
    match data {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(documents)) => Ok(documents),
        Some(Value::Object(mut data)) if data.len() == 1 && data.contains_key("docs") => {
            match data.remove("docs") {
                Some(Value::Object(document)) => Ok(vec![Value::Object(document)]),
                list => documents(list),
            }
        }
        Some(document @ Value::Object(_)) => Ok(vec![document]),
        Some(_) => Err(bad("`data` is neither a document nor a list of documents")),
    }
}

/// The version of documents, as far as the first one shows it.
fn version_of(documents: &[Value]) -> Option<DocArrayVersion> {
    let first = documents.first()?.as_object()?;
    if V1_MARKS.iter().any(|it| first.contains_key(*it)) {
        return Some(DocArrayVersion::V1);
    }
    let is_of_v1 = |name: &String| V1_FIELDS.contains(&name.as_str());
    (!first.keys().all(is_of_v1)).then_some(DocArrayVersion::V2)
}

fn parameters(value: Option<Value>) -> Result<Option<Bytes>, Failure> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(all)) if all.is_empty() => Ok(None),
        Some(Value::Object(all)) => Ok(Some(flow_core::parameters::from_json(&all))),
        Some(_) => Err(bad("`parameters` must be a JSON object")),
    }
}

fn encoded(version: DocArrayVersion, documents: &[Value]) -> Result<Option<Bytes>, Failure> {
    if documents.is_empty() {
        return Ok(None);
    }
    let numbered = documents.iter().enumerate();
    let documents = numbered.map(|(number, it)| {
        let at = |error| bad(format!("`data[{number}]`: {error}"));
        document(version, it).map_err(at)
    });
    let documents: DocumentArray = documents
        .collect::<Result<Vec<_>, _>>()?
        .into_iter()
        .collect();
    Ok(Some(documents.encode()))
}

fn document(version: DocArrayVersion, value: &Value) -> Result<Document, Failure> {
    let document = Document::from_json(version, value);
    document.map_err(|error| Failure::from_error(Code::BadRequest, &error))
}

/// A single document, encoded, for an endpoint that makes others of it.
pub(super) fn single(version: Option<DocArrayVersion>, value: &Value) -> Result<Bytes, Failure> {
    let documents = std::slice::from_ref(value);
    let version = version.or_else(|| version_of(documents));
    Ok(document(version.unwrap_or(DocArrayVersion::V2), value)?.encode())
}

#[cfg(test)]
mod tests;
