//! JSON of documents of the first version.

use std::collections::{BTreeMap, HashMap};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use flow_proto::docarray::{DocumentProto, NamedScoreProto, NdArrayProto, document_proto::Content};
use prost::Message;
use serde::ser::{Error, Serialize, SerializeMap, Serializer};
use serde_json::Value;

use super::super::format::{BadDocument, DocArrayVersion, undecodable};
use super::super::{Document, v1};
use super::builder::DocumentBuilder;
use super::values::{
    WrittenStruct, WrittenTensor, bad, blob, kind_of, object, shortest, text, to_f32, to_struct,
    value_of,
};
use crate::{Chain, Tensor};

pub(super) fn to_value(document: &Document) -> Result<Value, BadDocument> {
    Ok(value_of(&Written(&decode(document)?)))
}

pub(super) fn write<S: Serializer>(document: &Document, serializer: S) -> Result<S::Ok, S::Error> {
    let proto = decode(document).map_err(|error| S::Error::custom(Chain(&error)))?;
    Written(&proto).serialize(serializer)
}

fn decode(document: &Document) -> Result<DocumentProto, BadDocument> {
    let proto = DocumentProto::decode(document.encode());
    proto.map_err(|error| undecodable("a document", error))
}

pub(super) fn from_field(name: &str, fields: Bytes) -> Option<Value> {
    let proto = DocumentProto::decode(fields).ok()?;
    match value_of(&Written(&proto)) {
        Value::Object(mut map) => map.remove(name),
        _ => None,
    }
}

pub(super) fn to_field(name: &str, value: &Value) -> Result<Bytes, BadDocument> {
    let mut proto = DocumentProto::default();
    if !set_plain(&mut proto, name, value.clone())? {
        return Err(bad(format!(
            "`{name}` is not a field that can be set alone"
        )));
    }
    Ok(proto.encode_to_vec().into())
}

/// A document that is written as JSON.
struct Written<'d>(&'d DocumentProto);

impl Serialize for Written<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(proto) = self;
        let mut out = serializer.serialize_map(None)?;
        write_texts(&mut out, proto)?;
        write_numbers(&mut out, proto)?;
        match &proto.content {
            Some(Content::Text(text)) => out.serialize_entry("text", text)?,
            Some(Content::Blob(blob)) => out.serialize_entry("blob", &BASE64.encode(blob))?,
            Some(Content::Tensor(tensor)) => out.serialize_entry("tensor", &array(tensor))?,
            None => {}
        }
        if let Some(embedding) = &proto.embedding {
            out.serialize_entry("embedding", &array(embedding))?;
        }
        if let Some(tags) = &proto.tags {
            out.serialize_entry("tags", &WrittenStruct(tags))?;
        }
        write_scores(&mut out, "scores", &proto.scores)?;
        write_scores(&mut out, "evaluations", &proto.evaluations)?;
        write_documents(&mut out, "chunks", &proto.chunks)?;
        write_documents(&mut out, "matches", &proto.matches)?;
        out.end()
    }
}

fn write_texts<M: SerializeMap>(out: &mut M, proto: &DocumentProto) -> Result<(), M::Error> {
    let texts = [
        ("id", &proto.id),
        ("parent_id", &proto.parent_id),
        ("uri", &proto.uri),
        ("modality", &proto.modality),
        ("mime_type", &proto.mime_type),
    ];
    let mut texts = texts.into_iter().filter(|(_, text)| !text.is_empty());
    texts.try_for_each(|(name, text)| out.serialize_entry(name, text))
}

fn write_numbers<M: SerializeMap>(out: &mut M, proto: &DocumentProto) -> Result<(), M::Error> {
    for (name, number) in [
        ("granularity", proto.granularity),
        ("adjacency", proto.adjacency),
    ] {
        if number != 0 {
            out.serialize_entry(name, &number)?;
        }
    }
    for (name, number) in [("weight", proto.weight), ("offset", proto.offset)] {
        if number != 0.0 {
            out.serialize_entry(name, &shortest(number))?;
        }
    }
    if !proto.location.is_empty() {
        let location: Vec<f64> = proto.location.iter().copied().map(shortest).collect();
        out.serialize_entry("location", &location)?;
    }
    Ok(())
}

fn write_scores<M: SerializeMap>(
    out: &mut M,
    name: &str,
    scores: &HashMap<String, NamedScoreProto>,
) -> Result<(), M::Error> {
    if scores.is_empty() {
        return Ok(());
    }
    // Maps have no order in protobuf. Sorted by name, the same document always has the same JSON.
    let scores: BTreeMap<_, _> = scores
        .iter()
        .map(|(name, score)| (name, WrittenScore(score)))
        .collect();
    out.serialize_entry(name, &scores)
}

/// A score that is written as JSON.
struct WrittenScore<'s>(&'s NamedScoreProto);

impl Serialize for WrittenScore<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(score) = self;
        let mut out = serializer.serialize_map(None)?;
        out.serialize_entry("value", &shortest(score.value))?;
        let texts = [
            ("op_name", &score.op_name),
            ("description", &score.description),
            ("ref_id", &score.ref_id),
        ];
        for (name, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
            out.serialize_entry(name, text)?;
        }
        out.end()
    }
}

fn write_documents<M: SerializeMap>(
    out: &mut M,
    name: &str,
    documents: &[DocumentProto],
) -> Result<(), M::Error> {
    if documents.is_empty() {
        return Ok(());
    }
    let documents: Vec<Written<'_>> = documents.iter().map(Written).collect();
    out.serialize_entry(name, &documents)
}

/// The values of an array; nothing if it is sparse.
fn array(array: &NdArrayProto) -> Option<WrittenTensor> {
    v1::dense(array.content.clone()?).map(WrittenTensor)
}

/// The fields of a document that is read.
#[derive(Default)]
pub(super) struct V1Builder {
    proto: DocumentProto,
    embedding: Option<Tensor>,
    tensor: Option<Tensor>,
    chunks: Option<Vec<Document>>,
    matches: Option<Vec<Document>>,
}

impl DocumentBuilder for V1Builder {
    fn set_array(&mut self, name: &'static str, array: Option<Tensor>) {
        match name {
            "tensor" => self.tensor = array,
            _ => self.embedding = array,
        }
    }

    fn set_documents(&mut self, name: &'static str, documents: Option<Vec<Document>>) {
        match name {
            "matches" => self.matches = documents,
            _ => self.chunks = documents,
        }
    }

    fn set(&mut self, name: &str, value: Value) -> Result<(), BadDocument> {
        match value.is_null() || set_plain(&mut self.proto, name, value)? {
            true => Ok(()),
            false => Err(bad(format!("a document has no field `{name}`"))),
        }
    }

    fn into_document(mut self) -> Result<Document, BadDocument> {
        if self.proto.id.is_empty() {
            self.proto.id = crate::RequestId::random().into();
        }
        let mut raw: Bytes = self.proto.encode_to_vec().into();
        if DocArrayVersion::of(&raw) == Some(DocArrayVersion::V2) {
            raw = v1::with_id_last(&raw).freeze();
        }
        let mut document = Document::decode(DocArrayVersion::V1, raw)?;
        if let Some(embedding) = &self.embedding {
            document.set_embedding(embedding);
        }
        if let Some(tensor) = &self.tensor {
            document.set_tensor(tensor);
        }
        if let Some(chunks) = self.chunks {
            document.set_chunks(chunks);
        }
        if let Some(matches) = self.matches {
            document.set_matches(matches);
        }
        Ok(document)
    }
}

/// Sets a field that contains neither documents nor arrays; false if `name` is not such a field.
fn set_plain(proto: &mut DocumentProto, name: &str, value: Value) -> Result<bool, BadDocument> {
    match name {
        "id" => proto.id = text(name, value)?,
        "parent_id" => proto.parent_id = text(name, value)?,
        "uri" => proto.uri = text(name, value)?,
        "modality" => proto.modality = text(name, value)?,
        "mime_type" => proto.mime_type = text(name, value)?,
        "text" => proto.content = Some(Content::Text(text(name, value)?)),
        "blob" => proto.content = Some(Content::Blob(blob(name, value)?.into())),
        "granularity" => proto.granularity = count(name, &value)?,
        "adjacency" => proto.adjacency = count(name, &value)?,
        "weight" => proto.weight = number(name, &value)?,
        "offset" => proto.offset = number(name, &value)?,
        "location" => proto.location = numbers(name, &value)?,
        "tags" => proto.tags = Some(to_struct(object(name, &value)?)),
        "scores" => proto.scores = scores(name, &value)?,
        "evaluations" => proto.evaluations = scores(name, &value)?,
        _ => return Ok(false),
    }
    Ok(true)
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
            "op_name" => score.op_name = text(key, value.clone())?,
            "description" => score.description = text(key, value.clone())?,
            "ref_id" => score.ref_id = text(key, value.clone())?,
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
