//! The first version: fields are found by their number in `docarray.DocumentProto`.

use bytes::{Bytes, BytesMut};
use flow_proto::docarray::{DenseNdArrayProto, NdArrayProto, nd_array_proto::Content};
use prost::Message;
use serde_json::{Map, Value};

use super::format::{BadDocument, malformed};
use super::json::values;
use super::wire::{self, Field, Fields, NotAMessage};
use crate::Tensor;

/// Text fields and their numbers.
const STRINGS: &[(&str, u32)] = &[
    ("id", 1),
    ("text", 4),
    ("parent_id", 7),
    ("uri", 9),
    ("modality", 10),
    ("mime_type", 11),
];

/// Nested documents.
const CHUNKS: u32 = 14;
const MATCHES: u32 = 15;

/// The members of the `oneof`, of which a document has at most one.
const CONTENT: &[&str] = &["blob", "tensor", "text"];

fn number(name: &str) -> u32 {
    match name {
        "blob" => 2,
        "tensor" => 3,
        "granularity" => 5,
        "adjacency" => 6,
        "weight" => 8,
        "offset" => 12,
        "location" => 13,
        "chunks" => CHUNKS,
        "matches" => MATCHES,
        "embedding" => 16,
        "tags" => 17,
        "scores" => 18,
        "evaluations" => 19,
        _ => STRINGS
            .iter()
            .find(|(known, _)| *known == name)
            .map_or(0, |(_, number)| *number),
    }
}

/// Whether documents have a field of this name. Stock clients send `_metadata` as well.
pub(super) fn is_field(name: &str) -> bool {
    number(name) != 0 || name == "_metadata"
}

/// Checks that the bytes are a message, and that its texts are UTF-8.
pub(super) fn check(raw: &Bytes) -> Result<(), BadDocument> {
    for field in Fields::of(raw) {
        let field = field.map_err(|NotAMessage| malformed("a document"))?;
        let text = STRINGS.iter().find(|(_, number)| *number == field.number);
        if let Some((name, _)) = text
            && std::str::from_utf8(field.content).is_err()
        {
            return Err(BadDocument::NotUtf8 {
                field: (*name).to_owned(),
            });
        }
    }
    Ok(())
}

pub(super) fn content(raw: &Bytes, name: &str) -> Option<Bytes> {
    wire::last(raw, number(name)).map(|content| raw.slice_ref(content))
}

/// Whether this is field `name`.
pub(super) fn is(name: &str, field: &Field<'_>) -> bool {
    number(name) == field.number
}

/// Whether field `number` is a nested document.
pub(super) fn is_nested(number: u32) -> bool {
    matches!(number, CHUNKS | MATCHES)
}

/// Whether setting `name` removes a field `other`.
pub(super) fn excludes(name: &str, other: &str) -> bool {
    name == other || (CONTENT.contains(&name) && CONTENT.contains(&other))
}

/// Whether setting `name` removes field `number`.
pub(super) fn replaces(name: &str, field: u32) -> bool {
    number(name) == field
        || (CONTENT.contains(&name) && CONTENT.iter().any(|other| number(other) == field))
}

pub(super) fn string(name: &str, text: &str) -> Bytes {
    field(name, text.as_bytes())
}

pub(super) fn bytes(name: &str, bytes: &[u8]) -> Bytes {
    field(name, bytes)
}

pub(super) fn set_tags(tags: &Map<String, Value>) -> Bytes {
    field("tags", &values::to_struct(tags).encode_to_vec())
}

pub(super) fn tags(content: &Bytes) -> Map<String, Value> {
    let tags = prost_types::Struct::decode(content.clone());
    values::from_struct(&tags.unwrap_or_default())
}

pub(super) fn tensor(content: &Bytes) -> Option<Tensor> {
    dense(NdArrayProto::decode(content.clone()).ok()?.content?)
}

/// An array, unless it is sparse.
pub(super) fn dense(content: Content) -> Option<Tensor> {
    match content {
        Content::Dense(dense) => Some(Tensor::from_parts(
            dense.shape,
            dense.dtype.as_str().into(),
            dense.buffer,
        )),
        Content::Sparse(_) => None,
    }
}

pub(super) fn set_tensor(name: &str, tensor: &Tensor) -> Bytes {
    let array = NdArrayProto {
        content: Some(Content::Dense(DenseNdArrayProto {
            buffer: tensor.buffer().clone(),
            shape: tensor.shape().to_vec(),
            dtype: tensor.data_type().as_str().to_owned(),
        })),
        // Stock readers ignore an array without it.
        cls_name: "numpy".to_owned(),
        parameters: None,
    };
    field(name, &array.encode_to_vec())
}

pub(super) fn children(raw: &Bytes, name: &str) -> Result<Vec<Bytes>, NotAMessage> {
    let number = number(name);
    let fields =
        Fields::of(raw).filter(|field| !matches!(field, Ok(other) if other.number != number));
    fields
        .map(|field| field.map(|field| raw.slice_ref(field.content)))
        .collect()
}

/// The message with its id after all other fields. If an id that is also a valid map entry came first, the document would be
/// detected as one of the second version.
pub(super) fn with_id_last(message: &[u8]) -> BytesMut {
    wire::with_first(message, |field| !is("id", field))
}

pub(super) fn put_children(out: &mut BytesMut, name: &str, documents: impl Iterator<Item = Bytes>) {
    for document in documents {
        wire::put(out, number(name), &document);
    }
}

/// The same for two fields of which a document has only one; `None` for nested documents.
pub(super) fn merge_key(field: &Field<'_>) -> Option<u32> {
    const TEXT: u32 = 4;
    match field.number {
        CHUNKS | MATCHES => None,
        // Text, blob and tensor.
        2..=TEXT => Some(TEXT),
        number => Some(number),
    }
}

fn field(name: &str, content: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(wire::field_len(number(name), content.len()));
    wire::put(&mut out, number(name), content);
    out.freeze()
}
