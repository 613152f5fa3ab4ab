//! A JSON body as a request: `data`, `parameters`, and a header, in camelCase or snake_case.
//!
//! The documents are of the version that the executors take. If executors take both, the first document decides: one with
//! `granularity` or `adjacency` is of the first version, as its clients send all fields; one with fields that the first
//! version does not have is of the second. If that does not tell either, the route decides.

mod body;

use bytes::Bytes;
use flow_core::{BadDocument, DocArrayVersion, Document, DocumentArray, Failure};
use flow_proto::Envelope;
use flow_proto::jina::HeaderProto;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use self::body::{Body, bad};
use super::route::Call;
use crate::http::parse_memory::ParseMemory;

/// The endpoint of a body that names none.
const ROOT: &str = "/";

/// What is known of a request besides its body.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) call: Call,
    /// The version of documents that the executors take, if they take only one.
    pub(super) version: Option<DocArrayVersion>,
    /// Most documents of a request.
    pub(super) documents_max: usize,
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
pub(super) fn parse(
    body: &Bytes,
    known: Known,
    memory: &mut ParseMemory,
) -> Result<Parsed, Failure> {
    // A name with escapes is copied, and each bracket that is open takes a byte.
    let len = 2 * body.len();
    memory.hold(len)?;
    let body = Body::read(body)?;
    memory.give_back(len);
    let mut fields = body.fields(memory)?;
    let mut header = match fields.remove("header") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(header)) => header,
        Some(_) => return Err(bad("`header` must be a JSON object")),
    };
    let mut documents = Documents::new(&known, memory);
    let read = body.documents(&mut |json| documents.read(json));
    let status = match documents.too_many() {
        Some(failure) => Some(failure.to_status()),
        None => read.map(|()| None)?,
    };
    let (data, is_v1) = documents.encoded();
    let mut text = |camel: &str, snake: &str| -> Result<Option<String>, Failure> {
        let own = text(&mut fields, camel, snake)?;
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
        status,
        ..HeaderProto::default()
    };
    let envelope = Envelope {
        header: Some(header),
        parameters: parameters(fields.remove("parameters"))?,
        data,
        ..Envelope::default()
    };
    Ok(Parsed { envelope, is_v1 })
}

/// The documents of a request, as they are read.
struct Documents<'r> {
    known: &'r Known,
    memory: &'r mut ParseMemory,
    /// The version that the first document shows, or the executors take.
    version: Option<DocArrayVersion>,
    encoded: Vec<Bytes>,
    has_more: bool,
}

impl<'r> Documents<'r> {
    fn new(known: &'r Known, memory: &'r mut ParseMemory) -> Self {
        Self {
            version: known.version,
            encoded: Vec::new(),
            has_more: false,
            known,
            memory,
        }
    }

    fn read(&mut self, json: &RawValue) -> Result<(), Failure> {
        let number = self.encoded.len();
        self.has_more = number == self.known.documents_max;
        if let Some(failure) = self.too_many() {
            return Err(failure);
        }
        let held = self.memory.hold_for(json.get().as_bytes())?;
        if number == 0 && self.version.is_none() {
            self.version = DocArrayVersion::of_json(json.get());
        }
        let document = Document::from_json_text(self.version(), json.get());
        let document = document.map_err(|error| bad(format!("`data[{number}]`: {error}")))?;
        let encoded = document.encode();
        // Its list grows, and all are copied into one message.
        self.memory
            .hold(3 * size_of::<Bytes>() + 2 * encoded.len())?;
        self.memory.give_back(held);
        self.encoded.push(encoded);
        Ok(())
    }

    /// The failure of a request with more documents than are allowed. It is that of the request, and not of its body: gRPC
    /// has the same.
    fn too_many(&self) -> Option<Failure> {
        let max = self.known.documents_max;
        self.has_more.then(|| BadDocument::TooMany { max }.into())
    }

    fn version(&self) -> DocArrayVersion {
        self.version.unwrap_or(match self.known.call.is_v1 {
            true => DocArrayVersion::V1,
            false => DocArrayVersion::V2,
        })
    }

    /// The message of all, and whether the reply has the form of the first version.
    fn encoded(self) -> (Option<Bytes>, bool) {
        let is_v1 = self.version() == DocArrayVersion::V1;
        let is_sent = !self.encoded.is_empty() && !self.has_more;
        let data = is_sent.then(|| DocumentArray::join(&self.encoded));
        (data, is_v1)
    }
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

fn parameters(value: Option<Value>) -> Result<Option<Bytes>, Failure> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(all)) if all.is_empty() => Ok(None),
        Some(Value::Object(all)) => Ok(Some(flow_core::parameters::from_json(&all))),
        Some(_) => Err(bad("`parameters` must be a JSON object")),
    }
}

/// A single document, encoded, for an endpoint that makes others of it.
pub(super) fn single(version: Option<DocArrayVersion>, json: &[u8]) -> Result<Bytes, Failure> {
    let json = body::utf8(json)?;
    let version = version.or_else(|| DocArrayVersion::of_json(json));
    let document = Document::from_json_text(version.unwrap_or(DocArrayVersion::V2), json);
    let document = document.map_err(|error| bad(error.to_string()))?;
    Ok(document.encode())
}

#[cfg(test)]
mod tests;
