//! The second version: a document is a map from names to nodes (`docarray.v2.DocProto`).

use bytes::{Bytes, BytesMut};
use flow_proto::docarray::v2::{
    DenseNdArrayProto, NdArrayProto, NodeProto, node_proto::Content, node_proto::DocarrayType,
};
use prost::Message;

use super::format::{BadDocument, is_entry, malformed};
use super::wire::{self, Field, Fields, NotAMessage};
use crate::Tensor;

/// The fields of a map entry in protobuf.
const ENTRY_KEY: u32 = 1;
pub(super) const ENTRY_VALUE: u32 = 2;

/// The only field of a document: its map.
pub(super) const DATA: u32 = 1;

/// The text fields of a node: its content and the name of its class.
const NODE_TEXT: u32 = 1;
const NODE_BLOB: u32 = 5;
const NODE_NDARRAY: u32 = 6;
pub(super) const NODE_DOC: u32 = 7;
pub(super) const NODE_DOC_ARRAY: u32 = 8;
const NODE_DICT: u32 = 12;
const NODE_TYPE: u32 = 13;

/// The only field of an array of documents.
const DOCS: u32 = 1;

/// Checks that the bytes are a map of nodes, and that its keys and texts are UTF-8.
pub(super) fn check(raw: &Bytes) -> Result<(), BadDocument> {
    for field in Fields::of(raw) {
        let field = field.map_err(|NotAMessage| malformed("a document"))?;
        if field.number == DATA && field.is_message {
            check_entry(field.content)?;
        }
    }
    Ok(())
}

fn check_entry(entry: &[u8]) -> Result<(), BadDocument> {
    let mut name = "";
    for field in Fields::of(entry) {
        let field = field.map_err(|NotAMessage| malformed("a field of a document"))?;
        match field.number {
            ENTRY_KEY => name = utf8(field.content, "name")?,
            ENTRY_VALUE => check_node(field.content, name)?,
            _ => {}
        }
    }
    Ok(())
}

fn check_node(node: &[u8], name: &str) -> Result<(), BadDocument> {
    for field in Fields::of(node) {
        let field =
            field.map_err(|NotAMessage| malformed(format!("field `{name}` of a document")))?;
        if matches!(field.number, NODE_TEXT | NODE_TYPE) {
            utf8(field.content, name)?;
        }
    }
    Ok(())
}

fn utf8<'a>(bytes: &'a [u8], field: &str) -> Result<&'a str, BadDocument> {
    std::str::from_utf8(bytes).map_err(|_| BadDocument::NotUtf8 {
        field: field.to_owned(),
    })
}

/// The content of node `name`: a text, a blob, an array, a dict or an array of documents.
pub(super) fn content(raw: &Bytes, name: &str) -> Option<Bytes> {
    let node = node(raw, name)?;
    let kinds = [
        NODE_TEXT,
        NODE_BLOB,
        NODE_NDARRAY,
        NODE_DOC_ARRAY,
        NODE_DICT,
    ];
    Fields::of(node)
        .filter_map(Result::ok)
        .find(|field| kinds.contains(&field.number))
        .map(|field| raw.slice_ref(field.content))
}

fn node<'a>(raw: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let entries = Fields::of(raw)
        .filter_map(Result::ok)
        .filter(|field| field.number == DATA);
    let named = entries.filter(|entry| is_named(entry.content, name));
    named
        .last()
        .and_then(|entry| wire::last(entry.content, ENTRY_VALUE))
}

fn is_named(entry: &[u8], name: &str) -> bool {
    wire::last(entry, ENTRY_KEY).is_some_and(|key| key == name.as_bytes())
}

/// The name of a field; `None` for nested documents.
pub(super) fn merge_key<'a>(field: &Field<'a>) -> Option<&'a [u8]> {
    let key = wire::last(field.content, ENTRY_KEY).unwrap_or_default();
    let inside = key == b"chunks" || key == b"matches";
    (!inside).then_some(key)
}

/// Whether setting `name` removes this field.
pub(super) fn replaces(name: &str, field: &Field<'_>) -> bool {
    field.number == DATA && is_named(field.content, name)
}

pub(super) fn text(name: &str, text: &str) -> Bytes {
    entry(
        name,
        &NodeProto {
            content: Some(Content::Text(text.to_owned())),
            docarray_type: None,
        },
    )
}

pub(super) fn bytes(name: &str, bytes: &[u8]) -> Bytes {
    entry(
        name,
        &NodeProto {
            content: Some(Content::Blob(bytes.to_vec().into())),
            docarray_type: None,
        },
    )
}

pub(super) fn typed_text(name: &str, text: &str, class: &str) -> Bytes {
    let docarray_type = Some(DocarrayType::Type(class.to_owned()));
    entry(
        name,
        &NodeProto {
            content: Some(Content::Text(text.to_owned())),
            docarray_type,
        },
    )
}

pub(super) fn tensor(content: &Bytes) -> Option<Tensor> {
    let dense = NdArrayProto::decode(content.clone()).ok()?.dense?;
    Some(Tensor::from_parts(
        dense.shape,
        dense.dtype.as_str().into(),
        dense.buffer,
    ))
}

pub(super) fn array(tensor: &Tensor) -> NodeProto {
    let array = NdArrayProto {
        dense: Some(DenseNdArrayProto {
            buffer: tensor.buffer().clone(),
            shape: tensor.shape().to_vec(),
            dtype: tensor.data_type().as_str().to_owned(),
        }),
        parameters: None,
    };
    NodeProto {
        content: Some(Content::Ndarray(array)),
        docarray_type: Some(DocarrayType::Type("ndarray".to_owned())),
    }
}

pub(super) fn set_tensor(name: &str, tensor: &Tensor) -> Bytes {
    entry(name, &array(tensor))
}

pub(super) fn children(raw: &Bytes, name: &str) -> Result<Vec<Bytes>, NotAMessage> {
    let Some(node) = node(raw, name) else {
        return Ok(Vec::new());
    };
    let Some(list) = wire::last(node, NODE_DOC_ARRAY) else {
        return Ok(Vec::new());
    };
    let docs = Fields::of(list).filter(|field| !matches!(field, Ok(other) if other.number != DOCS));
    docs.map(|field| field.map(|field| raw.slice_ref(field.content)))
        .collect()
}

/// The message with its entries before all other fields. If one of these came first, the document would be detected as one of the
/// first version.
pub(super) fn with_entries_first(message: &[u8]) -> BytesMut {
    wire::with_first(message, |field| {
        field.number == DATA && is_entry(field.content)
    })
}

pub(super) fn put_children(out: &mut BytesMut, name: &str, documents: impl Iterator<Item = Bytes>) {
    let mut list = BytesMut::new();
    for document in documents {
        wire::put(&mut list, DOCS, &document);
    }
    let mut node = BytesMut::new();
    wire::put(&mut node, NODE_DOC_ARRAY, &list);
    put_entry(out, name, &node);
}

pub(super) fn entry(name: &str, node: &NodeProto) -> Bytes {
    let mut out = BytesMut::new();
    put_entry(&mut out, name, &node.encode_to_vec());
    out.freeze()
}

fn put_entry(out: &mut BytesMut, name: &str, node: &[u8]) {
    let mut entry = BytesMut::with_capacity(name.len() + node.len() + 16);
    wire::put(&mut entry, ENTRY_KEY, name.as_bytes());
    wire::put(&mut entry, ENTRY_VALUE, node);
    wire::put(out, DATA, &entry);
}
