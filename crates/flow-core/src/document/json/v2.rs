//! JSON of documents of the second version.

use bytes::{BufMut, Bytes, BytesMut};
use flow_proto::docarray::v2::{DocListProto, DocProto, NodeProto, node_proto::Content};
use prost::Message;
use serde::ser::{Error, Serialize, Serializer};
use serde_json::{Map, Value};

use super::super::format::{BadDocument, DocArrayVersion, undecodable};
use super::super::{Document, v2};
use super::nodes::{WrittenNodes, id, plain, to_node};
use super::values::{bad, kind_of, text, to_tensor, value_of};
use crate::Chain;

const ID: &str = "id";

pub(super) fn to_value(document: &Document) -> Result<Value, BadDocument> {
    Ok(value_of(&WrittenNodes(&decode(document)?.data)))
}

pub(super) fn write<S: Serializer>(document: &Document, serializer: S) -> Result<S::Ok, S::Error> {
    let proto = decode(document).map_err(|error| S::Error::custom(Chain(&error)))?;
    WrittenNodes(&proto.data).serialize(serializer)
}

fn decode(document: &Document) -> Result<DocProto, BadDocument> {
    let proto = DocProto::decode(document.encode());
    proto.map_err(|error| undecodable("a document", error))
}

pub(super) fn from_field(name: &str, fields: Bytes) -> Option<Value> {
    let proto = DocProto::decode(fields).ok()?;
    match value_of(&WrittenNodes(&proto.data)) {
        Value::Object(mut map) => map.remove(name),
        _ => None,
    }
}

pub(super) fn to_field_alone(name: &str, value: &Value) -> Bytes {
    v2::entry(name, &to_node(value))
}

pub(super) fn to_document(fields: &Map<String, Value>) -> Result<Document, BadDocument> {
    let own = fields
        .get(ID)
        .map(|value| to_field(ID, value))
        .transpose()?;
    let own = own.unwrap_or_else(|| id(crate::RequestId::random().as_str()));
    // The id comes first, as it shows the version; see `DocArrayVersion::of`.
    let mut message = BytesMut::new();
    message.put(v2::entry(ID, &own));
    for (name, value) in fields.iter().filter(|(name, _)| *name != ID) {
        message.put(v2::entry(name, &to_field(name, value)?));
    }
    Document::decode(DocArrayVersion::V2, message.freeze())
}

/// A field of a document. Some names have types that their JSON does not show.
fn to_field(name: &str, value: &Value) -> Result<NodeProto, BadDocument> {
    match (name, value) {
        (_, Value::Null) => Ok(NodeProto::default()),
        (ID, _) => Ok(id(text(name, value)?)),
        ("embedding" | "tensor", _) => Ok(v2::array(&to_tensor(name, value)?)),
        ("chunks" | "matches", _) => {
            let docs = documents(name, value)?;
            let docs = docs
                .iter()
                .map(|document| DocProto::decode(document.encode()));
            let docs = docs
                .collect::<Result<_, _>>()
                .map_err(|error| undecodable(name, error))?;
            Ok(plain(Content::DocArray(DocListProto { docs })))
        }
        _ => Ok(to_node(value)),
    }
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
        .map(|item| Document::from_json(DocArrayVersion::V2, item))
        .collect()
}
