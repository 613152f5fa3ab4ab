//! JSON of documents of the first version.

use std::collections::HashMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use flow_proto::docarray::{DocumentProto, NamedScoreProto, NdArrayProto, document_proto::Content};
use prost::Message;
use serde_json::{Map, Value};

use super::super::format::{BadDocument, DocArrayVersion, undecodable};
use super::super::{Document, v1};
use super::values::{
    bad, blob, float, from_struct, from_tensor, kind_of, object, text, to_f32, to_struct, to_tensor,
};

pub(super) fn from_document(document: &Document) -> Result<Value, BadDocument> {
    let proto = DocumentProto::decode(document.encode())
        .map_err(|error| undecodable("a document", error))?;
    Ok(from_proto(proto))
}

pub(super) fn from_field(name: &str, fields: Bytes) -> Option<Value> {
    let proto = DocumentProto::decode(fields).ok()?;
    match from_proto(proto) {
        Value::Object(mut map) => map.remove(name),
        _ => None,
    }
}

pub(super) fn to_field(name: &str, value: &Value) -> Result<Bytes, BadDocument> {
    let mut proto = DocumentProto::default();
    if !set_plain(&mut proto, name, value)? {
        return Err(bad(format!(
            "`{name}` is not a field that can be set alone"
        )));
    }
    Ok(proto.encode_to_vec().into())
}

fn from_proto(proto: DocumentProto) -> Value {
    let mut out = Map::new();
    put_texts(&mut out, &proto);
    put_numbers(&mut out, &proto);
    match proto.content {
        Some(Content::Text(text)) => put(&mut out, "text", Value::String(text)),
        Some(Content::Blob(blob)) => put(&mut out, "blob", Value::String(BASE64.encode(blob))),
        Some(Content::Tensor(tensor)) => put(&mut out, "tensor", array(&tensor)),
        None => {}
    }
    if let Some(embedding) = &proto.embedding {
        put(&mut out, "embedding", array(embedding));
    }
    if let Some(tags) = proto.tags {
        put(&mut out, "tags", Value::Object(from_struct(tags)));
    }
    put_scores(&mut out, "scores", proto.scores);
    put_scores(&mut out, "evaluations", proto.evaluations);
    put_documents(&mut out, "chunks", proto.chunks);
    put_documents(&mut out, "matches", proto.matches);
    Value::Object(out)
}

fn put(out: &mut Map<String, Value>, name: &str, value: Value) {
    out.insert(name.to_owned(), value);
}

fn put_texts(out: &mut Map<String, Value>, proto: &DocumentProto) {
    let texts = [
        ("id", &proto.id),
        ("parent_id", &proto.parent_id),
        ("uri", &proto.uri),
        ("modality", &proto.modality),
        ("mime_type", &proto.mime_type),
    ];
    for (name, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
        put(out, name, Value::String(text.clone()));
    }
}

fn put_numbers(out: &mut Map<String, Value>, proto: &DocumentProto) {
    for (name, number) in [
        ("granularity", proto.granularity),
        ("adjacency", proto.adjacency),
    ] {
        if number != 0 {
            put(out, name, number.into());
        }
    }
    for (name, number) in [("weight", proto.weight), ("offset", proto.offset)] {
        if number != 0.0 {
            put(out, name, float(number));
        }
    }
    if !proto.location.is_empty() {
        put(
            out,
            "location",
            proto.location.iter().map(|&number| float(number)).collect(),
        );
    }
}

fn put_scores(out: &mut Map<String, Value>, name: &str, scores: HashMap<String, NamedScoreProto>) {
    if scores.is_empty() {
        return;
    }
    // Maps have no order in protobuf. Sorted by name, the same document always has the same JSON.
    let mut scores: Vec<_> = scores.into_iter().collect();
    scores.sort_by(|a, b| a.0.cmp(&b.0));
    let scores = scores
        .into_iter()
        .map(|(name, score)| (name, from_score(score)))
        .collect();
    put(out, name, Value::Object(scores));
}

fn from_score(score: NamedScoreProto) -> Value {
    let mut out = Map::new();
    put(&mut out, "value", float(score.value));
    let texts = [
        ("op_name", score.op_name),
        ("description", score.description),
        ("ref_id", score.ref_id),
    ];
    for (name, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
        put(&mut out, name, Value::String(text));
    }
    Value::Object(out)
}

fn put_documents(out: &mut Map<String, Value>, name: &str, documents: Vec<DocumentProto>) {
    if !documents.is_empty() {
        put(out, name, documents.into_iter().map(from_proto).collect());
    }
}

fn array(array: &NdArrayProto) -> Value {
    v1::tensor(&array.encode_to_vec().into()).map_or(Value::Null, |tensor| from_tensor(&tensor))
}

pub(super) fn to_document(fields: &Map<String, Value>) -> Result<Document, BadDocument> {
    let mut proto = DocumentProto::default();
    let mut later = Vec::new();
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
        if !set_plain(&mut proto, name, value)? {
            later.push((name, value));
        }
    }
    if proto.id.is_empty() {
        proto.id = crate::RequestId::random().into();
    }
    let mut document = Document::decode(DocArrayVersion::V1, proto.encode_to_vec().into())?;
    for (name, value) in later {
        set_nested(&mut document, name, value)?;
    }
    Ok(document)
}

/// Sets a field that contains neither documents nor arrays; false if `name` is not such a field.
fn set_plain(proto: &mut DocumentProto, name: &str, value: &Value) -> Result<bool, BadDocument> {
    match name {
        "id" => text(name, value)?.clone_into(&mut proto.id),
        "parent_id" => text(name, value)?.clone_into(&mut proto.parent_id),
        "uri" => text(name, value)?.clone_into(&mut proto.uri),
        "modality" => text(name, value)?.clone_into(&mut proto.modality),
        "mime_type" => text(name, value)?.clone_into(&mut proto.mime_type),
        "text" => proto.content = Some(Content::Text(text(name, value)?.to_owned())),
        "blob" => proto.content = Some(Content::Blob(blob(name, value)?.into())),
        "granularity" => proto.granularity = count(name, value)?,
        "adjacency" => proto.adjacency = count(name, value)?,
        "weight" => proto.weight = number(name, value)?,
        "offset" => proto.offset = number(name, value)?,
        "location" => proto.location = numbers(name, value)?,
        "tags" => proto.tags = Some(to_struct(object(name, value)?)),
        "scores" => proto.scores = scores(name, value)?,
        "evaluations" => proto.evaluations = scores(name, value)?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn set_nested(document: &mut Document, name: &str, value: &Value) -> Result<(), BadDocument> {
    match name {
        "embedding" => document.set_embedding(&to_tensor(name, value)?),
        "tensor" => document.set_tensor(&to_tensor(name, value)?),
        "chunks" => *document.chunks_mut()? = documents(name, value)?,
        "matches" => *document.matches_mut()? = documents(name, value)?,
        _ => return Err(bad(format!("a document has no field `{name}`"))),
    }
    Ok(())
}

fn scores(name: &str, value: &Value) -> Result<HashMap<String, NamedScoreProto>, BadDocument> {
    let scores = object(name, value)?.iter();
    scores
        .map(|(key, score)| Ok((key.clone(), to_score(key, score)?)))
        .collect()
}

fn to_score(name: &str, value: &Value) -> Result<NamedScoreProto, BadDocument> {
    let mut score = NamedScoreProto::default();
    // In documents of DocArray v2 a score is a plain number.
    if value.is_number() {
        score.value = number(name, value)?;
        return Ok(score);
    }
    for (key, value) in object(name, value)? {
        match key.as_str() {
            "value" => score.value = number(key, value)?,
            "op_name" => text(key, value)?.clone_into(&mut score.op_name),
            "description" => text(key, value)?.clone_into(&mut score.description),
            "ref_id" => text(key, value)?.clone_into(&mut score.ref_id),
            _ => return Err(bad(format!("a score has no field `{key}`"))),
        }
    }
    Ok(score)
}

fn count(name: &str, value: &Value) -> Result<u32, BadDocument> {
    let count = value.as_u64().and_then(|number| u32::try_from(number).ok());
    count.ok_or_else(|| {
        bad(format!(
            "`{name}` must be a whole number, not {}",
            kind_of(value)
        ))
    })
}

fn number(name: &str, value: &Value) -> Result<f32, BadDocument> {
    let number = value
        .as_f64()
        .ok_or_else(|| bad(format!("`{name}` must be a number, not {}", kind_of(value))))?;
    to_f32(name, number)
}

fn numbers(name: &str, value: &Value) -> Result<Vec<f32>, BadDocument> {
    let Value::Array(items) = value else {
        return Err(bad(format!(
            "`{name}` must be a list of numbers, not {}",
            kind_of(value)
        )));
    };
    items.iter().map(|item| number(name, item)).collect()
}

fn documents(name: &str, value: &Value) -> Result<Vec<Document>, BadDocument> {
    let Value::Array(items) = value else {
        return Err(bad(format!(
            "`{name}` must be a list of documents, not {}",
            kind_of(value)
        )));
    };
    let documents = items.iter();
    documents
        .map(|item| Document::from_json(DocArrayVersion::V1, item))
        .collect()
}
